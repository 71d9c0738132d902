// See history.h.
#include "tests/histories/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <span>
#include <sstream>

namespace kedge::histories {
namespace {

const std::set<std::string> kVerbs = {
    "launch",        "restart",      "newest",        "look",         "test",           "checkpoint",   "wait",
    "pending",       "end",          "kill",          "freeze",       "thaw",           "rival",        "kill-agent",
    "stop-agent",    "flip",         "store",         "lose-node",    "continue-agent", "delete-pool",  "fail-rank",
    "die-rank",      "settle",       "power-cut",     "cut-node",     "join-node",      "step-clock",   "stop-rank",
    "continue-rank", "gc",           "read",          "die-node",     "buffer-away",    "buffer-still", "buffer-lost",
    "buffer-back",   "partner-away", "partner-still", "partner-lost", "partner-back"};
const std::set<std::string> kTiers = {"beside", "alone", "scratch"};
const std::set<std::string> kBuckets = {"small", "large"};
const std::vector<std::string> kBufferWords = {"drains", "partner"};

}  // namespace

std::string Setup::Key(const std::string& name, const std::string& otherwise) const {
  for (const auto& [key, value] : keys) {
    if (key == name) return value;
  }
  return otherwise;
}

int64_t Setup::Number(const std::string& name, int64_t otherwise) const {
  const std::string text = Key(name, "");
  return text.empty() ? otherwise : std::atoll(text.c_str());
}

int Setup::LossesSurvived() const {
  if (!Protects()) return 0;
  const std::string scheme = Key("protect.scheme", "none");
  if (scheme == "partner") return static_cast<int>(Number("protect.copies", 1));
  return scheme == "rs" ? static_cast<int>(Number("protect.losses", 2)) : 1;
}

bool Step::Has(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

int64_t Step::Number(size_t n, int64_t otherwise) const {
  const bool is_number = n < words.size() && words[n].find_first_not_of("-0123456789") == std::string::npos;
  return is_number ? std::atoll(words[n].c_str()) : otherwise;
}

std::vector<int> Step::List(const std::string& before) const {
  std::vector<int> numbers;
  const auto found = std::find(words.begin(), words.end(), before);
  if (found == words.end() || found + 1 == words.end()) return numbers;
  std::istringstream text(*(found + 1));
  for (std::string number; std::getline(text, number, ',');) numbers.push_back(std::atoi(number.c_str()));
  return numbers;
}

std::string Step::ToString() const {
  std::string text = (late ? "late " : "") + verb;
  for (const std::string& word : words) text += " " + word;
  return text;
}

std::string History::ToString() const {
  std::string text = fmt::format("ranks {}\nnodes {}\n", setup.ranks, setup.nodes);
  if (setup.divided) text += "divided\n";
  if (!setup.tier.empty()) text += "tier " + setup.tier + "\n";
  if (!setup.bucket.empty()) text += "bucket " + setup.bucket + "\n";
  if (setup.buffer) text += setup.partner ? "buffer drains partner\n" : setup.drains ? "buffer drains\n" : "buffer\n";
  for (const auto& [key, value] : setup.keys) text += fmt::format("key {} {}\n", key, value);
  for (const Step& step : steps) text += step.ToString() + "\n";
  return text;
}

Step ParseStep(const std::string& line) {
  Step step;
  std::istringstream words(line);
  words >> step.verb;
  step.late = step.verb == "late";
  if (step.late) words >> step.verb;
  for (std::string word; words >> word;) step.words.push_back(word);
  return step;
}

Result<History> ParseHistory(const std::string& text) {
  History history;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const Step step = ParseStep(line);
    if (step.verb.empty() || step.verb[0] == '#') continue;
    if (step.verb == "ranks") {
      history.setup.ranks = static_cast<int>(step.Number(0, 0));
    } else if (step.verb == "nodes") {
      history.setup.nodes = static_cast<int>(step.Number(0, 0));
    } else if (step.verb == "divided") {
      history.setup.divided = true;
    } else if (step.verb == "key" && step.words.size() == 2) {
      history.setup.keys.emplace_back(step.words[0], step.words[1]);
    } else if (step.verb == "tier" && step.words.size() == 1 && kTiers.contains(step.words[0])) {
      history.setup.tier = step.words[0];
    } else if (step.verb == "bucket" && step.words.size() == 1 && kBuckets.contains(step.words[0])) {
      history.setup.bucket = step.words[0];
    } else if (step.verb == "buffer" &&
               std::ranges::equal(step.words, std::span(kBufferWords).first(std::min<size_t>(2, step.words.size())))) {
      history.setup.buffer = true;
      history.setup.drains = !step.words.empty();
      history.setup.partner = step.words.size() > 1;
    } else if (kVerbs.contains(step.verb)) {
      history.steps.push_back(step);
    } else {
      return Status(Code::kInvalidArgument, fmt::format("line {}: \"{}\" is no step of a history", number, line));
    }
  }
  if (history.setup.ranks < 1 || history.setup.nodes < 1) return Status(Code::kInvalidArgument, "no ranks, or no nodes");
  return history;
}

}  // namespace kedge::histories
