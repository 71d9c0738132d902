// One rank of a history with real processes: does what it is told on its standard input, a line a call, and answers each on its
// standard output with "CODE VERSION RANK VERSION LAUNCH TAKING PARTIAL MESSAGE", where the four in the middle are what the
// memory says of itself, or -1.
//
//   histories_actor RENDEZVOUS RANK RANKS LAUNCH BYTES own|divided OVERRIDES
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/histories/actor_system.h"
#include "tests/histories/rank_calls.h"

namespace kedge::histories {
namespace {

void Say(Answer answer) {
  for (char& letter : answer.message) letter = letter == '\n' ? ' ' : letter;
  const Tag tag = answer.content.value_or(Tag{});
  std::cout << answer.code << ' ' << answer.version << ' ' << tag.rank << ' ' << tag.version << ' ' << tag.launch << ' '
            << tag.taking << ' ' << answer.partial << ' ' << answer.message << std::endl;
}

Answer Begin(RankCalls* calls, const char* rendezvous, int rank, int ranks, const char* overrides) {
  if (ranks == 1) return calls->Begin(nullptr, overrides);
  kedge_bootstrap bootstrap{};
  const int code = kedge_rendezvous(rendezvous, rank, ranks, 30, &bootstrap);
  if (code == KEDGE_OK) return calls->Begin(&bootstrap, overrides);
  Answer answer;
  answer.code = code;
  answer.message = kedge_error_message();
  return answer;
}

// The store call that is to fail: CALLS ERRNO SKIP PATH.
Answer Fail(std::istringstream& words) {
  os::testing::FaultRule rule;
  words >> rule.calls >> rule.errno_value >> rule.skip >> rule.path_contains;
  OwnFaults().Clear();
  OwnFaults().Add(rule);
  return {};
}

// VERSION FLAGS FILE: o overwrite, p in parts, s of some regions, f with a routed file, a abandoned, w goes on writing.
Answer Checkpoint(RankCalls* calls, std::istringstream& words) {
  CheckpointCall call;
  std::string flags, file;
  words >> call.version >> flags >> file;
  const auto has = [&](char flag) { return flags.find(flag) != std::string::npos; };
  call.overwrite = has('o');
  call.parts = has('p');
  call.some = has('s');
  call.file = has('f');
  call.abandon = has('a');
  call.goes_on = has('w');
  return calls->Checkpoint(call, file);
}

Answer Mend() {
  OwnFaults().Clear();
  return {};
}

Answer Do(RankCalls* calls, const std::string& verb, std::istringstream& words) {
  if (verb == "checkpoint") return Checkpoint(calls, words);
  if (verb == "fail") return Fail(words);
  if (verb == "mend") return Mend();
  if (verb == "pending") return calls->Pending();
  int64_t number = 0;
  int level = 0;
  words >> number >> level;
  if (verb == "write") return calls->Write(number, level);
  if (verb == "wait") return calls->Wait(number, static_cast<kedge_level>(level));
  if (verb == "restart" || verb == "restart-parts") return calls->Restart(number, verb == "restart-parts");
  if (verb == "read") return calls->Read(number);
  if (verb == "newest") return calls->Newest(number);
  if (verb == "test") return calls->Test(number);
  if (verb == "end") return calls->End(number != 0);
  std::exit(2);
}

int Main(char** argv) {
  const Share share{std::atoi(argv[2]), std::atoi(argv[3]), static_cast<size_t>(std::atoll(argv[5])),
                    std::string(argv[6]) == "divided"};
  RankCalls calls(share, std::atoi(argv[4]));
  const Answer begun = Begin(&calls, argv[1], share.rank, share.ranks, argv[7]);
  Say(begun);
  std::string verb;
  for (std::string line; begun.ok() && verb != "end" && std::getline(std::cin, line);) {
    std::istringstream words(line);
    words >> verb;
    Say(Do(&calls, verb, words));
  }
  return 0;
}

}  // namespace
}  // namespace kedge::histories

int main(int argc, char** argv) {
  return argc == 8 ? kedge::histories::Main(argv) : 2;
}
