// Uploads that do not go at once, and lists that come in several pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/crc32c.h"
#include "store/s3/testing/fault_fixture.h"

namespace kedge::s3 {
namespace {

using testing::Fault;
using testing::kWriter;

bool IsAbort(const std::string& line) {
  return line.starts_with("DELETE ") && line.find("uploadId=") != std::string::npos;
}

// What pages ask for is not signed: moto does not look.
class S3Uploads : public testing::FaultFixture {
 protected:
  S3Uploads()
      : FaultFixture(testing::Moto()),
        prefix_(NewPrefix()),
        bucket_(At(proxy_, prefix_), testing::TestEnvironment(), impatient_) {
    proxy_.Use(nullptr);
  }

  Upload Begin(const std::string& key, uint32_t parts) {
    const auto upload = uploads_.Begin(key, Uploads::MakeHandle(key, kWriter));
    EXPECT_TRUE(upload.ok()) << upload.status().ToString();
    for (uint32_t number = 1; number <= parts; ++number) {
      const ByteSpan bytes = AsBytes("a part");
      const Reply sent =
          bucket_.Do(uploads_.PartRequest(*upload, number, bytes, crc32c::Compute(bytes.data(), bytes.size()), nullptr));
      EXPECT_TRUE(sent.status.ok()) << sent.status.ToString();
    }
    return *upload;
  }
  size_t Count(const std::function<bool(const std::string&)>& is_meant) const {
    return static_cast<size_t>(std::ranges::count_if(proxy_.Requests(), is_meant));
  }

  const std::string prefix_;
  Bucket bucket_;
  Uploads uploads_{bucket_};
};

// As of a server at which a part came in while it aborted.
TEST_F(S3Uploads, AnAbortIsRepeatedUntilNothingIsLeft) {
  const Upload upload = Begin("object", 1);
  size_t aborts = 0;
  proxy_.Use(
      [&](size_t, const std::string& line) { return IsAbort(line) && ++aborts <= 2 ? Fault::kPretended204 : Fault::kNone; });
  const Status aborted = uploads_.Abort(upload.key, upload.id);
  EXPECT_TRUE(aborted.ok()) << aborted.ToString();
  EXPECT_EQ(Count(&IsAbort), 3u);
  EXPECT_EQ(UploadsLeft(prefix_), 0u);
}

TEST_F(S3Uploads, AnUploadThatNeverGoesIsTold) {
  const Upload upload = Begin("object", 1);
  proxy_.Use([](size_t, const std::string& line) { return IsAbort(line) ? Fault::kPretended204 : Fault::kNone; });
  const auto store = StoreAt(prefix_);
  const auto there = store->ListTemporaries("", kWriter);
  ASSERT_TRUE(there.ok() && there->size() == 1) << there.status().ToString();
  const Status removed = store->RemoveTemporary((*there)[0].handle);
  EXPECT_EQ(removed.code(), Code::kUnavailable);
  EXPECT_NE(removed.message().find("parts of an upload still come in after 10 aborts"), std::string::npos) << removed.ToString();
  EXPECT_EQ(Count(&IsAbort), 10u);
  EXPECT_EQ(UploadsLeft(prefix_), 1u);
  // Whoever comes next finds it yet, and its marker.
  proxy_.Use(nullptr);
  const auto left = store->ListTemporaries("", kWriter);
  ASSERT_TRUE(left.ok() && left->size() == 1) << left.status().ToString();
  EXPECT_TRUE(store->RemoveTemporary((*left)[0].handle).ok());
  EXPECT_EQ(UploadsLeft(prefix_), 0u);
}

TEST_F(S3Uploads, KeysAreListedPageByPage) {
  const auto store = StoreAt(prefix_);
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(store->Replace("a/key" + std::to_string(i), AsBytes("x"), kWriter, Folders::kCreate).ok());
    ASSERT_TRUE(store->Replace("a/below" + std::to_string(i) + "/x", AsBytes("x"), kWriter, Folders::kCreate).ok());
  }
  proxy_.Use(nullptr);
  proxy_.AskFor([](const std::string& line) {
    return line.find("list-type=2") != std::string::npos && line.find("max-keys=") == std::string::npos ? "max-keys=3" : "";
  });
  const auto listed = store->List("a");
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  ASSERT_EQ(listed->size(), 14u);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ((*listed)[static_cast<size_t>(i)].name, "below" + std::to_string(i));
    EXPECT_EQ((*listed)[static_cast<size_t>(i) + 7].name, "key" + std::to_string(i));
  }
  EXPECT_EQ(proxy_.Requests().size(), 5u) << "of three, at most";
  ASSERT_TRUE(store->RemoveFolder("a", {}, kWriter).ok());
  EXPECT_EQ(store->List("a").status().code(), Code::kNotFound);
}

