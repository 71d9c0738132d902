// fuzz-seeds FOLDER: writes FOLDER/FUZZER/NAME, well-formed inputs that the fuzzers start from: one record, message,
// configuration or file of every kind. Made anew for each run, so that they follow the formats.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "agent/peers/peer_messages.h"
#include "agent/space/tier_cut.h"
#include "agent/tables/record_file.h"
#include "base/random.h"
#include "burst/store_messages.h"
#include "format/calibration.h"
#include "format/name_encoding.h"
#include "format/testing/sample_records.h"
#include "session/config_keys.h"
#include "session/messages.h"
#include "store/keys.h"
#include "store/temporary_tag.h"

namespace kedge {
namespace {

class Seeds {
 public:
  explicit Seeds(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void Add(const std::string& fuzzer, const std::string& name, std::string_view content) {
    const auto folder = folder_ / fuzzer;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path folder_;
};

// The fuzzer takes the kind and the format version from the first byte and puts the envelope around the rest.
void AddRecords(Seeds& seeds) {
  for (const testing::Sample& sample : testing::AllSamples()) {
    const std::string_view record = AsText(sample.bytes);
    const std::string_view payload = record.substr(kEnvelopeHeaderBytes, record.size() - kEnvelopeBytes);
    const int newest = testing::FormatVersionOf(sample.bytes) == kFormatVersion ? 0 : 0x80;
    const int first = (static_cast<int>(sample.kind) - 1) | newest;
    seeds.Add("format_record_fuzzer", sample.name, static_cast<char>(first) + std::string(payload));
  }
}

// A payload, ended as FuzzedDataProvider ends a string ("\\" doubled, then "\\ "), and from the end of the input which of the two
// kinds it is, and what is asked of a set.
void AddSets(Seeds& seeds) {
  const auto payload_of = [](ByteSpan record) {
    return std::string(AsText(record.subspan(kEnvelopeHeaderBytes, record.size() - kEnvelopeBytes)));
  };
  Buffer image;
  KEDGE_CHECK(EncodeImageRecord(testing::SampleImage(), &image).ok());
  seeds.Add("redundancy_set_fuzzer", "image", payload_of(image) + '\1');
  Buffer set;
  KEDGE_CHECK(EncodeSetRecord(testing::SampleSetRecord(), &set).ok());
  std::string escaped;
  for (const char c : payload_of(set)) escaped += c == '\\' ? std::string("\\\\") : std::string(1, c);
  seeds.Add("redundancy_set_fuzzer", "set", escaped + "\\ " + std::string(60, '\1') + '\0');
}

// Kind and ranks in front, as the fuzzer takes them.
void AddPeerMessages(Seeds& seeds) {
  const Generation generation = testing::SampleIdentity().generation;
  const SetRecord record = testing::SampleSetRecord();
  const auto add = [&](char kind, const Buffer& body) {
    seeds.Add("agent_peers_fuzzer", std::to_string(int{kind}), std::string{kind, 3} + std::string(AsText(body)));
  };
  add(0, Encode(ExchangeRequest{record.identity, 1, true, record.members[0]}));
  add(1, Encode(ExchangeReply{true, record.members[0], 70000}));
  add(2, Encode(GroupsNotice{generation, 7, true, {1, 3}}));
  add(3, Encode(GroupsReply{{0, 2}, 1 << 20}));
  add(4, Encode(InventoryRequest{generation.store_id, generation.job, "name"}));
  InventoryReply inventory{"n1", {{"n0", "address"}}, true, {{generation, 1, 2, Level::kStore, true, false, true}}, {}};
  inventory.sets.push_back({redundancy::Summarize(record, 5), {0, 1}});
  add(5, Encode(inventory));
  add(6, Encode(DescribeRequest{generation, 1}));
  add(7, Encode(DescribeReply{record.members[0].image_record, 4096}));
  add(8, Encode(SetRequest{record.identity, 1}));
  ReadRequest read;
  read.generation = generation;
  read.bytes = 4096;
  add(9, Encode(read));
  add(10, Encode(LeaseReply{{{4096, {1, 2, 3, 4096, 60000}}}, false}));
  add(11, Encode(record.members[0].blocks));
  add(15, Encode(LocalPromise{generation, "n1", true}));
  add(16, Encode(LocalReply{false, generation, {"n1", "n2"}}));
  add(17, Encode(LocalNews{generation, true}));
  add(24, Encode(CompletedNotice{generation}));
  add(18, Encode(SealedReply{{1, 2, 3, 4096, 60000}, {}}));
  add(12, Encode(Invitation{generation.store_id, generation.job, {2, 2, "secret", {{"n1", "rack", "address", {0, 1}}}}}));
}

// The kind in front, as the fuzzer takes it.
void AddBufferMessages(Seeds& seeds) {
  const auto add = [&](char kind, const Buffer& body) {
    seeds.Add("buffer_protocol_fuzzer", std::to_string(int{kind}), kind + std::string(AsText(body)));
  };
  buffer::StoreRequest request{.operation = buffer::StoreOperation::kPutIfAbsent, .store = "ckpt", .key = "jobs/j/x"};
  request.owner = {"n1", 3, "agent"};
  request.keys = {"a", "b/c"};
  request.handles = {1, 2};
  request.content = Buffer(5);
  add(11, Encode(request));
  buffer::StoreReply reply{.status = Status::FromErrno(28, "write /a"), .handle = 7};
  reply.entries = {{"a", true}};
  reply.statuses = {Status::Ok()};
  reply.temporaries = {{"f/x.tmp", request.owner, "n1-3-agent", 5, 1.5}};
  add(12, Encode(reply));
  add(13, Encode(buffer::StoreReadRequest{1, 3, 5}));
  buffer::StoreReadReply piece;
  piece.memory = {1, 2, 3, buffer::kBlockBytes + 1, 60000};
  piece.sums = {4, 5};
  piece.seals.resize(2);
  add(14, Encode(piece));
}

void AddNames(Seeds& seeds) {
  for (const std::string name : {"plain", "a/b\\c.d", "h\xc3\xbcte", ".hidden"}) {
    seeds.Add("format_name_fuzzer", EncodeName(name), EncodeName(name));
  }
  seeds.Add("format_name_fuzzer", "long", EncodeName(std::string(400, 'x')));
  const Generation generation = testing::SampleIdentity().generation;
  const std::string folder = keys::GenerationFolder(generation);
  seeds.Add("store_keys_fuzzer", "generation", folder.substr(folder.rfind('/') + 1));
  seeds.Add("store_keys_fuzzer", "part", keys::PartName(3, 4));
  seeds.Add("store_keys_fuzzer", "object", keys::RelativeToJob(generation.job, keys::ImageKey(generation, 2)));
  seeds.Add("store_keys_fuzzer", "temporary", MakeTemporaryTag({"node-1.cluster", 7, "agent"}));
}

void AddCalibration(Seeds& seeds) {
  Calibration calibration{CalibrationOrigin::kMeasured, "directory", "ext4, Example SSD, 100 GiB", 64 << 20, "6.1.0", 0, {}};
  for (uint32_t writers = 1; writers <= 31; writers += 10) calibration.samples.push_back({writers, 500'000'000 + writers, 5, 20});
  seeds.Add("format_calibration_fuzzer", "measured", FormatCalibration(calibration));
}

template <size_t kIndex = 0>
void AddMessages(Seeds& seeds) {
  if constexpr (kIndex < std::variant_size_v<Message>) {
    Message message;
    message.emplace<kIndex>();
    seeds.Add("session_messages_fuzzer", std::to_string(kIndex), AsText(EncodeMessage(kIndex, message)));
    AddMessages<kIndex + 1>(seeds);
  }
}

void AddFullMessages(Seeds& seeds) {
  const ImageIdentity identity = testing::SampleIdentity();
  Hello hello;
  hello.build = "build";
  hello.job = "job";
  hello.store_id = identity.generation.store_id;
  hello.keys.store_path = "/store";
  hello.node_keys = {{"pool.size", "1GiB"}};
  hello.held_slots = {{0, 3, 99, true}};
  Welcome welcome;
  welcome.tiers = {{"pool", "/dev/shm/pool", TierKind::kMemory, "/dev/shm/pool", 1 << 20, 16}};
  LevelReply level{Level::kLocal, Level::kStore, Status(Code::kNoSpace, "full", 28), {1, 3}};
  LocalVersionsReply versions{{{identity.generation, 0, 2, Level::kStore}}};
  MeasureReply measured{"n1", "job", 3, "tcp", {{"n2", "192.0.2.7:4711", true, 45'000, 3000, Status(Code::kTimeout, "late")}}};
  OpenImageReply open{4, SlotRange{0, 1, 2, 3, 4}, {SlotRange{0, 5, 6, 7, 8}}};
  int number = 0;
  for (const Message& message :
       {Message(hello), Message(welcome), Message(level), Message(versions), Message(open), Message(measured),
        Message(WaitRequest{identity.generation, Level::kStore, std::chrono::seconds(5)}),
        Message(OpenImageRequest{identity.generation, 1}), Message(OpenWindowRequest{identity.generation, 1}),
        Message(OpenWindowReply{4, 1 << 20, 4096, 8 << 20})}) {
    seeds.Add("session_messages_fuzzer", "full-" + std::to_string(++number), AsText(EncodeMessage(1, message)));
  }
}

// FuzzedDataProvider takes small numbers from the end of its input: a last byte of zero means no variables.
void AddConfigurations(Seeds& seeds) {
  auto config = Config::Load(KedgeConfigRegistry(), {.search_files = false});
  std::string defaults;
  for (const ConfigEntry& entry : config->Entries()) {
    const std::string toml = entry.key + " = \"" + entry.value_text + "\"\n";
    if (entry.value_text.find_first_of("[\"") == std::string::npos) defaults += toml;
    seeds.Add("session_config_fuzzer", entry.key, toml + '\0');
  }
  seeds.Add("session_config_fuzzer", "defaults", defaults + '\0');
  seeds.Add(
      "session_config_fuzzer", "tiers",
      std::string("[[tier]]\nname = \"ssd\"\npath = \"/ssd\"\ncapacity = \"1GiB\"\nkind = \"directory\"\n[pool]\nsize = 1\n") +
          '\0');
  // An empty value for the variable ("\\ " ends it), the text, and which variable.
  const std::string veloc =
      "scratch = /tmp/scratch\npersistent = /tmp/store ; comment\nmode = async\n# comment\n[section]\n"
      "max_versions = 3\nscratch_versions: 2\npersistent_interval = 60\nec_interval = -1\nchksum = on\n"
      "watchdog_interval = 5\nmeta = /tmp/meta\naxl_type = x\n";
  seeds.Add("veloc_config_fuzzer", "all-keys", "\\ " + veloc + '\0');
}

void AddFiles(Seeds& seeds) {
  ImageFile file;
  file.local = testing::SampleLocalRecord();
  file.scheduled = Level::kStore;
  file.stored = true;
  seeds.Add("agent_files_fuzzer", "image-file", AsText(EncodeImageFile(file).value()));
  // Fields and payload apart, as the fuzzer puts them together; the last byte is how many fields there are beyond five.
  Buffer local;
  KEDGE_CHECK(EncodeLocalRecord(file.local, &local).ok());
  const std::string_view payload = AsText(local).substr(kEnvelopeHeaderBytes, local.size() - kEnvelopeBytes);
  seeds.Add("agent_files_fuzzer", "image-fields", std::string("\1\2\3\4\3\1", 6) + std::string(payload) + '\1');
  seeds.Add("agent_files_fuzzer", "layout", FormatTierCut({4096, 7}));
}

// Long ones: libFuzzer makes inputs longer only step by step, and each runs an agent.
void AddActions(Seeds& seeds) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::string actions(seed * 64, '\0');
    Random(seed).Fill(actions.data(), actions.size());
    seeds.Add("agent_client_fuzzer", "actions-" + std::to_string(seed), actions);
  }
}

int Main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: fuzz-seeds FOLDER\n", stderr), 2;
  Seeds seeds{argv[1]};
  AddRecords(seeds);
  AddSets(seeds);
  AddPeerMessages(seeds);
  AddBufferMessages(seeds);
  AddNames(seeds);
  AddCalibration(seeds);
  AddMessages(seeds);
  AddFullMessages(seeds);
  AddConfigurations(seeds);
  AddFiles(seeds);
  AddActions(seeds);
  return 0;
}

}  // namespace
}  // namespace kedge

int main(int argc, char** argv) {
  return kedge::Main(argc, argv);
}
