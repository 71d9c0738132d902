// The probe of a store finds out that something may not be done in it, and leaves nothing.
#include "store/places/probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/s3/testing/fault_fixture.h"

namespace kedge {
namespace {

using s3::testing::Fault;
using s3::testing::kWriter;

constexpr uint64_t kObjectBytes = 1 << 20;  // less than a part

class Probe : public s3::testing::FaultFixture {
 protected:
  // What the probe says where requests that `is_denied` names are denied.
  Result<StoreProbe> Run(const std::function<bool(const std::string&)>& is_denied) {
    proxy_.Use([is_denied](size_t, const std::string& line) { return is_denied(line) ? Fault::kDenied403 : Fault::kNone; });
    return ProbeStore(*StoreAt(prefix_), kWriter, kObjectBytes);
  }
  size_t Count(const std::string& method, const std::string& part) const {
    return static_cast<size_t>(std::ranges::count_if(proxy_.Requests(), [&](const std::string& line) {
      return line.starts_with(method) && line.find(part) != std::string::npos;
    }));
  }
  std::vector<std::string> KeysLeft() {
    const auto left = MakeS3Store(server_.At(prefix_), s3::testing::TestEnvironment())->List("");
    EXPECT_TRUE(left.ok()) << left.status().ToString();
    std::vector<std::string> names;
    for (const StoreEntry& entry : left.ok() ? *left : std::vector<StoreEntry>()) names.push_back(entry.name);
    return names;
  }

  const std::string prefix_ = NewPrefix();
};

TEST_F(Probe, TriesAnUploadThatIsAbandoned) {
  const auto probe = Run([](const std::string&) { return false; });
  ASSERT_TRUE(probe.ok()) << probe.status().ToString();
  EXPECT_EQ(Count("POST ", "uploads"), 1u);
  EXPECT_EQ(Count("PUT ", "partNumber=1"), 1u);
  EXPECT_EQ(Count("DELETE ", "uploadId="), 1u);
  EXPECT_GE(Count("GET ", "uploadId="), 1u) << "the parts are listed";
  EXPECT_EQ(UploadsLeft(prefix_), 0u);
  EXPECT_TRUE(KeysLeft().empty());
}

TEST_F(Probe, SaysThatUploadsMayNotBeAborted) {
  const auto probe =
      Run([](const std::string& line) { return line.starts_with("DELETE ") && line.find("uploadId=") != std::string::npos; });
  EXPECT_EQ(probe.status().code(), Code::kPermission);
  EXPECT_NE(probe.status().message().find("an object that is given up halfway does not go away: DELETE s3://"), std::string::npos)
      << probe.status().ToString();
  EXPECT_EQ(probe.status().message().find('\n'), std::string::npos);
  EXPECT_EQ(Count("DELETE ", "/record"), 1u) << "all else that can go goes";
  EXPECT_EQ(Count("DELETE ", "/object"), 1u);
  // Whoever may do so removes the upload.
  const auto store = MakeS3Store(server_.At(prefix_), s3::testing::TestEnvironment());
  for (const Temporary& temporary : store->ListTemporaries("", kWriter).value()) {
    EXPECT_TRUE(store->RemoveTemporary(temporary.handle).ok());
  }
  EXPECT_EQ(UploadsLeft(prefix_), 0u);
  EXPECT_TRUE(KeysLeft().empty());
}

TEST_F(Probe, SaysThatPartsMayNotBeListed) {
  const auto probe =
      Run([](const std::string& line) { return line.starts_with("GET ") && line.find("uploadId=") != std::string::npos; });
  EXPECT_EQ(probe.status().code(), Code::kPermission);
  EXPECT_NE(probe.status().message().find("a part that another process contributes to an object does not arrive: GET s3:"),
            std::string::npos)
      << probe.status().ToString();
  EXPECT_EQ(UploadsLeft(prefix_), 0u);
}

}  // namespace
}  // namespace kedge
