// Two clients of one job that do whatever they like to an agent: entries of any kind and content in their mailboxes,
// writes over mailboxes and slots, images with false tables, any request on the socket. The agent runs in this process
// and one turn of its loop at a time. It survives; and when they are gone, no slot is assigned, and none in use that no
// image lies in.
//
// The input is a list of actions. Where only the right number gets past the first check (a slot's generation), the
// input says whether to use the right one. No Hello is taken from it and no files are published: both name paths to
// write to.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>
#include <set>

#include "agent/door/server.h"
#include "agent/door/sessions.h"
#include "agent/space/tiers.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/status.h"
#include "format/image_record.h"
#include "os/sockets/unix_socket.h"
#include "session/connection.h"
#include "session/testing/any_entry.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint32_t kSlots = 8;
constexpr uint64_t kChunkBytes = 64 << 10;
constexpr Duration kPatience = std::chrono::seconds(8);

// REQUIRES: no session is left.
void CheckSlots(LocalAgent& agent) {
  std::set<uint32_t> used;
  for (const auto& [id, image] : agent->images().all()) {
    if (image->record.unit != nullptr) used.insert(image->record.slot);
    for (const ImageChunk& chunk : image->chunks) {
      if (chunk.unit != nullptr) used.insert(chunk.slot);
    }
  }
  const SlotSpace& space = *agent.pool().space;
  KEDGE_CHECK(space.assigned_slots() == 0);
  KEDGE_CHECK(agent.pool().throughput.claims == 0 && agent.pool().throughput.bytes_to_come == 0);
  KEDGE_CHECK(space.occupied_slots() + space.evictable_slots() == used.size());
  KEDGE_CHECK(space.free_slots() == space.slots() - used.size());
}

// One connection with its session, driven by the input.
class Client : private testing::EntrySource {
 public:
  Client(LocalAgent& agent, FuzzedDataProvider& input, const JobKeys& keys, uint32_t rank, uint32_t ranks_on_node)
      : agent_(agent), input_(input), socket_(Connect(agent)) {
    hello_.build = BuildName();
    hello_.job = "job";
    hello_.store_id = agent.store_id();
    hello_.attempt = 1;
    hello_.rank = rank;
    hello_.ranks = 2;
    hello_.ranks_on_node = ranks_on_node;
    hello_.keys = keys;
    Send(EncodeMessage(1, hello_));
    auto reply = Reply();
    KEDGE_CHECK(reply.has_value());
    auto decoded = DecodeMessage(AsBytes(reply->body));
    KEDGE_CHECK(decoded.ok() && std::holds_alternative<Welcome>(decoded->message));
    const Welcome& welcome = std::get<Welcome>(decoded->message);
    session_id_ = welcome.session_id;
    KEDGE_CHECK(reply->descriptors.size() == 4);
    auto mailbox = MapMailbox(std::move(reply->descriptors[0]), session_id_);
    auto tier = AttachMemoryTier(std::move(reply->descriptors[3]), welcome.tiers[0]);
    KEDGE_CHECK(mailbox.ok() && tier.ok());
    mailbox_ = std::move(*mailbox);
    tier_ = std::move(*tier);
    to_agent_ = ClientRingProducer(&box().from_client);
  }

  uint32_t session_id() const { return session_id_; }
  void Leave() { socket_.Shutdown(); }

  void Act() {
    switch (input_.ConsumeIntegralInRange(0, 8)) {
      case 0: Push(testing::AnyEntry(*this)); break;
      case 1: AskForPlace(); break;
      case 2:
      case 3: CaptureImage(); break;
      case 4: ScribbleOverSlot(); break;
      case 5: ScribbleOverMailbox(); break;
      case 6: Send(AnyFrame()); break;
      case 7: Ask(); break;
      case 8: agent_.Turn(); break;
    }
  }

 private:
  static os::UnixSocket Connect(LocalAgent& agent) {
    auto socket = os::UnixSocket::Connect(agent->core().settings().SocketPath(), kPatience);
    KEDGE_CHECK(socket.ok());
    return std::move(*socket);
  }

  const SlotSpace& pool() { return *agent_.pool().space; }
  Mailbox& box() { return *MailboxOf(mailbox_); }
  void Push(const ClientMessage& message) {
    if (!to_agent_.TryPush(message)) agent_.Turn();
  }
  void Send(const Buffer& frame) { static_cast<void>(socket_.Queue(AsText(frame))); }
  std::optional<os::SocketMessage> Reply() {
    std::optional<os::SocketMessage> reply;
    agent_.TurnUntil([&] {
      auto message = socket_.TryReceive();
      if (message.ok()) reply = std::move(*message);
      return reply.has_value() || !message.ok();
    });
    return reply;
  }