TEST_F(S3Uploads, PartsAreListedPageByPage) {
  const Upload upload = Begin("object", 7);
  proxy_.Use(nullptr);
  proxy_.AskFor([](const std::string& line) {
    return line.starts_with("GET ") && line.find("uploadId=") != std::string::npos ? "max-parts=3" : "";
  });
  const auto parts = uploads_.Parts(upload.key, upload.id);
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  ASSERT_EQ(parts->size(), 7u);
  for (uint32_t i = 0; i < 7; ++i) EXPECT_EQ((*parts)[i].number, i + 1);
  EXPECT_GE(proxy_.Requests().size(), 3u);
  EXPECT_TRUE(uploads_.Abort(upload.key, upload.id).ok());
}

// moto puts all into one page: a list of seven is told here, two at a time, from behind the pair of markers that is asked for.
TEST_F(S3Uploads, UploadsAreListedPageByPage) {
  const std::vector<std::pair<std::string, std::string>> uploads = {{"a", "1"}, {"b", "2"}, {"b", "3"}, {"b", "4"},
                                                                    {"b", "5"}, {"b", "6"}, {"c", "7"}};
  const auto value = [](const std::string& request, const std::string& name) {
    const size_t at = request.find(name + '=');
    if (at == std::string::npos) return std::string();
    const size_t begin = at + name.size() + 1;
    return request.substr(begin, request.find_first_of("& ", begin) - begin);
  };
  proxy_.AnswerWith([&](const std::string& request) {
    const std::string key = Decode(value(request, "key-marker")), id = value(request, "upload-id-marker");
    size_t begin = 0;
    while (begin < uploads.size() && !key.empty() && prefix_ + '/' + uploads[begin].first < key) ++begin;
    while (begin < uploads.size() && prefix_ + '/' + uploads[begin].first == key && uploads[begin].second <= id) ++begin;
    const size_t end = std::min(begin + 2, uploads.size());
    std::string body = "<ListMultipartUploadsResult>";
    for (size_t i = begin; i < end; ++i) {
      body += "<Upload><Key>" + prefix_ + '/' + uploads[i].first + "</Key><UploadId>" + uploads[i].second +
              "</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>";
    }
    const auto& last = uploads[end - 1];
    if (end < uploads.size()) {
      body += "<IsTruncated>true</IsTruncated><NextKeyMarker>" + prefix_ + '/' + last.first +
              "</NextKeyMarker><NextUploadIdMarker>" + last.second + "</NextUploadIdMarker>";
    }
    return body + "</ListMultipartUploadsResult>";
  });
  const auto listed = uploads_.List("");
  ASSERT_TRUE(listed.ok()) << listed.status().ToString();
  std::vector<std::pair<std::string, std::string>> found;
  for (const ListedUpload& upload : *listed) found.emplace_back(upload.key, upload.id);
  EXPECT_EQ(found, uploads);
  EXPECT_EQ(proxy_.Requests().size(), 4u);
}

}  // namespace
}  // namespace kedge::s3
