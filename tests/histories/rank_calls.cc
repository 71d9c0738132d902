// See rank_calls.h.
#include "tests/histories/rank_calls.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace kedge::histories {
namespace {

constexpr size_t kPageBytes = 4096;

Answer AnswerOf(int code) {
  Answer answer;
  answer.code = code;
  if (code != KEDGE_OK) answer.message = kedge_error_message();
  return answer;
}

}  // namespace

RankCalls::RankCalls(const Share& share, int launch)
    : share_(share),
      first_line_(share.divided ? share.FirstLine(share.rank) : 0),
      launch_(launch),
      small_(kLineBytes, ' '),
      pages_(static_cast<char*>(std::aligned_alloc(kPageBytes, (share.bytes + kPageBytes - 1) / kPageBytes * kPageBytes)),
             std::free),
      memory_(pages_.get(), share.divided ? (share.FirstLine(share.rank + 1) - first_line_) * kLineBytes : share.bytes) {
  Forget();
}

int RankCalls::Protect() {
  if (!share_.divided) {
    const int code = kedge_protect(context_, 0, memory_.data(), memory_.size(), 1, nullptr);
    return code == KEDGE_OK ? kedge_protect(context_, 1, small_.data(), small_.size(), 1, nullptr) : code;
  }
  kedge_region_info lines{};
  lines.struct_size = sizeof lines;
  lines.name = "lines";
  lines.dimensions = 1;
  lines.shape[0] = static_cast<int64_t>(memory_.size() / kLineBytes);
  lines.global_shape[0] = static_cast<int64_t>(share_.FirstLine(share_.ranks));
  lines.global_offset[0] = static_cast<int64_t>(first_line_);
  const int code = kedge_protect(context_, 0, memory_.data(), memory_.size() / kLineBytes, kLineBytes, &lines);
  kedge_region_info replica = lines;
  replica.name = "line";
  replica.shape[0] = replica.global_shape[0] = 1;
  replica.global_offset[0] = 0;
  return code == KEDGE_OK ? kedge_protect(context_, 1, small_.data(), 1, kLineBytes, &replica) : code;
}

Answer RankCalls::Begin(const kedge_bootstrap* bootstrap, const std::string& overrides) {
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  int code = kedge_init(&options, bootstrap, &context_);
  if (code == KEDGE_OK) code = Protect();
  return AnswerOf(code);
}

// In place: the addresses are protected.
Answer RankCalls::Write(int64_t version, int taking) {
  written_ = {share_.rank, version, launch_, taking};
  WriteContent(InArrays(written_), memory_, first_line_);
  WriteContent(InArrays(written_), small_);
  return {};
}

Tag RankCalls::InArrays(Tag tag) const {
  if (share_.divided) tag.rank = 0;
  return tag;
}

Answer RankCalls::Checkpoint(const CheckpointCall& call, const std::string& file) {
  const Answer answer = AnswerOf(Take(call, file));
  if (answer.ok() && call.goes_on) GoOn();
  return answer;
}

// Writes what is no image where a capture comes late, from the end on, and leaves the rest: that is still being captured when the
// rank has answered.
void RankCalls::GoOn() {
  std::ranges::fill(memory_.last(memory_.size() / 8), '-');
  std::ranges::fill(small_, '-');
}

int RankCalls::Take(const CheckpointCall& call, const std::string& file) {
  const unsigned how = call.overwrite ? KEDGE_OVERWRITE : 0;
  if (call.IsWhole()) return kedge_checkpoint(context_, kName, call.version, how);
  int code = kedge_checkpoint_begin(context_, kName, call.version, how);
  const int first = 0;
  if (code == KEDGE_OK && (call.parts || call.some)) code = kedge_checkpoint_part(context_, KEDGE_SOME, &first, 1);
  if (code == KEDGE_OK && !call.some) code = kedge_checkpoint_part(context_, KEDGE_REST, nullptr, 0);
  if (code == KEDGE_OK && call.file) {
    char routed[4096];
    code = kedge_route_file(context_, file.c_str(), routed, sizeof routed);
    if (code == KEDGE_OK) std::ofstream(routed) << ContentOf(written_, kFileBytes);
  }
  return code == KEDGE_OK ? kedge_checkpoint_end(context_, call.abandon ? 0 : 1) : code;
}

void RankCalls::Forget() {
  has_small_ = true;
  std::ranges::fill(memory_, ' ');
  std::ranges::fill(small_, ' ');
}

