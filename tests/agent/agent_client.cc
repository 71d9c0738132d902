#include "tests/agent/agent_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "format/block_map.h"
#include "format/image_record.h"
#include "format/node_records.h"
#include "os/memory/futex.h"
#include "schedule/schedule.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/sharing/image_object.h"
#include "store/versions.h"

namespace kedge::testing {
namespace {

constexpr uint64_t kAlignment = 4096;

uint64_t AlignUp(uint64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

std::unique_ptr<Store> OpenStore(const std::string& path) {
  return MakePosixStore(os::SystemFileSystem(), {path, 0600, 0700, false});
}

}  // namespace

Config NodeConfig(const std::string& run_folder, const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> keys = {{"node.name", "test"},     {"node.run_folder", run_folder},
                                             {"pool.size", "16MiB"},    {"chunk.size", "1MiB"},
                                             {"chunk.piece", "256KiB"}, {"agent.idle_timeout", "60s"},
                                             {"flush.workers", "2"},    {"placement.calibrations", run_folder + "-calibrations"}};
  for (const auto& [key, text] : more) keys[key] = text;
  ConfigSources sources;
  sources.search_files = false;
  sources.overrides.assign(keys.begin(), keys.end());
  auto config = Config::Load(KedgeConfigRegistry(), sources);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return *config;
}

bool IsLayoutNode() {
  const char* layout = std::getenv("KEDGE_TEST_LAYOUT");
  return layout != nullptr && std::string_view(layout) == "node";
}

StoreId MakeStoreOf(const std::string& path) {
  auto store = OpenStore(path);
  auto catalog = Catalog::OpenOrCreate(*store, {"test", 0, "test"});
  EXPECT_TRUE(catalog.ok()) << catalog.status().ToString();
  return catalog.ok() ? catalog->id() : StoreId{};
}

std::vector<std::byte> PatternOf(const Generation& generation, uint32_t rank, size_t bytes) {
  std::vector<std::byte> data(bytes);
  const auto version = static_cast<uint64_t>(generation.version);
  const uint64_t own = MixSeed(MixSeed(version, generation.attempt), MixSeed(generation.take, rank));
  const uint64_t always = generation.name == kCommonName ? kRanksMax : rank;
  for (size_t at = 0, block = 0; at < bytes; at += kMapBlockBytesMin, ++block) {
    const uint64_t seed = MixSeed(block % 4 == 0 ? own : always, block);
    const size_t end = std::min<size_t>(at + kMapBlockBytesMin, bytes);
    Random(seed).Fill(&data[at], end - at);
    // As the upper bytes of numbers: it can be compressed.
    for (size_t number = at; number + 8 <= end; number += 8) data[number + 6] = data[number + 7] = std::byte{0};
  }
  return data;
}

Status CheckStored(const std::string& store_path, const Generation& generation, uint32_t rank, size_t bytes) {
  auto store = OpenStore(store_path);
  KEDGE_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Open(*store, {"test", 0, "test"}));
  KEDGE_ASSIGN_OR_RETURN(VersionInfo info, InspectGeneration(catalog, generation));
  if (!info.complete) return Status(Code::kIncomplete, info.reason);
  KEDGE_ASSIGN_OR_RETURN(StoredImage image, ReadImage(catalog, generation, rank));
  std::vector<std::byte> found(bytes);
  if (image.record.RegionBytes() != bytes) return Status(Code::kCorrupt, "another size");
  for (const Extent& extent : image.record.extents) {
    const Chunk& chunk = image.record.chunks[extent.chunk];
    KEDGE_ASSIGN_OR_RETURN(auto object, OpenChunkObject(catalog, image, chunk));
    KEDGE_RETURN_IF_ERROR(
        object->ReadAt(chunk.object_offset + extent.chunk_offset, std::span(found).subspan(extent.region_offset, extent.bytes)));
  }
  if (found != PatternOf(generation, rank, bytes)) return Status(Code::kCorrupt, "other bytes than were captured");
  return Status::Ok();
}

std::vector<int64_t> StoredVersions(const std::string& store_path, const std::string& job, const std::string& name) {
  auto store = OpenStore(store_path);
  auto catalog = Catalog::Open(*store, {"test", 0, "test"});
  std::vector<int64_t> versions;
  if (!catalog.ok()) return versions;
  auto complete = CompleteVersions(*catalog, job, name, -1);
  if (complete.ok()) {
    for (const VersionInfo& info : *complete) versions.push_back(info.generation.version);
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

uint64_t BytesIn(const std::string& store_path) {
  try {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store_path)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  } catch (const std::filesystem::filesystem_error&) {
    return UINT64_MAX;
  }
}

bool WaitFor(const std::function<bool()>& condition, Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  while (!condition()) {
    if (deadline.Passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::vector<std::string> AgentCommand(const std::string& run_folder, const std::map<std::string, std::string>& more) {
  std::vector<std::string> command = {FindAgentProgram().value(), "--configured", "--foreground", "--set", "node.name=test"};
  const auto keys = ExplicitNodeKeys(NodeConfig(run_folder, more));
  EXPECT_TRUE(IsOk(keys));
  for (const auto& [key, text] : *keys) {
    command.push_back("--set");
    command.push_back(key + "=" + text);
  }
  return command;
}

AgentClient::AgentClient(const ScenarioFolder& scenario, ClientOptions options)
    : AgentClient([&] {
        if (options.run_folder.empty()) options.run_folder = scenario.run_folder();
        if (options.keys.store_path.empty()) options.keys.store_path = scenario.store();
        return options;
      }()) {}

AgentClient::AgentClient(ClientOptions options) : options_(std::move(options)) {
  Config config = NodeConfig(options_.run_folder, options_.node_keys);
  auto settings = ReadNodeSettings(config);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  connect_.node = *settings;
  connect_.start_agent = options_.start_agent;
  connect_.node_keys = ExplicitNodeKeys(config).value();
  hello_.build = BuildName();
  hello_.job = options_.job;
  hello_.store_id = MakeStoreOf(options_.keys.store_path);
  hello_.attempt = options_.attempt;
  hello_.rank = options_.rank;
  hello_.ranks = hello_.ranks_on_node = options_.ranks;
  hello_.keys = options_.keys;
  if (IsLayoutNode()) hello_.keys.store_layout = StoreLayout::kNode;
  hello_.node_keys = connect_.node_keys;
  store_ = OpenStore(options_.keys.store_path);
}

Status AgentClient::Attach() {
  hello_.session_id = attachment_.welcome.session_id;
  hello_.held_slots.clear();
  if (open_.slot_generation != 0) hello_.held_slots.push_back({open_.tier, open_.slot, open_.slot_generation, false});
  hello_.last_image_serial = serial_;
  connection_.reset();
  KEDGE_ASSIGN_OR_RETURN(connection_, Connection::Connect(connect_));
  KEDGE_ASSIGN_OR_RETURN(attachment_, connection_->Attach(hello_, std::chrono::seconds(20)));
  if (!attachment_.welcome.attached_again) {
    open_ = SlotRange{};
    serial_ = 0;
  }
  to_agent_ = ClientRingProducer(&mailbox().from_client);
  from_agent_ = AgentRingConsumer(&mailbox().from_agent);
  return Status::Ok();
}

Generation AgentClient::GenerationOf(const std::string& name, int64_t version, uint32_t take) const {
  if (take == 0) take = std::max(static_cast<uint32_t>(version), 1u);
  return Generation{hello_.store_id, hello_.job, name, version, hello_.attempt, take};
}

void AgentClient::Push(const ClientMessage& message) {
  const Deadline deadline(SystemClock(), std::chrono::seconds(20));
  while (!to_agent_.TryPush(message) && !deadline.Passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (ControlOf(attachment_.control)->agent_sleeping.load(std::memory_order_seq_cst) != 0) attachment_.wake_agent.Signal();
}

Result<AgentMessage> AgentClient::NextMessage(Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  for (;;) {
    const uint32_t word = mailbox().client_wake.load();
    mailbox().client_sleeping.store(1);
    AgentMessage message;
    const RingPeek peek = from_agent_.Peek(&message);
    if (peek == RingPeek::kBroken) return Status(Code::kCorrupt, "the agent's ring is broken");
    if (peek == RingPeek::kMessage) {
      from_agent_.Advance();
      mailbox().client_sleeping.store(0);
      return message;
    }
    if (deadline.Passed()) return Status(Code::kTimeout, "no message from the agent");
    if (connection_->IsGone()) return Status(Code::kUnavailable, "the agent is gone");
    os::FutexWait(&mailbox().client_wake, word, std::min<Duration>(deadline.Remaining(), std::chrono::milliseconds(100)));
  }
}

Result<AssignPlace> AgentClient::Request(PlaceKind place, uint64_t bytes, Duration timeout) {
  Push(RequestPlace{.place = place, .number = ++last_request_, .bytes = bytes});
  const Deadline deadline(SystemClock(), timeout);
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const AgentMessage message, NextMessage(deadline.Remaining()));
    if (message.kind() != AgentMessageKind::kAssignPlace) {
      notices_.push_back(message);
      continue;
    }
    const auto answer = message.As<AssignPlace>();
    if (answer.number == last_request_) return answer;
    if (answer.outcome == AssignOutcome::kSlot) Return(answer.range);
  }
}

Result<FlushFailed> AgentClient::NextFailure(Duration timeout) {
  if (notices_.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const AgentMessage message, NextMessage(timeout));
    notices_.push_back(message);
  }
  const AgentMessage notice = notices_.front();
  notices_.erase(notices_.begin());
  if (notice.kind() != AgentMessageKind::kFlushFailed) return Status(Code::kMismatch, "the agent says something else");
  return notice.As<FlushFailed>();
}

void AgentClient::Return(const SlotRange& range) {
  Push(ReturnSlot{.slot = range});
  if (range.tier == open_.tier && range.slot == open_.slot && range.slot_generation == open_.slot_generation) open_ = SlotRange{};
}

Status AgentClient::WriteSlot(const SlotRange& range, const void* data) {
  return attachment_.tiers[range.tier]->Write(range.slot, range.offset, data, range.bytes);
}

Result<SlotRange> AgentClient::TakeOpen(uint64_t bytes) {
  if (open_.slot_generation == 0 || open_.bytes < bytes) {
    if (open_.slot_generation != 0) Return(open_);
    KEDGE_ASSIGN_OR_RETURN(const AssignPlace answer, Request(PlaceKind::kOpenSlot, attachment_.welcome.chunk_bytes));
    if (answer.outcome != AssignOutcome::kSlot) return Status(Code::kNoSpace, "no open slot");
    open_ = answer.range;
    open_.offset = 0;
  }
  SlotRange range = open_;
  range.bytes = bytes;
  const uint64_t used = std::min(AlignUp(bytes), open_.bytes);
  open_.offset += used;
  open_.bytes -= used;
  return range;
}

uint32_t AgentClient::DueLevelsOf(const std::string& name) {
  return EncodeDueLevels(LevelsByCount(ConfiguredLevels(hello_.keys), turns_[name]));
}

Status AgentClient::CaptureButEnd(const Generation& generation, size_t bytes) {
  std::vector<std::byte> data = PatternOf(generation, hello_.rank, bytes);
  const std::optional<size_t> flip_at = std::exchange(flip_at_, std::nullopt);
  const uint64_t chunk_bytes = attachment_.welcome.chunk_bytes;
  const uint64_t piece_bytes = attachment_.welcome.piece_bytes;
  const uint64_t serial = ++serial_;
  ImageRecord record;
  record.identity = {generation, hello_.rank, hello_.ranks};
  PlacementTable table;
  table.identity = record.identity;
  for (const TierInfo& tier : attachment_.welcome.tiers) table.tiers.push_back(tier.key);
  Region region;
  region.id = 1;
  region.bytes = bytes;
  record.regions.push_back(region);
  const bool large = bytes >= piece_bytes;
  if (large) {
    Buffer identity;
    EncodeImageIdentity(record.identity, &identity);
    KEDGE_ASSIGN_OR_RETURN(const SlotRange range, TakeOpen(identity.size()));
    KEDGE_RETURN_IF_ERROR(WriteSlot(range, identity.data()));
    Push(ImageBegin{.due_levels = DueLevelsOf(generation.name), .image_serial = serial, .identity = range});
  }
  uint64_t object_offset = 0;
  for (uint64_t at = 0; at < bytes; at += chunk_bytes) {
    const uint64_t size = std::min<uint64_t>(chunk_bytes, bytes - at);
    Placement placement;
    placement.bytes = size;
    SlotRange range{};
    bool through = false;
    if (size >= piece_bytes) {
      KEDGE_ASSIGN_OR_RETURN(const AssignPlace answer, Request(PlaceKind::kFullChunk, size));
      through = answer.outcome == AssignOutcome::kThrough;
      range = answer.range;
      range.offset = 0;
      range.bytes = size;
    } else {
      KEDGE_ASSIGN_OR_RETURN(range, TakeOpen(size));
    }
    Chunk chunk;
    chunk.bytes = size;
    if (through) {
      ++chunks_through_;
      KEDGE_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Open(*store_, {"test", hello_.attempt, fmt::format("r{}", hello_.rank)}));
      KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
      const std::string key = keys::ChunkKey(generation, hello_.rank, static_cast<uint32_t>(record.chunks.size()));
      KEDGE_ASSIGN_OR_RETURN(auto writer, store_->CreateObject(key, catalog.owner(), size));
      KEDGE_RETURN_IF_ERROR(writer->WriteAt(0, ByteSpan(data).subspan(at, size)));
      KEDGE_RETURN_IF_ERROR(writer->Commit());
      record.objects.push_back(keys::RelativeToJob(generation.job, key));
      chunk.object = static_cast<uint32_t>(record.objects.size());
      placement.kind = PlacementKind::kStore;
    } else {
      chunk.object_offset = object_offset;
      placement.tier = range.tier;
      placement.slot = range.slot;
      placement.slot_generation = range.slot_generation;
      placement.offset = range.offset;
    }
    for (uint64_t piece = 0; piece < size; piece += piece_bytes) {
      const uint64_t length = std::min(piece_bytes, size - piece);
      Extent extent;
      extent.region_offset = at + piece;
      extent.bytes = length;
      extent.chunk = static_cast<uint32_t>(record.chunks.size());
      extent.chunk_offset = piece;
      extent.crc32c = crc32c::Compute(data.data() + at + piece, length);
      record.extents.push_back(extent);
      if (flip_at && *flip_at >= at + piece && *flip_at < at + piece + length) data[*flip_at] ^= std::byte{1};
      if (through) continue;
      SlotRange part = range;
      part.offset += piece;
      part.bytes = length;
      KEDGE_RETURN_IF_ERROR(WriteSlot(part, data.data() + at + piece));
      if (!large) continue;
      Push(ChunkProgress{.chunk = extent.chunk,
                         .image_serial = serial,
                         .range = range,
                         .object_offset = object_offset,
                         .captured_bytes = piece + length});
    }
    if (!through) object_offset = AlignUp(object_offset + size);
    record.chunks.push_back(chunk);
    table.chunks.push_back(placement);
  }
  Buffer encoded;
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(record, &encoded));
  end_ = ImageEnd{.due_levels = DueLevelsOf(generation.name), .image_serial = serial, .record_bytes = encoded.size()};
  ++turns_[generation.name];
  KEDGE_RETURN_IF_ERROR(EncodePlacementTable(table, &encoded));
  end_.crc32c = crc32c::Compute(encoded.data(), encoded.size());
  KEDGE_ASSIGN_OR_RETURN(end_.range, TakeOpen(encoded.size()));
  return WriteSlot(end_.range, encoded.data());
}

void AgentClient::Abort() {
  Push(ImageAbort{.image_serial = serial_});
}

Status AgentClient::SendEnd() {
  Push(end_);
  return Status::Ok();
}

Status AgentClient::Capture(const Generation& generation, size_t bytes) {
  KEDGE_RETURN_IF_ERROR(CaptureButEnd(generation, bytes));
  return SendEnd();
}

Result<LevelReply> AgentClient::Wait(const Generation& generation, Level level, Duration timeout) {
  return connection_->Call<LevelReply>(WaitRequest{generation, level, timeout}, timeout + std::chrono::seconds(10));
}

Result<DrainReply> AgentClient::Drain(Duration timeout) {
  return connection_->Drain({{}, {}, Level::kLast, timeout}, nullptr);
}

Result<LevelReply> AgentClient::Test(const Generation& generation) {
  return connection_->Call<LevelReply>(TestRequest{generation}, std::chrono::seconds(20));
}

Status AgentClient::CheckLocal(const Generation& generation, size_t bytes) {
  KEDGE_ASSIGN_OR_RETURN(OpenImageReply open,
                         connection_->Call<OpenImageReply>(OpenImageRequest{generation, hello_.rank}, std::chrono::seconds(20)));
  Buffer encoded(open.record.bytes);
  KEDGE_RETURN_IF_ERROR(
      attachment_.tiers[open.record.tier]->Read(open.record.slot, open.record.offset, encoded.data(), encoded.size()));
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeImageRecord(encoded));
  std::vector<std::byte> found(bytes);
  for (const Extent& extent : record.extents) {
    const SlotRange& chunk = open.chunks[extent.chunk];
    if (chunk.tier == kTierNone) return Status(Code::kNotFound, "a chunk is in the store only");
    KEDGE_RETURN_IF_ERROR(attachment_.tiers[chunk.tier]->Read(chunk.slot, chunk.offset + extent.chunk_offset,
                                                              found.data() + extent.region_offset, extent.bytes));
  }
  KEDGE_ASSIGN_OR_RETURN(DoneReply done, connection_->Call<DoneReply>(CloseImageRequest{open.image}, std::chrono::seconds(20)));
  (void)done;
  if (found != PatternOf(generation, hello_.rank, bytes)) return Status(Code::kCorrupt, "other bytes than were captured");
  return Status::Ok();
}

