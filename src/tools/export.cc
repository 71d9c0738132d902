// kedge export: regions of a version as .npy files, or raw, verified on the way: those of a rank's image, or a global array that
// is put together from the parts of all.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/byte_size.h"
#include "base/json.h"
#include "os/files/files.h"
#include "restore/array_parts.h"
#include "restore/image_reader.h"
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
  bool by_rank = false;  // one is named, or all are
  std::vector<std::string> regions;
  std::string output = ".";
  bool raw = false;
  bool force = false;
  bool json = false;
};

bool IsCalled(const Region& region, const std::string& text) {
  return text == region.name || text == fmt::format("{}", region.id);
}

bool IsPartOfArray(const Region& region, const std::string& text) {
  return PartOf(region) && text == ArrayNameOf(region);
}

bool IsSelected(const Region& region, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& text) {
           return IsCalled(region, text) || IsPartOfArray(region, text);
         });
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

Result<std::unique_ptr<ImageReader>> OpenImage(const OpenedStore& opened, const VersionInfo& info, uint32_t rank) {
  auto image = ReadImage(opened.catalog, info.generation, rank);
  if (!image.ok()) return image.status().WithContext(fmt::format("rank {} (of {})", rank, info.ranks));
  ImageRecord record = image->record;
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::make_unique<StoreSource>(&opened.catalog, *std::move(image)));
  return std::make_unique<ImageReader>(std::move(record), std::move(sources));
}

// A file that gets a region: of what images have each extent is read, verified and written where it belongs, so that little of it
// is held. It goes again unless it is finished.
class RegionFile {
 public:
  explicit RegionFile(std::string path) : path_(std::move(path)) {}
  ~RegionFile() {
    if (file_) (void)os::UnlinkIfPresent(os::SystemFileSystem(), path_);
  }
  RegionFile(const RegionFile&) = delete;
  RegionFile& operator=(const RegionFile&) = delete;

  Status Begin(const Region& region, const ExportOptions& options) {
    const os::OpenFlags flags =
        os::OpenFlags::kWrite | os::OpenFlags::kCreate | (options.force ? os::OpenFlags::kTruncate : os::OpenFlags::kExclusive);
    auto opened = os::SystemFileSystem().Open(path_, flags, 0666);
    if (opened.status().errno_value() == EEXIST)
      return Status(Code::kAlreadyExists, path_ + " is there already: --force writes over it");
    KEDGE_ASSIGN_OR_RETURN(file_, std::move(opened));
    const std::string header = options.raw ? std::string() : NpyHeader(region);
    begin_ = header.size();
    return os::WriteAll(*file_, header.data(), header.size(), 0);
  }

  Status Take(ImageReader& image, const RegionTarget& target) {
    const auto [first, last] = image.ExtentsOf(target.region);
    for (uint32_t index = first; index < last; ++index) {
      const Extent& extent = image.record().extents[index];
      const uint64_t at = extent.region_offset;
      WantedRuns runs(target, at, at + extent.bytes);
      auto run = runs.Next();
      if (!run) continue;
      buffer_.resize(extent.bytes);
      KEDGE_RETURN_IF_ERROR(image.ReadExtent(index, buffer_.data()));
      for (; run; run = runs.Next())
        KEDGE_RETURN_IF_ERROR(os::WriteAll(*file_, buffer_.data() + (run->from - at), run->bytes, begin_ + run->to));
    }
    return Status::Ok();
  }

  Status Finish() {
    KEDGE_RETURN_IF_ERROR(file_->Close());
    file_.reset();
    return Status::Ok();
  }

 private:
  const std::string path_;
  std::unique_ptr<os::File> file_;
  uint64_t begin_ = 0;  // of the region
  std::vector<std::byte> buffer_;
};

class Exporter {
 public:
  Exporter(const OpenedStore& opened, const VersionInfo& info, const ExportOptions& options)
      : opened_(opened), info_(info), options_(options), is_one_file_(options.output.ends_with(Suffix())) {}

