// What one rank of a history does with Kedge: through kedge.h alone, with a memory whose content follows from who wrote it when
// (pattern.h). The actor of a real history (actor.cc) and a thread of a simulated one (simulated_world.h) make the same calls.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kedge/kedge.h"
#include "tests/histories/pattern.h"
#include "tests/histories/world.h"

namespace kedge::histories {

// Of what a checkpoint routes.
inline constexpr size_t kFileBytes = 5000;

// What a rank of a launch has.
struct Share {
  int rank = 0;
  int ranks = 1;
  size_t bytes = 0;      // of one rank; of all ranks, where they have parts of it
  bool divided = false;  // in whole lines
  size_t FirstLine(int of_rank) const { return bytes / kLineBytes * static_cast<size_t>(of_rank) / static_cast<size_t>(ranks); }
};

class RankCalls {
 public:
  RankCalls(const Share& share, int launch);
  RankCalls(const RankCalls&) = delete;
  RankCalls& operator=(const RankCalls&) = delete;

  // `bootstrap` null: the only rank.
  Answer Begin(const kedge_bootstrap* bootstrap, const std::string& overrides);
  // `in_parts`: region by region, of the version that is said to be the newest. A version of some regions only is restored
  // like that in any case.
  Answer Restart(int64_t at_most, bool in_parts);
  // Of exactly that version, to look at it.
  Answer Read(int64_t version);
  // What the next checkpoint is to take, which is told to be that version and taking.
  Answer Write(int64_t version, int taking);
  // `file`: the path that a routed file is to have.
  Answer Checkpoint(const CheckpointCall& call, const std::string& file);
  Answer Wait(int64_t version, kedge_level level);
  Answer Test(int64_t version);
  Answer Newest(int64_t at_most);
  Answer Pending();
  Answer End(bool drain);

 private:
  void Forget();
  int RestartInParts(int64_t at_most, int64_t* version);
  int RestartPartial(int64_t at_most, int64_t* version);
  // The regions that the version has which a restart has begun with, one by one, and the restart's end.
  int RestoreSaved();
  // And what the memory says of itself, when the call brought something back.
  Answer WithContent(Answer answer) const;
  // Of all parts and replicas of an array.
  Tag InArrays(Tag tag) const;
  Answer WithParts(Answer answer) const;
  int Protect();
  int Take(const CheckpointCall& call, const std::string& file);
  void GoOn();

  const Share share_;
  const size_t first_line_;
  const int launch_;
  kedge_context* context_ = nullptr;
  bool has_small_ = true;  // what was restored last has that region
  Tag written_;
  std::string small_;
  // As an application has it whose arrays are large: it begins with a page.
  const std::unique_ptr<char, void (*)(void*)> pages_;
  const std::span<char> memory_;
};

}  // namespace kedge::histories
