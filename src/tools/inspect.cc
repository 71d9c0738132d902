// kedge inspect: what one version holds: regions with types and shapes, chunks, checksums, annotations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/json.h"
#include "store/sharing/image_object.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct InspectOptions {
  StoreOptions store;
  std::string spec;
  std::optional<int64_t> rank;
  bool all_ranks = false;
  bool chunks = false;
  bool extents = false;
  bool brief = false;
  bool json = false;
};

// A sentence, which goes on below where it is long.
void PrintSentence(const std::string& line) {
  std::fputs(WrappedAt(4, line).c_str(), stdout);
}

const char* KindName(const Region& region) {
  switch (region.kind) {
    case RegionKind::kMemory: return IsHeapBlock(region) ? "block" : "memory";
    case RegionKind::kObject: return "object";
    case RegionKind::kFile: return "file";
  }
  return "unknown";
}

// Annotations may hold any bytes: what is not printable is shown as its size.
std::string ValueText(const std::string& value) {
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return fmt::format("({} bytes)", value.size());
  }
  return value.size() <= 60 ? value : value.substr(0, 57) + "...";
}

std::string LayoutText(const Region& region) {
  std::string text = ShapeText(region.shape);
  if (region.column_major && region.shape.size() > 1) text += " (column major)";
  if (!region.global_shape.empty())
    text += fmt::format(" of {} at {}", ShapeText(region.global_shape), ShapeText(region.global_offset));
  if (!region.halo.empty()) text += fmt::format(", halo {}", ShapeText(region.halo));
  return text;
}

void PrintImage(const StoredImage& image, const InspectOptions& options) {
  const ImageRecord& record = image.record;
  std::puts("");
  PrintSentence(fmt::format("rank {}: {} in {}, {}; object {}{}", image.entry.rank, FormatByteSize(record.RegionBytes()),
                            Counted(record.regions.size(), "region"), Counted(record.chunks.size(), "chunk"), image.object_key,
                            keys::IsNodeObject(image.object_key) ? " (of its node)" : ""));
  if (image.map && image.map->has_fingerprints) {
    const StoredBytes bytes = StoredBytesOf(image);
    const std::string compressed =
        bytes.stored < bytes.own ? fmt::format(" (compressed: {})", FormatByteSize(bytes.stored)) : std::string();
    const std::string copies = bytes.copies > 0 ? fmt::format(", {} copies", FormatByteSize(bytes.copies)) : std::string();
    size_t lenders = 0, of_version = 0;
    for (const SharedObject& object : image.map->objects) {
      if (!IsOfVersion(object, record.identity.generation)) continue;
      ++of_version;
      if (!keys::IsCommonObject(object.key)) ++lenders;
    }
    std::string borrowed =
        lenders > 0 ? fmt::format(", {} in those of {}", FormatByteSize(bytes.borrowed), Counted(lenders, "other rank"))
                    : std::string();
    if (of_version > lenders) {
      borrowed += fmt::format(", {} in {} of blocks that several nodes have", FormatByteSize(bytes.common),
                              Counted(of_version - lenders, "object"));
    }
    PrintSentence(fmt::format("of these {} in that object{}, {} in those of {}{}{}, {} zeros", FormatByteSize(bytes.own),
                              compressed, FormatByteSize(bytes.shared),
                              Counted(image.map->objects.size() - of_version, "other image"), borrowed, copies,
                              FormatByteSize(bytes.zeros)));
  }
  Table regions({"ID", "NAME", "KIND", "TYPE", "BYTES", "SHAPE"}, {true, false, false, false, true, false});
  for (const Region& region : record.regions) {
    regions.AddRow({fmt::format("{}", region.id), region.name.empty() ? "-" : region.name, KindName(region),
                    ElementTypeName(region.type), fmt::format("{}", region.bytes), LayoutText(region)});
  }
  std::fputs(regions.Text().c_str(), stdout);
  const auto blocks = std::ranges::count_if(record.regions, IsHeapBlock);
  for (const Annotation& annotation : record.annotations) {
    if (annotation.key == kHeapKey) {
      PrintSentence(fmt::format("the heap of kedge_alloc, from {} on: {}", annotation.value,
                                Counted(static_cast<uint64_t>(blocks), "block")));
      continue;
    }
    std::printf("%s = %s\n", annotation.key.c_str(), ValueText(annotation.value).c_str());
  }
  if (options.chunks || options.extents) {
    Table chunks({"CHUNK", "OBJECT", "OFFSET", "BYTES"}, {true, false, true, true});
    for (size_t i = 0; i < record.chunks.size(); ++i) {
      chunks.AddRow({fmt::format("{}", i), ChunkObjectKey(image, record.chunks[i]),
                     fmt::format("{}", record.chunks[i].object_offset), fmt::format("{}", record.chunks[i].bytes)});
    }
    std::fputs(chunks.Text().c_str(), stdout);
    if (image.map) {
      for (const SharedObject& object : image.map->objects) std::printf("shares blocks with %s\n", object.key.c_str());
    }
  }
  if (options.extents) {
    Table extents({"REGION", "AT", "BYTES", "CHUNK", "AT", "CRC32C"}, {true, true, true, true, true, false});
    for (const Extent& extent : record.extents) {
      extents.AddRow({fmt::format("{}", record.regions[extent.region].id), fmt::format("{}", extent.region_offset),
                      fmt::format("{}", extent.bytes), fmt::format("{}", extent.chunk), fmt::format("{}", extent.chunk_offset),
                      fmt::format("{:08x}", extent.crc32c)});
    }
    std::fputs(extents.Text().c_str(), stdout);
  }
}

