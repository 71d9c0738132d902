// What a bounded copy-on-write buffer would change [AI-Ckpt], played on paper: pages whose writer waits (RED), pages copied to
// the buffer (YELLOW), and how long the program waits, by the buffer's size and the order of flushing.
//
//   cow-orders [--pages 1000] [--step 0.25] [--reading 0.75] [--checkpoints 4]
//
// The memory is that of examples/storm: five eighths are cold; then come three arrays that each step writes at the same pace, the
// last of them in a tenth of its pages. A step begins with the checkpoint, takes so much of the time in which all pages are
// flushed, and only reads in its first part. As in the paper, a page that is written before its flush goes to the buffer, where
// that has room, and is flushed from there before all others; where it has none its writer waits, and the page is flushed next.
// All else follows an order:
//   addresses   no pattern
//   colours     the paper's: RED, YELLOW, GREEN, BLUE of the checkpoint before, each in the order of first writes
//   writes      the product's (capture/copy_order.h), which knows who found a page not flushed
// Prints one JSON object a line: the last of the checkpoints, for each order and size of the buffer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "arguments.h"
#include "capture/copy_order.h"

namespace kedge::bench {
namespace {

constexpr double kBuffers[] = {0, 0.5, 1, 2, 4, 8, 16, 25};  // of the memory, in percent
constexpr int64_t kNanoseconds = 1'000'000;                  // of a unit of time

enum class Colour { kRed, kYellow, kGreen, kBlue };

struct Page {
  Colour colour = Colour::kBlue;
  double first_write = 0;
};

struct Outcome {
  std::vector<Page> pages;
  size_t red = 0, yellow = 0;
  double waited = 0;
};

// In the order in which a step writes them.
std::vector<uint32_t> WritesOf(uint32_t pages) {
  const uint32_t array = pages / 8, first = pages - 3 * array;
  std::vector<uint32_t> writes;
  for (uint32_t i = 0; i < array; ++i) {
    writes.push_back(first + i);
    writes.push_back(first + array + i);
    if (i % 10 == 0) writes.push_back(first + 2 * array + i);
  }
  return writes;
}

class Checkpoint {
 public:
  Checkpoint(const std::vector<uint32_t>& order, size_t buffer) : order_(order), buffer_pages_(buffer), done_(order.size()) {
    outcome_.pages.resize(order.size());
  }

  Outcome Play(const std::vector<uint32_t>& writes, double reading, double writing) && {
    double now = reading;
    for (const uint32_t number : writes) {
      now += writing / static_cast<double>(writes.size());
      FlushUntil(now);
      Page& page = outcome_.pages[number];
      page.first_write = now;
      if (done_[number]) {
        page.colour = next_ < order_.size() || !buffer_.empty() ? Colour::kGreen : Colour::kBlue;
      } else if (buffer_.size() < buffer_pages_) {
        page.colour = Colour::kYellow;
        ++outcome_.yellow;
        buffer_.push_back(number);
      } else {
        page.colour = Colour::kRed;
        ++outcome_.red;
        outcome_.waited += WaitFor(number, now);
        now = flushed_until_;
      }
    }
    return std::move(outcome_);
  }

 private:
  // False: all is flushed.
  bool FlushOne() {
    uint32_t number = 0;
    if (!buffer_.empty()) {
      number = buffer_.front();
      buffer_.pop_front();
    } else {
      while (next_ < order_.size() && done_[order_[next_]]) ++next_;
      if (next_ == order_.size()) return false;
      number = order_[next_++];
    }
    done_[number] = true;
    flushed_until_ += 1;
    return true;
  }
  // What is under way then goes on.
  void FlushUntil(double now) {
    while (flushed_until_ + 1 <= now && FlushOne()) {
    }
  }
  double WaitFor(uint32_t number, double now) {
    if (flushed_until_ < now) FlushOne();  // it was under way
    if (!done_[number]) flushed_until_ = std::max(flushed_until_, now) + 1;
    done_[number] = true;
    return flushed_until_ - now;
  }

  const std::vector<uint32_t>& order_;
  const size_t buffer_pages_;
  std::vector<bool> done_;
  std::deque<uint32_t> buffer_;
  size_t next_ = 0;
  double flushed_until_ = 0;
  Outcome outcome_;
};

std::vector<uint32_t> ByColour(const std::vector<Page>& pages) {
  std::vector<uint32_t> order(pages.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(pages[a].colour, pages[a].first_write) < std::tuple(pages[b].colour, pages[b].first_write);
  });
  return order;
}

struct Program {
  uint32_t pages = 1000;
  double step = 0.25;     // of the time in which all pages are flushed
  double reading = 0.75;  // of a step
  int checkpoints = 4;
};

Outcome PlayAll(const Program& program, const std::string& ordered_by, size_t buffer) {
  const uint32_t pages = program.pages;
  const double step = program.step * pages;  // a page is flushed in one unit
  const std::vector<uint32_t> writes = WritesOf(pages);
  std::vector<uint64_t> addresses(pages);
  std::iota(addresses.begin(), addresses.end(), 0);
  CopyOrder history;
  Outcome outcome;
  outcome.pages.resize(pages);
  for (int i = 0; i < program.checkpoints; ++i) {
    std::vector<uint32_t> order = history.Of(addresses);
    if (ordered_by == "colours") order = ByColour(outcome.pages);
    outcome = Checkpoint(order, buffer).Play(writes, step * program.reading, step * (1 - program.reading));
    std::vector<CopyOrder::Waited> late;
    for (uint32_t page = 0; page < pages; ++page) {
      const auto& [colour, first_write] = outcome.pages[page];
      const bool is_late = colour == Colour::kRed || colour == Colour::kYellow;
      if (is_late) late.push_back({page, static_cast<int64_t>(first_write * kNanoseconds)});
    }
    if (ordered_by == "writes") history.Learn(addresses, late);
  }
  return outcome;
}

int Main(int argc, char** argv) {
  CLI::App app{"What a bounded copy-on-write buffer would change, on paper."};
  Program program;
  int code = 0;
  app.add_option("--pages", program.pages, "of the memory")->check(CLI::Range(80, 1'000'000));
  app.add_option("--step", program.step, "what a step takes, of the time in which all pages are flushed")
      ->check(CLI::PositiveNumber);
  app.add_option("--reading", program.reading, "the part of a step before its first write")->check(CLI::Range(0.0, 1.0));
  app.add_option("--checkpoints", program.checkpoints, "of which the last one counts")->check(CLI::Range(1, 100));
  if (!ParseArguments(app, argc, argv, &code)) return code;
  for (const char* order : {"addresses", "colours", "writes"}) {
    for (const double percent : kBuffers) {
      const auto buffer = static_cast<size_t>(percent / 100 * program.pages);
      const Outcome outcome = PlayAll(program, order, buffer);
      fmt::print(R"({{"order":"{}","buffer_percent":{},"written":{},"red":{},"yellow":{},"waited":{:.3f}}})"
                 "\n",
                 order, percent, WritesOf(program.pages).size(), outcome.red, outcome.yellow, outcome.waited);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kedge::bench

int main(int argc, char** argv) {
  return kedge::bench::Main(argc, argv);
}
