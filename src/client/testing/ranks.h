// Several ranks in one process, each a thread, which find each other through the product's own bootstrap over a folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/ranks/collective.h"
#include "client/ranks/rendezvous.h"
#include "os/files/private_files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::client::testing {

// What `body`, given a rank's Collective, returns on each of them. A rank that leaves out a collective call makes the others'
// fail after ten seconds.
template <typename Body>
auto OnRanks(uint32_t ranks, Body body) {
  using Answer = std::invoke_result_t<Body, Collective>;
  const os::testing::TemporaryFolder folder("/dev/shm");
  std::vector<std::optional<Answer>> answers(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const RendezvousOptions options{folder.path(), rank, ranks, std::chrono::seconds(10)};
      auto rendezvous = Rendezvous::Open(os::PrivateFileSystem(), options).value();
      answers[rank].emplace(body(Collective(Rendezvous::ToBootstrap(std::move(rendezvous)))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Answer> all;
  for (std::optional<Answer>& answer : answers) all.push_back(std::move(*answer));
  return all;
}

}  // namespace kedge::client::testing
