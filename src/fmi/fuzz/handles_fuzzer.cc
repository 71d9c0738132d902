// What a checkpoint says of a rank's handles, as anything may have left it: it is refused, or stands for what is written and read
// again as the same.
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/messenger.h"
#include "fmi/objects.h"
#include "format/wire.h"

namespace kedge::fmi {
namespace {

struct Rank {
  Rank() : board(Board::Create(4).value()), messenger(&board, 1) {}
  Board board;
  Messenger messenger;
};

void Check(ByteSpan bytes) {
  static Rank rank;
  Objects objects(&rank.messenger);
  if (!objects.Restore(bytes).ok()) return;
  const Buffer encoded = objects.Encode();
  Objects again(&rank.messenger);
  KEDGE_CHECK(again.Restore(encoded).ok());
  KEDGE_CHECK(again.Encode() == encoded);
}

}  // namespace
}  // namespace kedge::fmi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kedge::fmi::Check({reinterpret_cast<const std::byte*>(data), bytes});
  return 0;
}
