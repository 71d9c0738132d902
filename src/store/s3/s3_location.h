// Where an S3 store lies, and how it is spoken to: "s3://BUCKET[/PREFIX][?KEY=VALUE&...]".
//
// The text is all that agent, client, tools and the records of a node need to open the store, and it says nothing secret. What
// it leaves open the environment says in AWS's words, once, when the text is made canonical; so an agent that runs in another
// environment opens the same store.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace kedge::s3 {

enum class Addressing : uint8_t {
  kPath,    // https://endpoint/bucket/key
  kVirtual  // https://bucket.endpoint/key
};

// A part holds at least this much, by the protocol, but for the last one.
inline constexpr uint64_t kPartBytesMin = uint64_t{5} << 20;
inline constexpr uint64_t kPartBytesMax = uint64_t{1} << 30;
inline constexpr uint32_t kConnectionsMax = 256;

struct Location {
  std::string bucket;
  std::string prefix;    // without slashes at its ends; empty: the whole bucket
  std::string endpoint;  // "http://127.0.0.1:9000"
  std::string region = "us-east-1";
  Addressing addressing = Addressing::kVirtual;
  std::string profile;                      // of the shared files; empty: "default"
  std::string ca_file;                      // absolute; empty: the system's
  uint64_t part_bytes = uint64_t{8} << 20;  // of an upload's first parts
  uint32_t connections = 16;                // at a time, and parts in flight

  // Canonical: two texts of one meaning give one.
  std::string ToText() const;
  // "https://host[:port]" and the path in front of a key, "/bucket" or nothing.
  std::string BaseUrl() const;
  std::string BasePath() const;
  // The key of a store's key.
  std::string KeyOf(std::string_view key) const;

  friend bool operator==(const Location&, const Location&) = default;
};

using Environment = std::function<std::optional<std::string>(const char* variable)>;
std::optional<std::string> ProcessEnvironment(const char* variable);

// kInvalidArgument says what is wrong with it.
Result<Location> ParseLocation(std::string_view text, const Environment& environment);

}  // namespace kedge::s3