  uint64_t Below(uint64_t bound) override {
    return input_.ConsumeIntegralInRange(0, 7) == 0 ? Number() : input_.ConsumeIntegralInRange<uint64_t>(0, bound - 1);
  }
  // Mostly small.
  uint64_t Number() override {
    switch (input_.ConsumeIntegralInRange(0, 3)) {
      case 0: return input_.ConsumeIntegral<uint64_t>();
      case 1: return kChunkBytes - 4096 + input_.ConsumeIntegralInRange<uint64_t>(0, 8192);
      default: return input_.ConsumeIntegral<uint8_t>();
    }
  }
  SlotRange Range() override {
    SlotRange range{};
    range.tier = input_.ConsumeIntegralInRange<uint32_t>(0, 1);
    range.slot = input_.ConsumeIntegralInRange<uint32_t>(0, pool().slots());
    const bool right = range.slot < pool().slots() && input_.ConsumeBool();
    range.slot_generation = right ? pool().Get(range.slot).generation : Number();
    range.offset = input_.ConsumeBool() ? Number() / 8 * 8 : 0;
    range.bytes = Number();
    return range;
  }
  void AskForPlace() {
    Push(RequestPlace{.place = static_cast<PlaceKind>(input_.ConsumeIntegralInRange<uint32_t>(0, 3)),
                      .number = ++requests_,
                      .bytes = input_.ConsumeBool() ? kChunkBytes : Number(),
                      .bytes_to_come = Number()});
    agent_.Turn();
  }
  // A slot that this session owns, if any.
  std::optional<SlotRange> OwnSlot() {
    const std::vector<uint32_t> slots = pool().SlotsOf(session_id_);
    if (slots.empty()) return std::nullopt;
    SlotRange range{};
    range.slot = slots[input_.ConsumeIntegralInRange<size_t>(0, slots.size() - 1)];
    range.slot_generation = pool().Get(range.slot).generation;
    return range;
  }
  ImageIdentity AnyIdentity() {
    const auto version = input_.ConsumeIntegralInRange<int64_t>(0, 3);
    const auto take = input_.ConsumeIntegralInRange<uint32_t>(1, 2);
    const uint32_t rank = input_.ConsumeIntegralInRange<uint32_t>(0, 9) == 0 ? 1 - hello_.rank : hello_.rank;
    return {{hello_.store_id, "job", input_.ConsumeBool() ? "a" : "b", version, 1, take}, rank, hello_.ranks};
  }
  // Writes `bytes` at `offset` of an own slot and names them.
  SlotRange Place(SlotRange range, uint64_t offset, const Buffer& bytes) {
    range.offset = std::min(offset, kChunkBytes - bytes.size());
    range.bytes = bytes.size();
    std::memcpy(tier_->SlotMemory(range.slot) + range.offset, bytes.data(), bytes.size());
    return range;
  }

