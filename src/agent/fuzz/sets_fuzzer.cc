// The sets of protected images in a run folder as anything may have left them: set and parity records with any content and names,
// also with checksums that belong to their bytes, and slots that are another's. An agent that recovers them keeps only objects
// whose slots are there and hold their length; and when the sets are dropped, it holds no more slots than before.
#include <fuzzer/FuzzedDataProvider.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/protect/held_sets.h"
#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/testing/local_agent.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/status.h"
#include "format/testing/sample_records.h"

namespace kedge {
namespace {

constexpr uint32_t kSlots = 8;
constexpr uint32_t kTaken = 3;
constexpr uint64_t kSlotBytes = 64 << 10;

struct Scene {
  testing::LocalAgent agent{kSlots, kSlotBytes};
  std::vector<OwnRange> ranges;  // slots that are in use
  Version* version = nullptr;

  Scene() {
    const SetRecord set = testing::SampleSetRecord();
    const Generation& generation = set.identity.generation;
    auto job = std::make_unique<Job>();
    job->store_id = generation.store_id;
    job->name = generation.job;
    auto made = std::make_unique<Version>();
    made->generation = generation;
    made->job = job.get();
    made->ranks = set.identity.ranks;
    version = made.get();
    job->versions[generation] = std::move(made);
    agent->core().jobs()[{generation.store_id, generation.job}] = std::move(job);
    ranges = *agent->own_slots().TakeAll({&agent.pool()}, kTaken * kSlotBytes);
    agent->own_slots().Close();
  }
};

std::string AnyName(FuzzedDataProvider& input) {
  const std::string number = std::to_string(input.ConsumeIntegralInRange<uint32_t>(0, 3));
  switch (input.ConsumeIntegralInRange(0, 5)) {
    case 0:
    case 1: return number + ".set";
    case 2:
    case 3: return number + "." + std::to_string(input.ConsumeIntegralInRange<uint32_t>(0, 3));
    case 4: return number;
    default: return std::to_string(input.ConsumeIntegral<uint64_t>()) + (input.ConsumeBool() ? ".set" : ".x");
  }
}

// A record of parity that decodes: its fields are the input's, or right ones.
Buffer AnyParity(FuzzedDataProvider& input, const Scene& scene, uint32_t set_crc32c) {
  ParityRecord record = testing::SampleParityRecord();
  record.member = input.ConsumeIntegralInRange<uint32_t>(0, 4);
  record.set_record_crc32c = input.ConsumeIntegralInRange(0, 7) == 0 ? 1 : set_crc32c;
  record.tiers = {input.ConsumeIntegralInRange(0, 7) == 0 ? "another" : scene.ranges[0].unit->info().key};
  record.slots.clear();
  uint64_t bytes = 0;
  for (int slots = input.ConsumeIntegralInRange(1, 4); slots > 0; --slots) {
    const OwnRange& range = scene.ranges[input.ConsumeIntegralInRange<size_t>(0, scene.ranges.size() - 1)];
    ParitySlot slot{0, range.slot, range.slot_generation, 0, 4096};
    if (input.ConsumeIntegralInRange(0, 3) == 0) slot.slot = input.ConsumeIntegral<uint8_t>();
    if (input.ConsumeIntegralInRange(0, 3) == 0) slot.slot_generation = input.ConsumeIntegral<uint8_t>();
    if (input.ConsumeBool()) slot.offset = input.ConsumeIntegral<uint64_t>() / 8 * 8;
    if (input.ConsumeBool()) slot.bytes = input.ConsumeIntegral<uint32_t>();
    record.slots.push_back(slot);
    bytes += slot.bytes;
  }
  record.blocks = BlockTable{input.ConsumeIntegralInRange(0, 7) == 0 ? bytes + 1 : bytes, kBlockBytesMax, {}};
  record.blocks.crc32c.resize(record.blocks.BlockCount());
  Buffer encoded;
  return EncodeParityRecord(record, &encoded).ok() ? encoded : Buffer();
}

void Write(const std::filesystem::path& path, ByteSpan bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void Recover(Scene& scene, FuzzedDataProvider& input) {
  const std::filesystem::path folder = scene.agent->core().Path("sets");
  Buffer set;
  KEDGE_CHECK(EncodeSetRecord(testing::SampleSetRecord(), &set).ok());
  for (int files = 0; files < 6 && input.remaining_bytes() > 0; ++files) {
    const auto path = folder / AnyName(input);
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0: Write(path, set); break;
      case 1: Write(path, AnyParity(input, scene, crc32c::Compute(set.data(), set.size()))); break;
      case 2: {
        const std::string payload = input.ConsumeRandomLengthString();
        Write(path, testing::Enclose(input.ConsumeBool() ? RecordKind::kSet : RecordKind::kParity, AsBytes(payload)));
        break;
      }
      case 3: {
        const std::string bytes = input.ConsumeRandomLengthString();
        Write(path, AsBytes(bytes));
        break;
      }
    }
  }
  scene.agent->held_sets().Recover();
  for (const auto& [identity, held] : scene.version->sets) {
    for (const auto& [member, object] : held->objects) {
      uint64_t bytes = 0;
      for (const OwnRange& range : object.ranges) {
        KEDGE_CHECK(range.slot < range.unit->info().slots && range.offset <= kSlotBytes &&
                    range.bytes <= kSlotBytes - range.offset);
        bytes += range.bytes;
      }
      KEDGE_CHECK(member < held->record.members.size() && bytes == object.record.blocks.bytes);
    }
  }
  scene.agent->held_sets().DropAll(*scene.version);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove_all(entry.path());
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  static std::unique_ptr<Scene> scene;
  if (scene == nullptr) {
    SetLogLevel(LogLevel::kOff);
    scene = std::make_unique<Scene>();
  }
  FuzzedDataProvider input(data, bytes);
  Recover(*scene, input);
  KEDGE_CHECK(scene->agent.pool().space->free_slots() == scene->agent.pool().info().slots - kTaken);
  return 0;
}
