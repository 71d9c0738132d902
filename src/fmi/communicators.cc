#include "fmi/communicators.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "os/process/kill_point.h"

namespace kedge::fmi {
namespace {

// Contexts go by pairs; the second pair is Kedge's.
constexpr uint32_t kWorldId = 0;
constexpr uint32_t kFirstId = 2;
// Of a communicator that is not made yet, and by which nothing is sent.
constexpr uint32_t kNoId = INT32_MAX;

Context MessagesOf(uint32_t id) {
  return static_cast<Context>(2 * id);
}
Context CollectivesOf(uint32_t id) {
  return static_cast<Context>(2 * id + 1);
}
static_assert(static_cast<uint32_t>(Context::kApplication) == 2 * kWorldId &&
              static_cast<uint32_t>(Context::kCollective) == 2 * kWorldId + 1 &&
              static_cast<uint32_t>(Context::kCheckpoint) < 2 * kFirstId);

const char* NameOf(Making::Call call) {
  switch (call) {
    case Making::Call::kDup: return "FMI_Comm_dup";
    case Making::Call::kSplit: return "FMI_Comm_split";
    case Making::Call::kCreate: return "FMI_Comm_create";
    case Making::Call::kCartCreate: return "FMI_Cart_create";
    case Making::Call::kCartSub: return "FMI_Cart_sub";
  }
  return "something unknown";
}

// What members tell each other.
struct Proposal {
  Making::Call call;
  Wish wish;
  uint32_t next_id;
  uint32_t grid;  // its checksum
};

uint32_t ChecksumOf(const std::optional<Grid>& grid) {
  if (!grid) return 0;
  const uint32_t sizes = crc32c::Compute(grid->sizes.data(), grid->sizes.size() * sizeof grid->sizes[0]);
  return crc32c::Extend(sizes, grid->wraps.data(), grid->wraps.size());
}

}  // namespace

Communicator::Communicator(Messenger* messenger, uint32_t number, std::shared_ptr<const Group> members,
                           std::optional<Grid> places)
    : id(number),
      group(std::move(members)),
      grid(std::move(places)),
      channel(messenger, MessagesOf(id), group),
      collectives(CommunicatorChannel(messenger, CollectivesOf(id), group)) {}

Communicator::Communicator(Messenger* messenger)
    : id(kWorldId),
      group(std::make_shared<Group>(Group::OfAll(messenger->ranks()))),
      channel(messenger, MessagesOf(id)),
      collectives(CommunicatorChannel(messenger, CollectivesOf(id))) {}

Communicators::Communicators(Messenger* messenger) : messenger_(messenger), world_(messenger), next_id_(kFirstId) {}

Result<Communicators::Agreed> Communicators::Agree(Communicator* parent, const Making& making) {
  const CommunicatorChannel& channel = parent->channel;
  const Proposal own{making.call, making.wish, next_id_, ChecksumOf(making.grid)};
  std::vector<Proposal> all(channel.ranks());
  KEDGE_RETURN_IF_ERROR(parent->collectives.Propose(&own, all.data(), sizeof own));
  Agreed agreed{kFirstId, {}};
  std::vector<Wish> wishes;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    const Proposal& its = all[rank];
    // The lower one first, so that all say the same.
    const uint32_t first = std::min(channel.rank(), rank), second = std::max(channel.rank(), rank);
    if (its.call != own.call) {
      return Status(Code::kMismatch,
                    fmt::format("ranks do not make the same call: rank {} is in {}, and rank {} in {}", channel.InJob(first),
                                NameOf(all[first].call), channel.InJob(second), NameOf(all[second].call)));
    }
    // Of those that are in the same one.
    if (its.wish.colour == own.wish.colour && its.grid != own.grid) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} and rank {} give different grids", channel.InJob(first), channel.InJob(second)));
    }
    agreed.id = std::max(agreed.id, its.next_id);
    wishes.push_back(its.wish);
  }
  if (agreed.id >= kNoId) return Status(Code::kNoSpace, "the job has made as many communicators as can be told apart");
  agreed.members = Split(wishes, channel.rank());
  return agreed;
}

Status Communicators::Make(Communicator* parent, Making making, FMI_Comm* made) {
  const FMI_Comm handle = made_.Take();
  const bool is_nowhere = making.wish.colour == Wish::kNowhere;
  *made = is_nowhere ? FMI_COMM_NULL : handle;
  auto agreed = Agree(parent, making);
  if (!agreed.ok() && agreed.status().code() != Code::kUnavailable) return agreed.status();
  if (!agreed.ok()) {
    if (making.group && !is_nowhere) {
      made_.Put(handle, {messenger_, kNoId, std::make_shared<Group>(std::move(*making.group)), std::move(making.grid)});
    }
    return agreed.status();
  }
  os::KillPoint("fmi.communicator");
  next_id_ = agreed->id + 1;
  if (is_nowhere) return Status::Ok();
  std::vector<uint32_t> ranks;
  for (const uint32_t member : agreed->members) ranks.push_back(parent->channel.InJob(member));
  auto group = std::make_shared<Group>(std::move(ranks));
  if (making.group && !(*making.group == *group)) {
    return Status(Code::kMismatch, "the ranks of the group give different groups");
  }
  made_.Put(handle, {messenger_, agreed->id, std::move(group), std::move(making.grid)});
  return Status::Ok();
}

void Communicators::Encode(Encoder* encoder) const {
  encoder->Varint(next_id_);
  made_.Encode(encoder, [](Encoder& into, const Communicator& communicator) {
    into.Varint(communicator.id);
    into.Varint(communicator.group->size());
    for (const uint32_t rank : communicator.group->ranks()) into.Varint(rank);
    into.U8(communicator.grid ? 1 : 0);
    if (!communicator.grid) return;
    into.Varint(communicator.grid->sizes.size());
    for (size_t i = 0; i < communicator.grid->sizes.size(); ++i) {
      into.Varint(static_cast<uint64_t>(communicator.grid->sizes[i]));
      into.U8(static_cast<uint8_t>(communicator.grid->wraps[i]));
    }
  });
}

Status Communicators::Decode(Decoder* decoder) {
  const uint32_t next_id = static_cast<uint32_t>(decoder->VarintAtMost(kNoId));
  made_.Clear();
  next_id_ = std::max(next_id_, next_id);
  return made_.Decode(decoder, [&](Decoder& from) -> Result<Communicator> {
    const auto id = static_cast<uint32_t>(from.VarintAtMost(kNoId));
    from.Require(id >= kFirstId && id < next_id, "an id that was never given");
    std::vector<uint32_t> ranks;
    for (size_t left = from.Count(1); left > 0; --left) ranks.push_back(from.Varint32());
    std::optional<Grid> grid;
    if (from.U8() != 0) {
      grid.emplace();
      for (size_t left = from.Count(2); left > 0; --left) {
        grid->sizes.push_back(static_cast<int>(from.VarintAtMost(INT32_MAX)));
        grid->wraps.push_back(static_cast<char>(from.U8()));
      }
    }
    KEDGE_RETURN_IF_ERROR(from.status("a communicator"));
    KEDGE_ASSIGN_OR_RETURN(Group group, Group::Checked(std::move(ranks), messenger_->ranks()));
    if (!group.Find(messenger_->rank())) return Status(Code::kCorrupt, "a communicator of others");
    if (grid) {
      KEDGE_ASSIGN_OR_RETURN(grid, Grid::Checked(std::move(grid->sizes), std::move(grid->wraps), group.size()));
    }
    return Communicator(messenger_, id, std::make_shared<Group>(std::move(group)), std::move(grid));
  });
}

}  // namespace kedge::fmi