  Outcome Run() {
    const std::string folder = is_one_file_ ? os::ParentPath(options_.output) : options_.output;
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(os::SystemFileSystem(), folder, 0777, false));
    const auto first = static_cast<uint32_t>(options_.all_ranks ? 0 : options_.rank);
    const uint32_t end = options_.all_ranks ? info_.ranks : first + 1;
    for (uint32_t rank = first; rank < end; ++rank) {
      KEDGE_ASSIGN_OR_RETURN(const auto image, OpenImage(opened_, info_, rank));
      std::vector<std::string> wanted = options_.regions;
      if (!options_.by_rank) KEDGE_RETURN_IF_ERROR(ExportArrays(image->record(), &wanted));
      if (wanted.empty() && !options_.regions.empty()) continue;
      KEDGE_RETURN_IF_ERROR(ExportImage(*image, rank, wanted));
    }
    if (names_.empty())
      return Status(Code::kNotFound,
                    fmt::format("no region of {} matches; `kedge inspect` lists them", info_.generation.ToString()));
    if (options_.json) {
      PrintJson({{"job", info_.generation.job},
                 {"name", info_.generation.name},
                 {"version", info_.generation.version},
                 {"files", std::move(files_)}});
    }
    return kExitOk;
  }

 private:
  // Those of `wanted` that are whole arrays, which are taken out of it. `one`: any rank's image.
  Status ExportArrays(const ImageRecord& one, std::vector<std::string>* wanted) {
    std::set<std::string> names;
    for (const std::string& text : *wanted) {
      const auto is_no_array = [&](const Region& region) { return IsCalled(region, text) && !IsPartOfArray(region, text); };
      if (std::ranges::none_of(one.regions, is_no_array)) names.insert(text);
    }
    if (names.empty()) return Status::Ok();
    std::vector<SavedPart> parts;
    std::map<std::string, Region> arrays;
    for (uint32_t rank = 0; rank < info_.ranks; ++rank) {
      KEDGE_ASSIGN_OR_RETURN(const auto image, OpenImage(opened_, info_, rank));
      for (const Region& region : image->record().regions) {
        const std::string name = ArrayNameOf(region);
        if (region.kind != RegionKind::kMemory || !names.contains(name)) continue;
        if (PartOf(region)) arrays.emplace(name, WholeArrayOf(region));
        parts.push_back({rank, region});
      }
    }
    const SavedArrays saved(std::move(parts));
    for (const auto& [name, whole] : arrays) {
      std::erase(*wanted, name);
      KEDGE_RETURN_IF_ERROR(ExportArray(saved, name, whole));
    }
    return Status::Ok();
  }

  Status ExportArray(const SavedArrays& saved, const std::string& name, const Region& whole) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<TakenBoxes> plan, saved.Plan(whole, 0));
    Region named = whole;
    if (!named.name.empty()) named.name = name;
    KEDGE_ASSIGN_OR_RETURN(const std::string path, PathFor(named, 0));
    RegionFile file(path);
    KEDGE_RETURN_IF_ERROR(file.Begin(whole, options_));
    std::unique_ptr<ImageReader> image;
    std::set<uint32_t> ranks;
    for (const TakenBoxes& taken : plan) {
      if (ranks.insert(taken.rank).second) {
        KEDGE_ASSIGN_OR_RETURN(image, OpenImage(opened_, info_, taken.rank));
      }
      const auto index = static_cast<uint32_t>(image->FindRegion(taken.id));
      KEDGE_ASSIGN_OR_RETURN(const RegionTarget target,
                             TargetOf(image->record().regions[index], index, taken.boxes, whole, nullptr));
      KEDGE_RETURN_IF_ERROR(file.Take(*image, target));
    }
    KEDGE_RETURN_IF_ERROR(file.Finish());
    files_.push_back({{"path", path}, {"array", name}, {"shape", whole.shape}, {"bytes", whole.bytes}});
    Tell(path, whole, fmt::format(", of {}", Counted(ranks.size(), "image")));
    return Status::Ok();
  }

  Status ExportImage(ImageReader& image, uint32_t rank, const std::vector<std::string>& wanted) {
    const std::vector<Region>& regions = image.record().regions;
    for (uint32_t index = 0; index < regions.size(); ++index) {
      const Region& region = regions[index];
      if (!IsSelected(region, wanted)) continue;
      KEDGE_ASSIGN_OR_RETURN(const std::string path, PathFor(region, rank));
      RegionFile file(path);
      KEDGE_RETURN_IF_ERROR(file.Begin(region, options_));
      KEDGE_RETURN_IF_ERROR(file.Take(image, {index, nullptr}));
      KEDGE_RETURN_IF_ERROR(file.Finish());
      files_.push_back({{"path", path}, {"rank", rank}, {"region", region.id}, {"bytes", region.bytes}});
      Tell(path, region, BlockText(region, rank));
    }
    return Status::Ok();
  }

  // Of a region that is not all of its array. One who has not asked for a rank's is told once how to get the whole, or the
  // others'.
  std::string BlockText(const Region& region, uint32_t rank) {
    if (!PartOf(region) && !options_.by_rank && info_.ranks > 1 && told_of_.insert("").second)
      std::fprintf(stderr, "kedge: note: of rank %u of %u alone: --all-ranks exports all, --rank N another\n", rank, info_.ranks);
    if (!PartOf(region) || MemoryOf(region) == MemoryOf(WholeArrayOf(region))) return "";
    const std::string name = ArrayNameOf(region);
    const std::string halo = region.halo.empty() ? "" : fmt::format(", with halo {}", ShapeText(region.halo));
    const std::string block = fmt::format("rank {}'s block of {}{}", rank, name, halo);
    if (!options_.by_rank && told_of_.insert(name).second)
      std::fprintf(stderr, "kedge: note: this is %s; `--region %s` without a rank gives the whole array\n", block.c_str(),
                   name.c_str());
    return ", " + block;
  }

  void Tell(const std::string& path, const Region& region, const std::string& what) const {
    if (!options_.json)
      std::printf("%s  %s %s, %s%s\n", path.c_str(), ElementTypeName(region.type), ShapeText(region.shape).c_str(),
                  FormatByteSize(region.bytes).c_str(), what.c_str());
    if (region.type == ElementType::kBfloat16 && !options_.raw)
      std::fprintf(stderr, "kedge: note: %s holds bfloat16 as its bits (uint16), which NumPy has no type for\n", path.c_str());
  }

  const char* Suffix() const { return options_.raw ? ".raw" : ".npy"; }

  Result<std::string> PathFor(const Region& region, uint32_t rank) {
    std::string stem = FileStem(region, rank, options_.all_ranks);
    if (!names_.insert(stem).second) names_.insert(stem += fmt::format("-{}", region.id));
    if (!is_one_file_) return fmt::format("{}/{}{}", options_.output, stem, Suffix());
    if (names_.size() == 1) return options_.output;
    return Status(Code::kInvalidArgument,
                  fmt::format("-o {} names one file, and there are several regions: choose one with --region, or "
                              "name a folder",
                              options_.output));
  }

  const OpenedStore& opened_;
  const VersionInfo& info_;
  const ExportOptions& options_;
  const bool is_one_file_;
  Json files_ = Json::array();
  std::set<std::string> names_;    // of files
  std::set<std::string> told_of_;  // arrays; an empty name: that others have more
};