  // Begin, progress and end of an image whose record and tables decode; what they say is the input's.
  void CaptureImage() {
    const auto slot = OwnSlot();
    if (!slot) return AskForPlace();
    const ImageIdentity identity = AnyIdentity();
    const uint64_t serial = input_.ConsumeBool() ? ++serials_ : input_.ConsumeIntegralInRange<uint64_t>(0, 5);
    if (input_.ConsumeBool()) {
      Buffer encoded;
      EncodeImageIdentity(identity, &encoded);
      const SlotRange range = Place(*slot, 0, encoded);
      Push(ImageBegin{.due_levels = DueLevelsOf(serial), .image_serial = serial, .identity = range});
      if (input_.ConsumeBool()) agent_.Turn();
    }
    ImageRecord record;
    record.identity = identity;
    PlacementTable table;
    table.identity = identity;
    table.tiers = {agent_->tiers().units()[0]->info().key};
    if (input_.ConsumeBool()) table.tiers.push_back("another");
    if (input_.ConsumeBool())
      table.files.push_back(input_.ConsumeBool() ? "files/x" : input_.ConsumeRandomLengthString(20) + "/..");
    AddChunks(serial, &record, &table);
    Buffer encoded, encoded_table;
    if (!EncodeImageRecord(record, &encoded).ok() || !EncodePlacementTable(table, &encoded_table).ok()) return;
    const uint64_t record_bytes = encoded.size();
    encoded.insert(encoded.end(), encoded_table.begin(), encoded_table.end());
    const bool is_given_up = input_.ConsumeIntegralInRange(0, 7) == 0;
    const SlotRange range = Place(*slot, input_.ConsumeIntegralInRange<uint64_t>(0, kChunkBytes), encoded);
    if (is_given_up) {
      Push(ImageAbort{.image_serial = serial});
    } else {
      Push(ImageEnd{.due_levels = DueLevelsOf(serial),
                    .image_serial = serial,
                    .range = range,
                    .record_bytes = record_bytes,
                    .crc32c = crc32c::Compute(encoded.data(), encoded.size())});
    }
    if (input_.ConsumeBool()) Push(ReturnSlot{.slot = *slot});
  }
  // All that there are in turn, with bits that mean nothing.
  uint32_t DueLevelsOf(uint64_t serial) const { return static_cast<uint32_t>(serial) ^ (session_id_ << 2); }
  void AddChunks(uint64_t serial, ImageRecord* record, PlacementTable* table) {
    uint64_t object_offset = 0;
    for (int chunks = input_.ConsumeIntegralInRange(0, 3); chunks > 0; --chunks) {
      const auto own = OwnSlot();
      SlotRange range = own && input_.ConsumeIntegralInRange(0, 3) > 0 ? *own : Range();
      range.bytes = std::max<uint64_t>(1, std::min<uint64_t>(Number(), kChunkBytes));
      const auto index = static_cast<uint32_t>(record->chunks.size());
      if (input_.ConsumeBool()) {
        Push(ChunkProgress{.chunk = input_.ConsumeIntegralInRange(0, 7) == 0 ? static_cast<uint32_t>(Number()) : index,
                           .image_serial = serial,
                           .range = range,
                           .object_offset = object_offset,
                           .captured_bytes = input_.ConsumeBool() ? range.bytes : Number()});
        if (input_.ConsumeBool()) Push(ChunkWritten{.range = range, .took_ns = Number()});
        if (input_.ConsumeBool()) agent_.Turn();
        // The table at the end says something else.
        if (input_.ConsumeIntegralInRange(0, 3) == 0) range.bytes = 1 + range.bytes / 2;
      }
      Region region;
      region.id = static_cast<int32_t>(index);
      region.bytes = range.bytes;
      if (input_.ConsumeIntegralInRange(0, 7) == 0) {
        region.kind = RegionKind::kFile;
        region.name = "routed";
      }
      record->regions.push_back(region);
      record->chunks.push_back({0, object_offset, range.bytes});
      record->extents.push_back({index, 0, range.bytes, index, 0, 0});
      Placement placement{PlacementKind::kSlot, range.tier, range.slot, range.slot_generation, range.offset, range.bytes};
      if (input_.ConsumeIntegralInRange(0, 7) == 0)
        placement.kind = static_cast<PlacementKind>(input_.ConsumeIntegralInRange(0, 3));
      if (placement.kind == PlacementKind::kFile) placement.slot = 0;
      if (placement.kind == PlacementKind::kStore) {
        placement.tier = placement.slot = 0;
        if (input_.ConsumeBool()) {
          record->objects.push_back("names/a/1-1-1/data/r0.c0");
          record->chunks.back().object = static_cast<uint32_t>(record->objects.size());
        }
      }
      table->chunks.push_back(placement);
      object_offset = (object_offset + range.bytes + 4095) / 4096 * 4096;
      if (input_.ConsumeIntegralInRange(0, 7) == 0) object_offset = Number() / 4096 * 4096;
    }
  }
  void ScribbleOverSlot() {
    const auto slot = OwnSlot();
    if (!slot) return;
    const std::string bytes = input_.ConsumeRandomLengthString(64);
    const auto offset = input_.ConsumeIntegralInRange<uint64_t>(0, kChunkBytes - 64);
    std::memcpy(tier_->SlotMemory(slot->slot) + offset, bytes.data(), bytes.size());
  }
  void ScribbleOverMailbox() {
    const std::string bytes = input_.ConsumeRandomLengthString(64);
    // Half of the time at the indices in front of the rings.
    const bool at_ring = input_.ConsumeBool();
    const size_t place = input_.ConsumeIntegralInRange<size_t>(0, at_ring ? 192 : sizeof(Mailbox) - 64);
    const size_t begin = at_ring ? std::min(offsetof(Mailbox, from_client) + place, sizeof(Mailbox) - 64) : place;
    std::memcpy(mailbox_.data() + begin, bytes.data(), bytes.size());
  }
  Buffer AnyFrame() {
    const std::string body = input_.ConsumeRandomLengthString(200);
    // Kind 0 is Hello, and kind 2 a tool's: neither is asked for, and the first names paths.
    Buffer frame(AsBytes(body).begin(), AsBytes(body).end());
    if (!frame.empty() && frame[0] == std::byte{0}) frame[0] = std::byte{1};
    return frame;
  }
  void Ask() {
    const ImageIdentity identity = AnyIdentity();
    const Generation& generation = identity.generation;
    const Duration timeout(input_.ConsumeIntegral<int64_t>());
    Message request = GoodbyeRequest{};
    switch (input_.ConsumeIntegralInRange(0, 13)) {
      case 0: request = WaitRequest{generation, Level::kStore, timeout}; break;
      case 1: request = TestRequest{generation}; break;
      case 2: request = LocalVersionsRequest{generation.store_id, "job", "", false}; break;
      case 3: request = OpenImageRequest{generation, identity.rank}; break;
      case 4: request = CloseImageRequest{input_.ConsumeIntegralInRange<uint64_t>(0, 3)}; break;
      case 5: request = CleanupRequest{generation.store_id, "job", "", identity.rank}; break;
      case 6: request = RetainRequest{generation.store_id, "job", generation.name}; break;
      case 7: request = StatusRequest{}; break;
      case 8: request = DrainRequest{generation.store_id, "job", Level::kNode, timeout}; break;
      case 9: request = OpenWindowRequest{generation, identity.rank}; break;
      case 10: request = ShowRequest{input_.ConsumeIntegralInRange<uint64_t>(0, 3), generation.take}; break;
      case 11: request = PendingRequest{generation.store_id, "job", generation.attempt, identity.rank}; break;
      case 12: request = ShareObjectsRequest{{{"jobs/job/object", {{Number(), Number()}}}}}; break;
      case 13: {
        const SharedLineName line{input_.ConsumeIntegralInRange<uint32_t>(0, 1), Number()};
        request = ReadLineRequest{input_.ConsumeIntegralInRange<uint64_t>(0, 3), {line}, {line}};
        break;
      }
    }
    if (input_.ConsumeIntegralInRange(0, 15) == 0) request = GoodbyeRequest{};
    Send(EncodeMessage(++requests_, request));
    agent_.Turn();
    for (auto reply = socket_.TryReceive(); reply.ok() && reply->has_value(); reply = socket_.TryReceive()) {
      KEDGE_CHECK(DecodeMessage(AsBytes((*reply)->body)).ok());
    }
  }

