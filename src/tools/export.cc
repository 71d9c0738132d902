// kedge export: regions of a version as .npy files, or raw, verified on the way.
#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/byte_size.h"
#include "base/crc32c.h"
#include "base/json.h"
#include "os/files/files.h"
#include "store/sharing/image_object.h"
#include "tools/command.h"
#include "tools/common.h"
#include "tools/npy.h"

namespace kedge::tools {
namespace {

struct ExportOptions {
  StoreOptions store;
  std::string spec;
  int64_t rank = 0;
  bool all_ranks = false;
  std::vector<std::string> regions;
  std::string folder = ".";
  bool raw = false;
  bool force = false;
  bool json = false;
};

bool IsSelected(const Region& region, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return true;
  for (const std::string& text : wanted) {
    if (text == region.name || text == fmt::format("{}", region.id)) return true;
  }
  return false;
}

// A file name that is safe whatever the region is called.
std::string FileStem(const Region& region, uint32_t rank, bool with_rank) {
  std::string stem = region.name.empty() ? fmt::format("region-{}", region.id) : region.name;
  for (char& c : stem) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') c = '_';
  }
  if (stem[0] == '.') stem[0] = '_';
  if (stem.size() > 120) stem.resize(120);
  return with_rank ? fmt::format("{}-r{}", stem, rank) : stem;
}

// Writes one region; extents come in order, so that the file is written from front to back.
Status WriteRegion(const OpenedStore& opened, const StoredImage& image, size_t region_index, const std::string& path,
                   const ExportOptions& options) {
  auto& fs = os::SystemFileSystem();
  const os::OpenFlags flags =
      os::OpenFlags::kWrite | os::OpenFlags::kCreate | (options.force ? os::OpenFlags::kTruncate : os::OpenFlags::kExclusive);
  KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open(path, flags, 0666));
  uint64_t at = 0;
  const auto append = [&](const void* data, size_t bytes) {
    const Status status = os::WriteAll(*file, data, bytes, at);
    at += bytes;
    return status;
  };
  if (!options.raw) {
    const std::string header = NpyHeader(image.record.regions[region_index]);
    KEDGE_RETURN_IF_ERROR(append(header.data(), header.size()));
  }
  std::unique_ptr<ObjectReader> reader;
  std::string open_key;
  std::vector<std::byte> buffer;
  for (const Extent& extent : image.record.extents) {
    if (extent.region != region_index) continue;
    const Chunk& chunk = image.record.chunks[extent.chunk];
    const std::string key = ChunkObjectKey(image, chunk);
    if (key != open_key) {
      KEDGE_ASSIGN_OR_RETURN(reader, OpenChunkObject(opened.catalog, image, chunk));
      open_key = key;
    }
    buffer.resize(extent.bytes);
    KEDGE_RETURN_IF_ERROR(reader->ReadAt(chunk.object_offset + extent.chunk_offset, buffer));
    const uint32_t found = crc32c::Compute(buffer.data(), buffer.size());
    if (found != extent.crc32c) {
      return Status(Code::kCorrupt,
                    fmt::format("{}: bytes at {} of region {} have CRC32C {:08x}, saved was {:08x}", key, extent.region_offset,
                                image.record.regions[region_index].id, found, extent.crc32c));
    }
    KEDGE_RETURN_IF_ERROR(append(buffer.data(), buffer.size()));
  }
  return file->Close();
}

Outcome Export(const ExportOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, SelectVersion(opened, options.store, options.spec));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(os::SystemFileSystem(), options.folder, 0777, false));
  Json files = Json::array();
  std::set<std::string> names;
  const auto first = static_cast<uint32_t>(options.all_ranks ? 0 : options.rank);
  const uint32_t end = options.all_ranks ? info.ranks : first + 1;
  for (uint32_t rank = first; rank < end; ++rank) {
    auto image = ReadImage(opened.catalog, info.generation, rank);
    if (!image.ok()) return image.status().WithContext(fmt::format("rank {} (of {})", rank, info.ranks));
    for (size_t i = 0; i < image->record.regions.size(); ++i) {
      const Region& region = image->record.regions[i];
      if (!IsSelected(region, options.regions)) continue;
      std::string stem = FileStem(region, rank, options.all_ranks);
      if (!names.insert(stem).second) names.insert(stem += fmt::format("-{}", region.id));
      const std::string path = fmt::format("{}/{}{}", options.folder, stem, options.raw ? ".raw" : ".npy");
      KEDGE_RETURN_IF_ERROR(WriteRegion(opened, *image, i, path, options));
      files.push_back({{"path", path}, {"rank", rank}, {"region", region.id}, {"bytes", region.bytes}});
      if (!options.json)
        std::printf("%s  %s %s, %s\n", path.c_str(), ElementTypeName(region.type), ShapeText(region.shape).c_str(),
                    FormatByteSize(region.bytes).c_str());
      if (region.type == ElementType::kBfloat16 && !options.raw)
        std::fprintf(stderr, "kedge: note: %s holds bfloat16 as its bits (uint16), which NumPy has no type for\n", path.c_str());
    }
  }
  if (names.empty())
    return Status(Code::kNotFound,
                  fmt::format("no region of {} matches; `kedge inspect` lists them", info.generation.ToString()));
  if (options.json) {
    PrintJson({{"job", info.generation.job},
               {"name", info.generation.name},
               {"version", info.generation.version},
               {"files", std::move(files)}});
  }
  return kExitOk;
}

}  // namespace

Command ExportCommand() {
  return {
      "export", "write regions of a version as .npy files, or raw", [](CLI::App& app) {
        auto options = std::make_shared<ExportOptions>();
        options->store.AddTo(app);
        app.add_option("version", options->spec, kVersionSpecHelp)->required()->type_name(kVersionSpecForm);
        app.add_option("--region", options->regions, "only these regions, by name or id")->type_name("REGION");
        auto* rank =
            app.add_option("--rank", options->rank, "this rank's image")->capture_default_str()->check(CLI::NonNegativeNumber);
        app.add_flag("--all-ranks", options->all_ranks, "every rank's image; the rank stands in the file's name")->excludes(rank);
        app.add_option("-o,--output", options->folder, "folder for the files")->capture_default_str();
        app.add_flag("--raw", options->raw, "the bytes alone, without a header");
        app.add_flag("--force", options->force, "overwrite files that are there");
        app.add_flag("--json", options->json, "print JSON");
        app.footer(
            "Every byte is verified on the way.\nExample:\n  kedge export heat@120 --region temperature --all-ranks -o out/");
        return [options] { return Export(*options); };
      }};
}

}  // namespace kedge::tools
