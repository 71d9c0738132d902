#include "tools/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/keys.h"

namespace kedge::tools {
namespace {

// Takes what stands before the first dot off a text.
std::string TakePart(std::string* text) {
  const size_t dot = text->find('.');
  const std::string part = text->substr(0, dot);
  *text = dot == std::string::npos ? "0" : text->substr(dot + 1);
  return part;
}

// VERSION[.ATTEMPT[.TAKE]]
std::optional<TargetVersion> ParseVersion(std::string text) {
  const std::string digits = TakePart(&text);
  const std::optional<uint32_t> attempt = keys::ParseNumber(TakePart(&text));
  const std::optional<uint32_t> take = keys::ParseNumber(text);
  const bool is_number = !digits.empty() && digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!attempt || !take || !is_number) return std::nullopt;
  return TargetVersion{std::stoll(digits), *attempt, *take};
}

// Of one job: NAME[@VERSION[.ATTEMPT[.TAKE]]]. `is_wrong`: a name of it stands before an '@' that no version follows.
std::optional<Target> FindInJob(const std::string& job, const std::vector<std::string>& names, const std::string& text,
                                bool* is_wrong) {
  const auto is_name = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (is_name(text)) return Target{job, text, {}};
  const size_t at = text.rfind('@');
  if (at == std::string::npos || !is_name(text.substr(0, at))) return std::nullopt;
  const std::optional<TargetVersion> version = ParseVersion(text.substr(at + 1));
  if (!version) *is_wrong = true;
  return version ? std::optional(Target{job, text.substr(0, at), version}) : std::nullopt;
}

}  // namespace

bool TargetVersion::Means(const Generation& generation) const {
  return generation.version == version && (attempt == 0 || generation.attempt == attempt) &&
         (take == 0 || generation.take == take);
}

std::string Target::ToString() const {
  if (name.empty()) return job;
  if (!version) return job + '/' + name;
  const std::string attempt = version->attempt == 0 ? "" : fmt::format(".{}", version->attempt);
  const std::string take = version->take == 0 ? "" : fmt::format(".{}", version->take);
  return fmt::format("{}/{}@{}{}{}", job, name, version->version, attempt, take);
}

Result<std::vector<Target>> FindTargets(const std::string& text, const JobNames& jobs, TargetForm form) {
  std::vector<Target> found;
  bool is_wrong = false;
  const auto add = [&](std::optional<Target> target) {
    if (target) found.push_back(*std::move(target));
  };
  for (const auto& [job, names] : jobs) {
    const bool is_job = form != TargetForm::kName && text == job;
    const std::optional<Target> in_job = is_job ? Target{job, {}, {}} : FindInJob(job, names, text, &is_wrong);
    if (is_job || form != TargetForm::kFromJob || (in_job && in_job->version)) add(in_job);
    if (text.starts_with(job + '/')) add(FindInJob(job, names, text.substr(job.size() + 1), &is_wrong));
  }
  if (found.empty() && is_wrong) {
    return Status(Code::kInvalidArgument,
                  fmt::format("\"{}\": expected VERSION, VERSION.ATTEMPT or VERSION.ATTEMPT.TAKE after the '@'", text));
  }
  return found;
}

}  // namespace kedge::tools
