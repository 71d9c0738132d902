// See restart_tally.h.
#include "client/restart/restart_tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/duration.h"
#include "format/wire.h"

namespace kedge::client {
namespace {

std::string Encoded(const RestartSummary& mine) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.U8(static_cast<uint8_t>(mine.needed));
  encoder.U8(mine.ranks_brought > 0);
  encoder.Varint(mine.memory), encoder.Varint(mine.directory), encoder.Varint(mine.store);
  encoder.Finish();
  return std::string(AsText(buffer));
}

void AddEncoded(const std::string& text, RestartSummary& sum) {
  Decoder decoder(AsBytes(text));
  sum.needed = std::max(sum.needed, static_cast<Level>(decoder.U8()));
  sum.ranks_brought += decoder.U8() != 0 ? 1 : 0;
  sum.memory += decoder.Varint(), sum.directory += decoder.Varint(), sum.store += decoder.Varint();
  ++sum.ranks;
}

}  // namespace

void RestartTally::Begin() {
  began_ns_ = SystemClock().NowNs();
  mine_ = RestartSummary();
}

void RestartTally::Add(const RestoredBytes& restored, bool was_brought) {
  mine_.ranks_brought |= was_brought ? 1U : 0U;
  mine_.memory += restored.memory;
  mine_.directory += restored.directory;
  mine_.store += restored.store;
  mine_.needed = std::max(mine_.needed, restored.store > 0 ? Level::kStore : was_brought ? Level::kNode : Level::kLocal);
}

double RestartTally::seconds() const {
  return static_cast<double>(SystemClock().NowNs() - began_ns_) * 1e-9;
}

RestartSummary RestartTally::Gather(const Collective& collective) const {
  const std::string mine = Encoded(mine_);
  RestartSummary sum;
  const auto all = collective.AllGather(mine);
  for (const std::string& one : all.ok() ? *all : std::vector<std::string>{mine}) AddEncoded(one, sum);
  return sum;
}

std::string Describe(const Generation& restored, const RestartSummary& summary, double seconds) {
  const uint64_t bytes = summary.memory + summary.directory + summary.store;
  std::string text = fmt::format("restored '{}' version {} of attempt {} on {} rank{}: {} in {}", restored.name, restored.version,
                                 restored.attempt, summary.ranks, summary.ranks == 1 ? "" : "s", FormatByteSize(bytes),
                                 FormatDuration(FromSeconds(seconds)));
  if (seconds > 0) text += fmt::format(", {}/s", FormatByteSize(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)));
  char mark = ';';
  const auto from = [&](const char* where, uint64_t amount) {
    if (amount == 0) return;
    text += fmt::format("{} from {} {}", mark, where, FormatByteSize(amount));
    mark = ',';
  };
  from("memory", summary.memory);
  from("directories", summary.directory);
  from("the store", summary.store);
  if (summary.ranks_brought > 0) text += fmt::format("; {} of the images came from other nodes", summary.ranks_brought);
  return text;
}

}  // namespace kedge::client