Result<std::string> AgentClient::AgentStatus() {
  KEDGE_ASSIGN_OR_RETURN(StatusReply reply, connection_->Call<StatusReply>(StatusRequest{}, std::chrono::seconds(20)));
  return reply.json;
}

Status AgentClient::Goodbye() {
  auto done = connection_->Call<DoneReply>(GoodbyeRequest{}, std::chrono::seconds(20));
  return done.status();
}

Status TakeOverAgents(const std::vector<std::unique_ptr<AgentClient>>& clients, const std::string& name, int64_t version,
                      size_t bytes, Generation* taken) {
  Status last;
  for (uint32_t take = 1; take <= 12; ++take) {
    *taken = clients.front()->GenerationOf(name, version, static_cast<uint32_t>(12 * (version - 1)) + take);
    last = Status::Ok();
    for (const auto& one : clients) last = last.ok() ? one->CaptureButEnd(*taken, bytes) : last;
    for (const auto& one : clients) last = last.ok() ? one->SendEnd() : last;
    for (const auto& one : clients) {
      if (!last.ok()) break;
      const auto reply = one->Wait(*taken, Level::kStore);
      last = reply.ok() ? reply->failure : reply.status();
    }
    if (last.ok() || last.code() != Code::kUnavailable) return last;
    for (const auto& one : clients) {
      for (int i = 0; i < 20; ++i) {
        last = one->Attach();
        if (last.code() != Code::kUnavailable) break;
      }
      KEDGE_RETURN_IF_ERROR(last);
    }
    // What was handed over whole gets to the store by itself.
    bool is_there = true;
    for (const auto& one : clients) {
      const auto reply = one->Wait(*taken, Level::kStore, std::chrono::seconds(10));
      is_there = is_there && reply.ok() && reply->failure.ok();
    }
    if (is_there) return Status::Ok();
    for (const auto& one : clients) one->Abort();
  }
  return last;
}

}  // namespace kedge::testing
