// A bootstrap over a folder that all ranks share, for programs without MPI.
//
// In the folder each rank says hello with a nonce of its own (HELLO.R). Rank 0 reads them all and writes `launch`: an id and the
// nonces that it saw; a rank that finds its nonce there answers in the folder of that id. What an earlier launch left is thereby
// told from what is meant: its nonces are none of now, and when a rank's hello changes rank 0 makes another launch of it. After
// that each exchange is numbered: in an allgather every rank writes N.R, and rank 0 puts them together in N.all, which all read,
// so that the folder sees ranks, not ranks squared, of files read; a broadcast is its root's N.all. Whoever has read the N.all of
// an allgather knows that all ranks are done with what came before it; rank 0 removes that, and after many broadcasts without one
// there is one more, for that alone. Files appear whole (rename).
//
// One thread at a time. Every wait ends, and is logged with who is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "kedge/kedge.h"
#include "os/files/file_system.h"

namespace kedge::client {

struct RendezvousOptions {
  std::string folder;  // made if need be
  uint32_t rank = 0;
  uint32_t ranks = 1;
  Duration timeout{};  // of each wait for other ranks
};

class Rendezvous {
 public:
  // Collective: returns when all ranks are there. kTimeout names the first that is not.
  static Result<std::unique_ptr<Rendezvous>> Open(os::FileSystem& fs, RendezvousOptions options);

  // Every rank's `mine`, all of one length, one after the other.
  Result<std::string> AllGather(std::string_view mine);
  Result<std::string> Broadcast(std::string_view mine, uint32_t root, size_t bytes);

  // For kedge_init, which owns `rendezvous` from then on.
  static kedge_bootstrap ToBootstrap(std::unique_ptr<Rendezvous> rendezvous);

 private:
  Rendezvous(os::FileSystem& fs, RendezvousOptions options) : fs_(fs), options_(std::move(options)) {}
  Status Gather();
  Status Attend();
  std::string HelloPath(uint32_t rank) const;
  Status Write(const std::string& path, std::string_view content);
  // Waits until the file is there. `whose` is missing as long as it is not.
  Result<std::string> Await(const std::string& path, size_t bytes_max, uint32_t whose, const Deadline& deadline);
  void RemoveBefore(uint64_t number);

  os::FileSystem& fs_;
  const RendezvousOptions options_;
  std::string launch_folder_;
  uint64_t number_ = 0;    // of the newest exchange
  uint64_t removed_ = 1;   // exchanges below it have left nothing
  uint64_t gathered_ = 0;  // the newest allgather
};

}  // namespace kedge::client