// What is said to be the newest may go for a newer one before the restart begins.
int RankCalls::RestartInParts(int64_t at_most, int64_t* version) {
  int code = KEDGE_ERROR_NOT_FOUND;
  for (int tries = 0; tries < 3 && code == KEDGE_ERROR_NOT_FOUND; ++tries) {
    code = kedge_newest(context_, kName, at_most, version);
    if (code != KEDGE_OK) return code;
    code = kedge_restart_begin(context_, kName, *version);
  }
  return code == KEDGE_OK ? RestoreSaved() : code;
}

int RankCalls::RestoreSaved() {
  int ids[2];
  size_t count = 0;
  int code = kedge_saved_ids(context_, ids, 2, &count);
  has_small_ = count == 2;
  for (size_t i = count; i > 0 && code == KEDGE_OK; --i) code = kedge_restart_part(context_, KEDGE_SOME, &ids[i - 1], 1);
  // What one rank fails in, all hear here.
  return kedge_restart_end(context_, code == KEDGE_OK ? 1 : 0);
}

// As a whole restart: what fails once is tried again, and what cannot be read is passed over.
int RankCalls::RestartPartial(int64_t at_most, int64_t* version) {
  int failure = KEDGE_OK;
  for (int64_t bound = at_most;; bound = *version - 1) {
    int code = KEDGE_OK;
    for (int tries = 0; tries < 3; ++tries) {
      code = RestartInParts(bound, version);
      if (code == KEDGE_OK || code == KEDGE_ERROR_NOT_FOUND || code == KEDGE_ERROR_LOST || code == KEDGE_ERROR_BUSY) break;
    }
    if (code == KEDGE_OK || code == KEDGE_ERROR_BUSY) return code;
    const bool is_none = code == KEDGE_ERROR_NOT_FOUND || code == KEDGE_ERROR_LOST;
    if (is_none) return failure == KEDGE_OK ? code : failure;
    failure = code;
    if (*version <= 0) return failure;
  }
}

Answer RankCalls::Restart(int64_t at_most, bool in_parts) {
  Forget();
  int64_t version = -1;
  int code = in_parts ? RestartInParts(at_most, &version) : kedge_restart(context_, kName, at_most, &version);
  if (!in_parts && code == KEDGE_ERROR_MISMATCH) code = RestartPartial(at_most, &version);
  Answer answer = AnswerOf(code);
  answer.version = version;
  return WithContent(std::move(answer));
}

Answer RankCalls::Read(int64_t version) {
  Forget();
  int code = kedge_load_begin(context_, kName, version);
  if (code == KEDGE_OK) code = RestoreSaved();
  Answer answer = AnswerOf(code);
  answer.version = version;
  return WithContent(std::move(answer));
}

Answer RankCalls::WithContent(Answer answer) const {
  if (answer.code != KEDGE_OK) return answer;
  if (share_.divided) return WithParts(std::move(answer));
  answer.partial = !has_small_;
  const auto tag = ReadContent({memory_.data(), memory_.size()}, &answer.message);
  const auto small_tag = has_small_ ? ReadContent(small_, &answer.message) : tag;
  if (!tag || !small_tag) return answer;
  if (PatternOf(*tag) == PatternOf(*small_tag)) {
    answer.content = tag;
  } else {
    answer.message = "one region is of " + PatternOf(*tag) + ", the other of " + PatternOf(*small_tag);
  }
  return answer;
}

Answer RankCalls::WithParts(Answer answer) const {
  auto tag = ReadContent(small_, &answer.message);
  if (!tag || !HasContent(*tag, {memory_.data(), memory_.size()}, first_line_, &answer.message)) return answer;
  tag->rank = share_.rank;
  answer.content = tag;
  return answer;
}

Answer RankCalls::Wait(int64_t version, kedge_level level) {
  return AnswerOf(kedge_wait(context_, kName, version, level, -1));
}

Answer RankCalls::Test(int64_t version) {
  kedge_level level = KEDGE_LEVEL_NONE;
  Answer answer = AnswerOf(kedge_test(context_, kName, version, &level));
  answer.version = level;
  return answer;
}

Answer RankCalls::Newest(int64_t at_most) {
  int64_t version = -1;
  Answer answer = AnswerOf(kedge_newest(context_, kName, at_most, &version));
  answer.version = version;
  return answer;
}

Answer RankCalls::Pending() {
  return AnswerOf(kedge_pending(context_));
}

Answer RankCalls::End(bool drain) {
  if (context_ == nullptr) return {};
  kedge_context* const context = context_;
  context_ = nullptr;
  return AnswerOf(kedge_finalize(context, drain ? 1 : 0));
}

}  // namespace kedge::histories
