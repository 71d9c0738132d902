// What agents of different nodes say to each other about a job: sets in the making, groups that are done, what each node holds,
// and the bytes themselves.
//
// One struct for each request and its reply; net/network.h carries them (a kind and a body), after it has proved who asks. A body
// is read as anything from a wire: every length is checked, whole or refused. Both sides are of one protocol, so the encoding
// needs no room for older fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/summary.h"
#include "base/status.h"
#include "format/identity.h"
#include "format/set_records.h"
#include "format/wire.h"
#include "net/measure.h"
#include "net/network.h"
#include "reduce/popular_blocks.h"
#include "redundancy/plan.h"
#include "schedule/schedule.h"
#include "session/messages.h"

namespace kedge {

enum class PeerKind : uint16_t {
  kExchange = 0x100,
  kGroups,
  kInventory,
  kDescribe,
  kSetRecord,
  kObjectTable,
  kRead,
  kLease,
  kInvite,
  kProve,
  kEcho,  // this and the next are those by which a node lets itself be measured (net/measure.h)
  kMeasureLease,
  kTurn,
  kPromise,
  kPromiseNews,
  kTaken,  // what a rank has taken as its checkpoint of that number (takings.h): an EncodeImageIdentity, answered empty
  kReadSealed,
  kScan,
  kCarry,
  kEnlist,
  kCompleted,
  kPause,
  kShare,
};

inline constexpr net::MeasureKinds kMeasureKinds{static_cast<uint16_t>(PeerKind::kEcho),
                                                 static_cast<uint16_t>(PeerKind::kMeasureLease)};

// A member of a set shows its image, and how far it is; the answer shows the other's, as far as it is known.
struct ExchangeRequest {
  SetIdentity set;
  uint32_t from = 0;  // index of the sender in the group
  bool done = false;  // its redundancy of the set is whole and on file
  SetMember mine;
};
struct ExchangeReply {
  bool done = false;
  std::optional<SetMember> theirs;
  uint64_t mark = 0;  // grows for as long as its redundancy gets on: a slow member is no dead one
};

inline constexpr size_t kReasonBytesMax = 4096;

// The groups of a version of which all sets are done, on all their members, as far as the sender knows; the answer tells the
// same of who is asked.
struct GroupsNotice {
  Generation generation;
  uint64_t layout = 0;
  bool from_child = false;     // who is told hears from others for the sender (done_groups.h)
  std::vector<uint32_t> done;  // ascending
  std::string given_up = {};   // why the sender has given the version up, though others count on it; empty: it has not
};
struct GroupsReply {
  std::vector<uint32_t> done;  // ascending
  uint64_t mark = 0;           // of its own sets and members; for a child also of those whom it has asked
};

// What a node holds of a job, or of one of its checkpoint names.
struct InventoryRequest {
  StoreId store_id;
  std::string job;
  std::string name;  // empty: all
};
struct HeldImage {
  Generation generation;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  Level scheduled = Level::kNone;
  bool to_node = false;
  bool at_node = false;
  bool in_store = false;
};
struct HeldSetInfo {
  redundancy::SetSummary set;
  std::vector<uint32_t> objects;  // members whose parity object (partner: copy) lies here
};
// A node of a former attempt, which may still hold images.
struct GuestNode {
  std::string node;
  std::string address;
};
struct InventoryReply {
  std::string node;
  std::vector<GuestNode> guests;  // that it knows of
  bool is_inviting = false;       // and there may soon be more: nodes that the attempt leaves out have yet to answer
  std::vector<HeldImage> images;
  std::vector<HeldSetInfo> sets;
};

// An image that lies whole on the node: the answer is what its stream is made of.
struct DescribeRequest {
  Generation generation;
  uint32_t rank = 0;
};
struct DescribeReply {
  Buffer image_record;  // encoded
  uint64_t stream_bytes = 0;
};

// The encoded set record (kSetRecord), or the block table of an object of it (kObjectTable). Or a block of the image of that
// member, which is who is asked, did not fit its table (kProve): answered empty, or kCorrupt when it has changed since its
// capture.
struct SetRequest {
  SetIdentity set;
  uint32_t member = 0;
};

// Bytes of an image's stream, or of an object of a set. Answered with the bytes and nothing else (kRead), or with where they lie
// sealed (kReadSealed).
struct ReadRequest {
  bool of_object = false;
  Generation generation;  // of_object false
  uint32_t rank = 0;
  SetIdentity set;  // of_object
  uint32_t member = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;  // at most kBlockBytesMax
};

// Where the bytes that a ReadRequest names (offset and length aside) may be read without the node's attention: parts of the
// stream that lie in its memory. What is not among them is asked for with kRead.
struct LeasedPart {
  uint64_t offset = 0;  // in the stream
  net::RemoteMemory memory;
};
struct LeaseReply {
  std::vector<LeasedPart> parts;  // in order
  bool sealed = false;            // nothing is given away as it lies there: kReadSealed is the way
};

// Where a block lies sealed until the reader has read it, and what opens it.
struct SealedReply {
  net::RemoteMemory memory;
  net::BlockSeal seal;
};

// The job goes on in a new attempt without the node that is told: it serves what it holds to the nodes of that one. Answered
// empty.
struct Invitation {
  StoreId store_id;
  std::string job;
  Membership members;
};

// Which levels a version is to reach (turns.h).
struct TurnRequest {
  Generation generation;
  bool is_late = false;  // nothing has been said of it for a while
};
struct TurnReply {
  bool decided = false;
  ScheduledLevels levels;
};

// A node holds the images of its ranks, and keeps them until it hears what has become of the version (local_level.h). Or what it
// has promised is gone (`held` false).
struct LocalPromise {
  Generation generation;
  std::string node;
  bool held = true;
};
// All three empty: it is of no consequence.
struct LocalReply {
  bool complete = false;                  // at level LOCAL
  std::optional<Generation> needed = {};  // it will not be: another node has this one, and promises of older ones are void
  std::vector<std::string> missing = {};  // nodes that have yet to promise it; some of them
};
// All nodes have promised this generation, or one has that is newer than what the node had promised.
struct LocalNews {
  Generation generation;
  bool complete = false;
};

// The version is complete in the store. Answered empty.
struct CompletedNotice {
  Generation generation;
};

// What the nodes of a subtree have of a version (aggregation/scan_tree.h), told to the parent. The answer comes when all nodes
// are heard: what all have, and how many bytes lie before the subtree.
struct ScanRequest {
  Generation generation;
  // By which the plan is made: the same on all nodes.
  uint32_t leaders = 0;
  uint64_t stripe_bytes = 0;
  uint32_t block_bytes = 0;  // of `popular`
  aggregation::Summary summary;
  reduce::PopularBlocks popular;
};
struct ScanReply {
  aggregation::Summary root;
  reduce::PopularBlocks popular;
  uint64_t before = 0;
};

// Images that the node which is asked is to write to the store for the one that asks (gather/carrier.h). Asked again until all of
// them have come to an end; answered when one has, or after a while.
struct CarryRequest {
  struct Item {
    uint32_t rank = 0;
    uint64_t record_bytes = 0;
    uint32_t record_crc32c = 0;  // of the encoded image record
    uint64_t image_bytes = 0;
    // With is_shared, when it is durable there: in which object, and where in it. Empty: it is not yet.
    std::string object = {};
    uint64_t record_offset = 0;
    uint64_t map_bytes = 0;
    uint32_t map_crc32c = 0;
  };
  Generation generation;
  uint32_t ranks = 0;
  bool is_shared = false;        // the one that asks writes them itself, to the object of the one that is asked (ShareRequest)
  uint64_t written_bytes = 0;    // of these, so far
  bool is_syncing = false;       // it has written all, and makes it durable
  bool is_withdrawn = false;     // they are wanted no more
  bool is_leaving = false;       // the one that asks leaves as soon as the other holds them
  uint32_t held = 0;             // of these, it has heard of so many that they are held
  uint64_t accounted_bytes = 0;  // of those that are planned to come there, this node's
  uint64_t rate = 0;             // bytes per second at which this node is to be read at most; 0: no limit
  std::vector<Item> images;      // ranks ascend
};
// kHeld: it lies whole on the node that was asked, which brings it to the store whatever becomes of the other. kWaiting: others
// are first.
enum class CarryState : uint8_t { kUnderWay, kStored, kFailed, kHeld, kWaiting };
struct CarryReply {
  struct Item {
    CarryState state = CarryState::kUnderWay;
    std::string why;  // of a failure
  };
  std::vector<Item> images;  // as asked for
  bool is_complete = false;  // the version, in the store
  uint64_t mark = 0;         // grows while they get on
};

// Room in the object that the node which is asked writes of the version, for the one that asks (tables/object_under_way.h).
struct ShareRequest {
  Generation generation;
  uint64_t bytes = 0;
};
struct ShareReply {
  std::string object;  // its name, as part records have it
  std::string handle;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// The application of who says so communicates: its images are not to be read for so long. 0: they may be again. Answered empty.
struct PauseNotice {
  StoreId store_id{};
  std::string job;
  uint32_t milliseconds = 0;
};

// To a staging agent, over a network of its own (gather/stagers.h): the job that it is to write for. Answered empty.
struct EnlistRequest {
  Hello hello;
  Membership members;
};

Buffer Encode(const EnlistRequest& message);
Result<EnlistRequest> DecodeEnlistRequest(ByteSpan body);
Buffer Encode(const ScanRequest& message);
Buffer Encode(const ScanReply& message);
Buffer Encode(const CarryRequest& message);
Buffer Encode(const CarryReply& message);
Buffer Encode(const ShareRequest& message);
Buffer Encode(const ShareReply& message);
Buffer Encode(const PauseNotice& message);
Result<ScanRequest> DecodeScanRequest(ByteSpan body);
Result<ScanReply> DecodeScanReply(ByteSpan body);
Result<CarryRequest> DecodeCarryRequest(ByteSpan body);
Result<CarryReply> DecodeCarryReply(ByteSpan body);
Result<ShareRequest> DecodeShareRequest(ByteSpan body);
Result<ShareReply> DecodeShareReply(ByteSpan body);
Result<PauseNotice> DecodePauseNotice(ByteSpan body);

Buffer Encode(const LocalPromise& message);
Buffer Encode(const LocalReply& message);
Buffer Encode(const LocalNews& message);
Result<LocalPromise> DecodeLocalPromise(ByteSpan body);
Result<LocalReply> DecodeLocalReply(ByteSpan body);
Result<LocalNews> DecodeLocalNews(ByteSpan body);

Buffer Encode(const CompletedNotice& message);
Result<CompletedNotice> DecodeCompletedNotice(ByteSpan body);

Buffer Encode(const TurnRequest& message);
Buffer Encode(const TurnReply& message);
Result<TurnRequest> DecodeTurnRequest(ByteSpan body);
Result<TurnReply> DecodeTurnReply(ByteSpan body);

Buffer Encode(const Invitation& message);
Buffer Encode(const LeaseReply& message);
Buffer Encode(const SealedReply& message);
Buffer Encode(const ExchangeRequest& message);
Buffer Encode(const ExchangeReply& message);
Buffer Encode(const GroupsNotice& message);
Buffer Encode(const GroupsReply& message);
Buffer Encode(const InventoryRequest& message);
Buffer Encode(const InventoryReply& message);
Buffer Encode(const DescribeRequest& message);
Buffer Encode(const DescribeReply& message);
Buffer Encode(const SetRequest& message);
Buffer Encode(const ReadRequest& message);
Buffer Encode(const BlockTable& table);

Result<ExchangeRequest> DecodeExchangeRequest(ByteSpan body);
// `ranks` of the generation, which the members must be among.
Result<ExchangeReply> DecodeExchangeReply(ByteSpan body, uint32_t ranks);
Result<GroupsNotice> DecodeGroupsNotice(ByteSpan body);
Result<GroupsReply> DecodeGroupsReply(ByteSpan body);
Result<InventoryRequest> DecodeInventoryRequest(ByteSpan body);
Result<InventoryReply> DecodeInventoryReply(ByteSpan body);
Result<DescribeRequest> DecodeDescribeRequest(ByteSpan body);
Result<DescribeReply> DecodeDescribeReply(ByteSpan body);
Result<SetRequest> DecodeSetRequest(ByteSpan body);
Result<ReadRequest> DecodeReadRequest(ByteSpan body);
Result<LeaseReply> DecodeLeaseReply(ByteSpan body);
Result<SealedReply> DecodeSealedReply(ByteSpan body);
Result<Invitation> DecodeInvitation(ByteSpan body);
Result<BlockTable> DecodeBlockTable(ByteSpan body);

}  // namespace kedge
