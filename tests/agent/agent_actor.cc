// A client process that tests kill, stop and watch: does what its arguments say, in order, and tells on stdout.
//
//   agent_actor RUN_FOLDER STORE RANK RANKS[:local] ACTION...     local: nothing is scheduled for the store
//   capture:VERSION:BYTES   a whole image        half:VERSION:BYTES   all of one but its end
//   end                     the end of a half    until:PATH           until the file is there
//   stop                    itself, as by SIGSTOP
//   hold:N                  N full slots         wait:VERSION         until it is in the store
//   pause                   for ever             goodbye
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> words(1);
  for (char c : text) c == ':' ? void(words.emplace_back()) : words.back().push_back(c);
  return words;
}

Status Act(AgentClient& client, const std::vector<std::string>& words) {
  const std::string& verb = words[0];
  const int64_t number = words.size() > 1 ? std::atoll(words[1].c_str()) : 0;
  const Generation generation = client.GenerationOf("ckpt", number);
  const size_t bytes = words.size() > 2 ? static_cast<size_t>(std::atoll(words[2].c_str())) : 0;
  if (verb == "capture") return client.Capture(generation, bytes);
  if (verb == "half") return client.CaptureButEnd(generation, bytes);
  if (verb == "end") return client.SendEnd();
  if (verb == "until") {
    const bool there = WaitFor([&] { return std::filesystem::exists(words[1]); }, std::chrono::seconds(60));
    return there ? Status::Ok() : Status(Code::kTimeout, words[1]);
  }
  if (verb == "stop") return raise(SIGSTOP) == 0 ? Status::Ok() : Status(Code::kInternal, "raise");
  if (verb == "goodbye") return client.Goodbye();
  if (verb == "hold") {
    for (int64_t i = 0; i < number; ++i) {
      KEDGE_ASSIGN_OR_RETURN(const AssignPlace answer,
                             client.Request(PlaceKind::kFullChunk, client.attachment().welcome.chunk_bytes));
      if (answer.outcome != AssignOutcome::kSlot) return Status(Code::kNoSpace, "no slot");
    }
    return Status::Ok();
  }
  if (verb == "wait") {
    KEDGE_ASSIGN_OR_RETURN(LevelReply reply, client.Wait(generation, Level::kStore));
    return reply.failure;
  }
  if (verb == "pause") {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  return Status(Code::kInvalidArgument, "no such action");
}

int Main(int argc, char** argv) {
  if (argc < 6) return 2;
  ClientOptions options;
  options.run_folder = argv[1];
  options.keys.store_path = argv[2];
  options.rank = static_cast<uint32_t>(std::atoi(argv[3]));
  const std::vector<std::string> ranks = Split(argv[4]);
  options.ranks = static_cast<uint32_t>(std::atoi(ranks[0].c_str()));
  if (ranks.size() > 1) options.keys.schedule_store = 0;
  AgentClient client(options);
  Status status = client.Attach();
  for (int i = 5; i < argc && status.ok(); ++i) {
    std::printf("doing %s\n", argv[i]);
    std::fflush(stdout);
    status = Act(client, Split(argv[i]));
    std::printf("done %s\n", argv[i]);
    std::fflush(stdout);
  }
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace kedge::testing

int main(int argc, char** argv) {
  return kedge::testing::Main(argc, argv);
}