// What of an image lies where.
Json BytesJson(const StoredBytes& stored) {
  return {{"own_bytes", stored.own},           {"stored_bytes", stored.stored}, {"shared_bytes", stored.shared},
          {"borrowed_bytes", stored.borrowed}, {"common_bytes", stored.common}, {"copied_bytes", stored.copies},
          {"zero_bytes", stored.zeros}};
}

Json ImageJson(const StoredImage& image) {
  const ImageRecord& record = image.record;
  Json regions = Json::array(), chunks = Json::array(), extents = Json::array(), annotations = Json::object();
  for (const Region& region : record.regions) {
    regions.push_back({{"id", region.id},
                       {"name", region.name},
                       {"kind", KindName(region)},
                       {"type", ElementTypeName(region.type)},
                       {"element_bytes", region.element_bytes},
                       {"bytes", region.bytes},
                       {"column_major", region.column_major},
                       {"shape", region.shape},
                       {"global_shape", region.global_shape},
                       {"global_offset", region.global_offset},
                       {"halo", region.halo}});
  }
  for (const Chunk& chunk : record.chunks) {
    chunks.push_back({{"object", ChunkObjectKey(image, chunk)}, {"offset", chunk.object_offset}, {"bytes", chunk.bytes}});
  }
  for (const Extent& extent : record.extents) {
    extents.push_back({{"region", record.regions[extent.region].id},
                       {"region_offset", extent.region_offset},
                       {"bytes", extent.bytes},
                       {"chunk", extent.chunk},
                       {"chunk_offset", extent.chunk_offset},
                       {"crc32c", fmt::format("{:08x}", extent.crc32c)}});
  }
  for (const Annotation& annotation : record.annotations) annotations[annotation.key] = annotation.value;
  Json shared_objects = Json::array();
  if (image.map) {
    for (const SharedObject& object : image.map->objects) shared_objects.push_back(object.key);
  }
  Json json{{"rank", image.entry.rank},
            {"object", image.object_key},
            {"layout", keys::IsNodeObject(image.object_key) ? "node" : "file"},
            {"group", record.group},
            {"bytes", record.RegionBytes()},
            {"wall_time_ns", record.wall_time_ns},
            {"regions", std::move(regions)},
            {"chunks", std::move(chunks)},
            {"extents", std::move(extents)},
            {"annotations", std::move(annotations)},
            {"shared_objects", std::move(shared_objects)}};
  json.update(BytesJson(StoredBytesOf(image)));
  return json;
}

Json VersionJson(const VersionInfo& info, Json images) {
  return {{"job", info.generation.job},
          {"name", info.generation.name},
          {"version", info.generation.version},
          {"attempt", info.generation.attempt},
          {"take", info.generation.take},
          {"complete", info.complete},
          {"ranks", info.ranks},
          {"bytes", info.image_bytes},
          {"pinned", info.pinned},
          {"images", std::move(images)}};
}

