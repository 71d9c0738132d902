#include "format/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "base/crc32c.h"

namespace kedge {
namespace {

constexpr std::string_view kFirstLine = "kedge calibration 1";
constexpr std::string_view kFirstLineOfAny = "kedge calibration ";
constexpr std::string_view kChecksumKey = "crc32c";
constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kWallTimeMsMax = int64_t{1} << 43;  // the year 2248: in nanoseconds it fits an int64_t

bool IsText(std::string_view text) {
  return !text.empty() && text.size() <= kCalibrationTextMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }) && text.front() != ' ' &&
         text.back() != ' ';
}

Status Refused(const char* what, uint64_t found) {
  return Status(Code::kInvalidArgument, fmt::format("calibration: {} is out of bounds: {}", what, found));
}

// A decimal number as fmt prints it.
template <typename Integer>
bool TakeNumber(std::string_view* text, Integer* value) {
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (parsed.ec != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(parsed.ptr - text->data()));
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
  return true;
}

template <typename Integer>
bool ReadNumber(std::string_view text, Integer* value) {
  return TakeNumber(&text, value) && text.empty();
}

// Whether the line was one of a calibration; its value goes into `calibration`.
bool ReadLine(std::string_view key, std::string_view value, Calibration* calibration) {
  if (key == "kind") calibration->kind = value;
  if (key == "device") calibration->device = value;
  if (key == "kernel") calibration->kernel = value;
  if (key == "kind" || key == "device" || key == "kernel") return true;
  if (key == "chunk") return ReadNumber(value, &calibration->chunk_bytes);
  if (key == "origin") {
    calibration->origin = value == "learned" ? CalibrationOrigin::kLearned : CalibrationOrigin::kMeasured;
    return true;
  }
  if (key == "unix_ms") {
    int64_t milliseconds = 0;
    if (!ReadNumber(value, &milliseconds) || milliseconds < 0 || milliseconds > kWallTimeMsMax) return false;
    calibration->wall_time_ns = milliseconds * kNsPerMs;
    return true;
  }
  if (key != "sample" || calibration->samples.size() == kCalibrationSamplesMax) return false;
  CalibrationSample sample;
  const bool read = TakeNumber(&value, &sample.writers) && TakeNumber(&value, &sample.bytes_per_second) &&
                    TakeNumber(&value, &sample.rounds) && TakeNumber(&value, &sample.spread_permille) && value.empty();
  calibration->samples.push_back(sample);
  return read;
}

}  // namespace

const char* CalibrationOriginName(CalibrationOrigin origin) {
  return origin == CalibrationOrigin::kLearned ? "learned" : "measured";
}

Status ValidateCalibration(const Calibration& calibration) {
  for (const std::string* text : {&calibration.kind, &calibration.device, &calibration.kernel}) {
    if (!IsText(*text)) return Status(Code::kInvalidArgument, fmt::format("calibration: \"{}\" is no name in ASCII", *text));
  }
  if (calibration.chunk_bytes == 0 || calibration.chunk_bytes > kCalibrationRateMax) {
    return Refused("the chunk", calibration.chunk_bytes);
  }
  const int64_t milliseconds = calibration.wall_time_ns / kNsPerMs;
  if (milliseconds < 0 || milliseconds > kWallTimeMsMax) return Refused("the time", static_cast<uint64_t>(milliseconds));
  if (calibration.samples.empty() || calibration.samples.size() > kCalibrationSamplesMax) {
    return Refused("the number of samples", calibration.samples.size());
  }
  uint32_t last_writers = 0;
  for (const CalibrationSample& sample : calibration.samples) {
    if (sample.writers <= last_writers || sample.writers > kCalibrationWritersMax) return Refused("writers", sample.writers);
    if (sample.bytes_per_second == 0 || sample.bytes_per_second > kCalibrationRateMax) {
      return Refused("a throughput", sample.bytes_per_second);
    }
    if (sample.rounds == 0) return Refused("the number of rounds", sample.rounds);
    last_writers = sample.writers;
  }
  return Status::Ok();
}

std::string FormatCalibration(const Calibration& calibration) {
  std::string text = fmt::format("{}\norigin {}\nkind {}\ndevice {}\nchunk {}\nkernel {}\nunix_ms {}\n", kFirstLine,
                                 CalibrationOriginName(calibration.origin), calibration.kind, calibration.device,
                                 calibration.chunk_bytes, calibration.kernel, calibration.wall_time_ns / kNsPerMs);
  for (const CalibrationSample& sample : calibration.samples) {
    fmt::format_to(std::back_inserter(text), "sample {} {} {} {}\n", sample.writers, sample.bytes_per_second, sample.rounds,
                   sample.spread_permille);
  }
  const uint32_t checksum = crc32c::Compute(text.data(), text.size());
  return text + fmt::format("{} {:08x}\n", kChecksumKey, checksum);
}

Result<Calibration> ParseCalibration(std::string_view text) {
  if (text.size() > kCalibrationFileBytesMax) return Status(Code::kCorrupt, "calibration: too long");
  if (!text.starts_with(kFirstLineOfAny)) return Status(Code::kCorrupt, "calibration: it does not begin as one");
  Calibration calibration;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (number == 0) {
      if (line != kFirstLine) {
        return Status(Code::kUnsupported, fmt::format("calibration: \"{}\" is of another release; this one reads \"{}\"",
                                                      line.substr(0, 40), kFirstLine));
      }
      continue;
    }
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, space);
    if (key == kChecksumKey) break;
    if (!ReadLine(key, line.substr(std::min(space + 1, line.size())), &calibration)) {
      return Status(Code::kCorrupt, fmt::format("calibration: line {} cannot be read", number + 1));
    }
  }
  const Status valid = ValidateCalibration(calibration);
  if (!valid.ok()) return Status(Code::kCorrupt, valid.message());
  // Order of lines, spelling of numbers, and the checksum, at once.
  if (FormatCalibration(calibration) != text) return Status(Code::kCorrupt, "calibration: changed, damaged or cut short");
  return calibration;
}

}  // namespace kedge