Outcome Export(const ExportOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, SelectVersion(opened, options.store, options.spec));
  return Exporter(opened, info, options).Run();
}

}  // namespace

Command ExportCommand() {
  return {
      "export", "write regions of a version as .npy files, or raw", [](CLI::App& app) {
        auto options = std::make_shared<ExportOptions>();
        options->store.AddTo(app);
        app.add_option("version", options->spec, kVersionSpecHelp)->required()->type_name(kVersionSpecForm);
        app.add_option("--region", options->regions,
                       "only this region, by name or id, or the whole of this global array; may be repeated")
            ->type_name("REGION");
        auto* rank =
            app.add_option("--rank", options->rank, "this rank's image")->capture_default_str()->check(CLI::NonNegativeNumber);
        auto* all = app.add_flag("--all-ranks", options->all_ranks, "every rank's image; the rank stands in the file's name")
                        ->excludes(rank);
        app.add_option("-o,--output", options->output,
                       "folder for the files, or the file itself where it ends in .npy (with --raw: .raw)")
            ->capture_default_str();
        app.add_flag("--raw", options->raw, "the bytes alone, without a header");
        app.add_flag("--force", options->force, "overwrite files that are there");
        app.add_flag("--json", options->json, "print JSON");
        app.footer(
            "Every byte is verified on the way. A global array comes from the images of all ranks, without halos; with --rank or "
            "--all-ranks its blocks come as they are.\nExamples:\n  kedge export heat@120 --region temperature -o out/\n"
            "  kedge export heat@120 --region temperature --all-ranks -o out/");
        return [options, rank, all] {
          options->by_rank = rank->count() + all->count() > 0;
          return Export(*options);
        };
      }};
}

}  // namespace kedge::tools