// A line for each image that is there, by the parts that have them: whoever has thousands of ranks reads each record once.
Outcome InspectBriefly(const OpenedStore& opened, const VersionInfo& info, bool json) {
  std::vector<std::string> problems;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<PartRecord> parts, ReadParts(opened.catalog, info.generation, &problems));
  for (const std::string& problem : problems) std::fprintf(stderr, "kedge: warning: %s\n", problem.c_str());
  Json images = Json::array();
  std::map<std::string, uint64_t> common;  // objects of blocks that several nodes have: no image's own
  Table table({"RANK", "BYTES", "STORED", "SHARED", "ZEROS", "CAPTURED"}, {true, true, true, true, true, false});
  for (const PartRecord& part : parts) {
    for (const ImageEntry& entry : part.images) {
      auto image = ReadImage(opened.catalog, part, entry);
      if (!image.ok()) return image.status().WithContext(fmt::format("rank {} (of {})", entry.rank, info.ranks));
      const StoredBytes stored = StoredBytesOf(*image);
      const uint64_t bytes = image->record.RegionBytes();
      Json shown{{"rank", entry.rank},
                 {"part", part.images.front().rank},
                 {"bytes", bytes},
                 {"wall_time_ns", image->record.wall_time_ns}};
      shown.update(BytesJson(stored));
      for (const SharedObject& object : image->map ? image->map->objects : std::vector<SharedObject>()) {
        if (IsOfVersion(object, info.generation) && keys::IsCommonObject(object.key)) common[object.key] = object.bytes;
      }
      images.push_back(std::move(shown));
      table.AddRow({fmt::format("{}", entry.rank), FormatByteSize(bytes), FormatByteSize(stored.stored),
                    FormatByteSize(stored.shared), FormatByteSize(stored.zeros), FormatWallTime(image->record.wall_time_ns)});
    }
  }
  uint64_t common_bytes = 0;
  for (const auto& [object, bytes] : common) common_bytes += bytes;
  if (json) {
    Json shown = VersionJson(info, std::move(images));
    shown["common_object_bytes"] = common_bytes;
    PrintJson(shown);
  } else {
    std::fputs(table.Text().c_str(), stdout);
    if (common_bytes > 0) std::printf("and %s of blocks that several nodes have\n", FormatByteSize(common_bytes).c_str());
  }
  return kExitOk;
}

// Without a word the only checkpoint there is.
Result<std::string> OnlyCheckpoint(const OpenedStore& opened, const StoreOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, SelectJobs(opened, options));
  std::vector<std::string> found;
  for (const std::string& job : jobs) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, opened.catalog.Names(job, nullptr));
    for (const std::string& name : names) found.push_back(job + '/' + name);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return Status(Code::kNotFound, fmt::format("no checkpoints in {}", opened.path));
  return Status(Code::kInvalidArgument,
                fmt::format("{} is needed: {} has {}", kVersionSpecForm, opened.path, fmt::join(found, ", ")));
}

Outcome Inspect(const InspectOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  std::string spec = options.spec;
  if (spec.empty()) {
    KEDGE_ASSIGN_OR_RETURN(spec, OnlyCheckpoint(opened, options.store));
  }
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, SelectVersion(opened, options.store, spec));
  if (options.brief) return InspectBriefly(opened, info, options.json);
  if (!options.json) {
    const std::string state =
        info.complete ? fmt::format("complete since {}", FormatWallTime(info.wall_time_ns)) : "incomplete: " + info.reason;
    PrintSentence(fmt::format("{}: {}, {}, {}, {}", info.generation.ToString(), state, Counted(info.ranks, "rank"),
                              FormatByteSize(info.image_bytes), info.pinned ? "pinned" : "not pinned"));
  }
  Json images = Json::array();
  const auto first = static_cast<uint32_t>(options.all_ranks ? 0 : options.rank.value_or(0));
  const uint32_t end = options.all_ranks ? info.ranks : first + 1;
  for (uint32_t rank = first; rank < end; ++rank) {
    auto image = ReadImage(opened.catalog, info.generation, rank);
    if (!image.ok()) return image.status().WithContext(fmt::format("rank {} (of {})", rank, info.ranks));
    if (options.json) {
      images.push_back(ImageJson(*image));
    } else {
      PrintImage(*image, options);
    }
  }
  if (options.json) PrintJson(VersionJson(info, std::move(images)));
  const bool leaves_out = info.ranks > 1 && !options.all_ranks && !options.rank;
  if (!options.json && leaves_out) std::printf("\nonly rank 0 of %u: --all-ranks shows all, --rank N another\n", info.ranks);
  return kExitOk;
}

}  // namespace

Command InspectCommand() {
  return {"inspect", "show what a version holds: regions, types, shapes, chunks, checksums", [](CLI::App& app) {
            auto options = std::make_shared<InspectOptions>();
            options->store.AddTo(app);
            app.add_option("version", options->spec, kVersionSpecHelp)->type_name(kVersionSpecForm);
            auto* rank = app.add_option("--rank", options->rank, "this rank's image (default: 0)")->check(CLI::NonNegativeNumber);
            app.add_flag("--all-ranks", options->all_ranks, "every rank's image")->excludes(rank);
            app.add_flag("--chunks", options->chunks, "also the chunks and the objects they lie in");
            app.add_flag("--extents", options->extents, "also every extent with its checksum");
            app.add_flag("--brief", options->brief, "one line for each image: sizes, and when it was captured")->excludes(rank);
            app.add_flag("--json", options->json, "print JSON, with chunks and extents unless --brief");
            app.footer("Examples:\n  kedge inspect heat\n  kedge inspect climate/heat@120 --rank 3 --chunks");
            return [options] { return Inspect(*options); };
          }};
}

}  // namespace kedge::tools
