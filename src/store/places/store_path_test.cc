#include "store/places/store_path.h"

#include <gtest/gtest.h>

#include "os/files/files.h"

namespace kedge {
namespace {

TEST(StorePath, PathsAreMadeAbsolute) {
  EXPECT_EQ(ResolveStorePath("/a/b").value(), "/a/b");
  EXPECT_EQ(ResolveStorePath("a/b").value(), os::AbsolutePath("a/b"));
}

TEST(StorePath, OfASchemeThatIsUnknownNoFolderIsMade) {
  for (const char* text : {"s4://bucket/prefix", "file:///a/b", "S3A://bucket", "gs://"}) {
    const Result<std::string> resolved = ResolveStorePath(text);
    ASSERT_EQ(resolved.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(resolved.status().message().find(text), std::string::npos) << resolved.status().ToString();
  }
  EXPECT_EQ(ResolveStorePath("").status().code(), Code::kInvalidArgument);
}

TEST(StorePath, FoldersMayBeCalledSo) {
  for (const char* text : {"./s4://bucket", "/s4://bucket", "a b://c", "s4:/bucket", "://a"}) {
    EXPECT_EQ(SchemeOf(text), "") << text;
    EXPECT_EQ(ResolveStorePath(text).value(), os::AbsolutePath(text)) << text;
  }
  EXPECT_EQ(SchemeOf("s3://bucket"), "s3");
}

}  // namespace
}  // namespace kedge
