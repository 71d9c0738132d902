#include "store/keys.h"

#include <fmt/format.h>

#include <charconv>

#include "base/random.h"
#include "format/name_encoding.h"

namespace kedge::keys {

namespace {
constexpr char kRestoredPrefix[] = "restored-";
constexpr std::string_view kWithdrawnPrefix = "withdrawn-";
constexpr std::string_view kPinned = "pinned";
constexpr std::string_view kRemoved = "removed";

std::string Join(std::string folder, std::string_view component) {
  folder += '/';
  folder += component;
  return folder;
}

std::string NumbersOf(const Generation& generation) {
  return std::to_string(generation.version) + '-' + std::to_string(generation.attempt) + '-' + std::to_string(generation.take);
}
}  // namespace

std::string JobFolder(std::string_view job) {
  return Join(kJobsFolder, EncodeName(job));
}
std::string JobKey(std::string_view job) {
  return Join(JobFolder(job), "job");
}
std::string AttemptsFolder(std::string_view job) {
  return Join(JobFolder(job), "attempts");
}
std::string AttemptKey(std::string_view job, uint32_t attempt) {
  return Join(AttemptsFolder(job), std::to_string(attempt));
}
std::string AttemptEndKey(std::string_view job, uint32_t attempt) {
  return AttemptKey(job, attempt) + ".ended";
}
std::string AttemptDrainKey(std::string_view job, uint32_t attempt) {
  return AttemptKey(job, attempt) + ".draining";
}
std::string NamesFolder(std::string_view job) {
  return Join(JobFolder(job), "names");
}
std::string NameFolder(std::string_view job, std::string_view name) {
  return Join(NamesFolder(job), EncodeName(name));
}
std::string NameKey(std::string_view job, std::string_view name) {
  return Join(NameFolder(job, name), "name");
}
std::string RestoredKey(std::string_view job, std::string_view name, uint32_t attempt, uint32_t take) {
  return Join(NameFolder(job, name), kRestoredPrefix + std::to_string(attempt) + '-' + std::to_string(take));
}
bool IsRestoredName(std::string_view component) {
  return component.starts_with(kRestoredPrefix);
}

std::string ReachedKey(std::string_view job, std::string_view name) {
  return Join(NameFolder(job, name), "reached");
}

std::string GenerationFolder(const Generation& generation) {
  return Join(NameFolder(generation.job, generation.name), NumbersOf(generation));
}
std::string WithdrawnKey(const Generation& generation) {
  return Join(NameFolder(generation.job, generation.name), std::string(kWithdrawnPrefix) + NumbersOf(generation));
}
std::string ObjectsFolder(const Generation& generation) {
  return Join(GenerationFolder(generation), "data");
}
std::string PartsFolder(const Generation& generation) {
  return Join(GenerationFolder(generation), "parts");
}
std::string PartName(uint32_t first_rank, size_t images) {
  return std::to_string(first_rank) + '-' + std::to_string(images);
}
std::string PartKey(const Generation& generation, uint32_t first_rank, size_t images) {
  return Join(PartsFolder(generation), PartName(first_rank, images));
}
std::string VersionKey(const Generation& generation) {
  return Join(GenerationFolder(generation), "version");
}
std::string PinKey(const Generation& generation) {
  return Join(GenerationFolder(generation), kPinned);
}
std::string RemovedKey(const Generation& generation) {
  return Join(GenerationFolder(generation), kRemoved);
}
bool IsMark(std::string_view component) {
  return component == kPinned || component == kRemoved;
}
std::string BasesFolder(const Generation& generation) {
  return Join(GenerationFolder(generation), "bases");
}
std::string BaseKey(const Generation& generation, const Generation& base) {
  const std::string folder = GenerationFolder(base);
  return Join(BasesFolder(generation), folder.substr(folder.rfind('/') + 1));
}
std::string ImageObject(uint32_t rank) {
  return "data/r" + std::to_string(rank);
}
std::string ImageKey(const Generation& generation, uint32_t rank) {
  return Join(GenerationFolder(generation), ImageObject(rank));
}
std::string ReducedImageObject(uint32_t rank) {
  return fmt::format("{}.b{:016x}", ImageObject(rank), Id128::Generate().low);
}
std::string NodeObject() {
  return fmt::format("data/n{:016x}", Id128::Generate().low);
}
std::string CommonObject(uint32_t node, uint64_t agreed) {
  return fmt::format("data/s{}.{:016x}", node, agreed);
}
namespace {
bool IsObjectOf(std::string_view key, char kind) {
  const size_t name = key.rfind('/') + 1;  // 0 where there is none
  return key.substr(0, name).ends_with("data/") && key.substr(name).starts_with(kind);
}
}  // namespace
bool IsNodeObject(std::string_view key) {
  return IsObjectOf(key, 'n');
}
bool IsCommonObject(std::string_view key) {
  return IsObjectOf(key, 's');
}
std::string ChunkKey(const Generation& generation, uint32_t rank, uint32_t chunk) {
  return ImageKey(generation, rank) + ".c" + std::to_string(chunk);
}

std::string RelativeToJob(std::string_view job, std::string_view key) {
  const std::string folder = JobFolder(job) + '/';
  return std::string(key.substr(0, folder.size()) == folder ? key.substr(folder.size()) : key);
}

std::optional<std::string> GenerationOfObject(std::string_view relative_key) {
  const size_t data = relative_key.find("/data/");
  if (relative_key.substr(0, 6) != "names/" || data == std::string_view::npos) return std::nullopt;
  return std::string(relative_key.substr(0, data));
}

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Only the spelling that is written: no leading zeros, so that one number has one key.
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(number) != text) return std::nullopt;
  return number;
}

std::optional<PartNumbers> ParsePartName(std::string_view component) {
  const size_t dash = component.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<uint32_t> first_rank = ParseNumber(component.substr(0, dash));
  const std::optional<uint32_t> images = ParseNumber(component.substr(dash + 1));
  if (!first_rank || !images || *images == 0) return std::nullopt;
  return PartNumbers{*first_rank, *images};
}

bool ParseGenerationFolder(std::string_view component, Generation* generation) {
  const size_t first = component.find('-');
  const size_t second = first == std::string_view::npos ? first : component.find('-', first + 1);
  if (second == std::string_view::npos) return false;
  const std::string_view version_text = component.substr(0, first);
  int64_t version = 0;
  const auto [end, error] = std::from_chars(version_text.data(), version_text.data() + version_text.size(), version);
  if (error != std::errc() || end != version_text.data() + version_text.size() || version < 0 ||
      std::to_string(version) != version_text) {
    return false;
  }
  const std::optional<uint32_t> attempt = ParseNumber(component.substr(first + 1, second - first - 1));
  const std::optional<uint32_t> take = ParseNumber(component.substr(second + 1));
  if (!attempt || !take || *attempt == 0 || *take == 0) return false;
  generation->version = version;
  generation->attempt = *attempt;
  generation->take = *take;
  return true;
}

bool ParseWithdrawnName(std::string_view component, Generation* generation) {
  return component.starts_with(kWithdrawnPrefix) && ParseGenerationFolder(component.substr(kWithdrawnPrefix.size()), generation);
}

}  // namespace kedge::keys