  LocalAgent& agent_;
  FuzzedDataProvider& input_;
  os::UnixSocket socket_;
  Hello hello_;
  uint32_t session_id_ = 0;
  os::SharedMapping mailbox_;
  std::unique_ptr<Tier> tier_;
  ClientRingProducer to_agent_;
  uint64_t requests_ = 1;
  uint64_t serials_ = 0;
};

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  static std::unique_ptr<LocalAgent> agent;
  if (agent == nullptr) {
    SetLogLevel(LogLevel::kOff);
    agent = std::make_unique<LocalAgent>(kSlots, kChunkBytes);
  }
  FuzzedDataProvider input(data, bytes);
  JobKeys keys;
  keys.store_path = agent->store_path();
  keys.files_publish = false;
  keys.keep_local = input.ConsumeIntegralInRange<uint32_t>(0, 2);
  keys.schedule_store = input.ConsumeIntegralInRange<uint32_t>(0, 2);
  keys.schedule_store_interval = Duration(input.ConsumeBool() ? input.ConsumeIntegral<int64_t>() : 0);
  keys.skip_queued = input.ConsumeBool();
  keys.reduce_incremental = input.ConsumeBool() ? Feature::kOn : Feature::kAuto;
  keys.reduce_deduplicate =
      input.PickValueInArray({Deduplication::kOff, Deduplication::kRank, Deduplication::kNode, Deduplication::kJob});
  keys.store_layout = static_cast<StoreLayout>(input.ConsumeIntegralInRange<int>(0, 3));
  keys.reduce_verify = input.ConsumeBool();
  keys.reduce_compress = input.ConsumeBool() ? Feature::kOn : Feature::kOff;
  const auto ranks_on_node = input.ConsumeIntegralInRange<uint32_t>(1, 2);
  {
    Client first(*agent, input, keys, 0, ranks_on_node);
    Client second(*agent, input, keys, 1, ranks_on_node);
    while (input.remaining_bytes() > 0) (input.ConsumeBool() ? first : second).Act();
    agent->Turn();
    for (Client* client : {&first, &second}) {
      client->Leave();
      Sessions& sessions = (*agent)->sessions();
      const SessionTable& table = (*agent)->core().sessions();
      if (Session* session = table.Find(client->session_id())) sessions.End(*session, "the input is over");
    }
    KEDGE_CHECK(agent->TurnUntil([&] { return (*agent)->server().clients() == 0; }));
  }
  CheckSlots(*agent);
  // What they left behind belongs to this input alone.
  (*agent)->sessions().ForgetIdleJobs();
  if (!(*agent)->images().all().empty() || !(*agent)->core().jobs().empty()) agent.reset();
  return 0;
}
