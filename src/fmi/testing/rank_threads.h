// Ranks as threads of the test, on a board of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "fmi/messenger.h"
#include "os/memory/other_process.h"

namespace kedge::fmi::testing {

inline Board NewBoard(uint32_t ranks) {
  auto board = Board::Create(ranks);
  KEDGE_CHECK(board.ok());
  board->SetEpoch(1, /*has_finished=*/false);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    board->row(rank).process_id = os::ThisProcess();
    board->row(rank).is_here = 1;
  }
  return std::move(*board);
}

// Each rank has adopted the board's epoch.
inline void RunRanks(Board* board, const std::function<void(Messenger& messenger)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < board->ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      Messenger messenger(board, rank);
      messenger.Adopt(board->epoch());
      body(messenger);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kedge::fmi::testing
