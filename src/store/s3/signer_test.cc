// The vectors that AWS publishes: of the signature's test suite ("service"), and of the examples of S3's documentation.
#include "store/s3/signer.h"

#include <gtest/gtest.h>

namespace kedge::s3 {
namespace {

std::string SignatureOf(const ToSign& request, const Keys& keys, const Scope& scope) {
  const std::string text = Authorization(request, keys, scope);
  return text.substr(text.rfind('=') + 1);
}

struct SuiteCase {
  const char* name;
  const char* method;
  const char* path;
  Pairs query;
  Pairs headers;
  const char* signature;
};

TEST(S3Signer, VectorsOfTheTestSuite) {
  const Keys keys{"AKIDEXAMPLE", os::SecretText("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), {}};
  const Scope scope{"us-east-1", "service", 1440938160};
  const SuiteCase cases[] = {
      {"get-vanilla", "GET", "/", {}, {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       {{"Param2", "value2"}, {"Param1", "value1"}},
       {},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-empty-query-key",
       "GET",
       "/",
       {{"Param1", "value1"}},
       {},
       "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
      {"get-utf8", "GET", "/\xe1\x88\xb4", {}, {}, "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"post-vanilla", "POST", "/", {}, {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"get-header-value-trim",
       "GET",
       "/",
       {},
       {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
  };
  for (const SuiteCase& one : cases) {
    ToSign request{one.method, one.path, one.query, one.headers, Sha256Hex({})};
    request.headers.emplace_back("host", "example.amazonaws.com");
    request.headers.emplace_back("x-amz-date", AmzDate(scope.unix_seconds));
    EXPECT_EQ(SignatureOf(request, keys, scope), one.signature) << one.name;
  }
}

class S3Examples : public ::testing::Test {
 protected:
  std::string Signature(const char* method, const char* path, const Pairs& query, const Pairs& headers,
                        const std::string& payload) {
    ToSign request{method, path, query, headers, payload};
    request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
    request.headers.emplace_back("x-amz-date", AmzDate(scope_.unix_seconds));
    request.headers.emplace_back("x-amz-content-sha256", payload);
    return SignatureOf(request, keys_, scope_);
  }
  const Keys keys_{"AKIAIOSFODNN7EXAMPLE", os::SecretText("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), {}};
  const Scope scope_{"us-east-1", "s3", 1369353600};
  const std::string empty_ = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
};

TEST_F(S3Examples, OfTheDocumentation) {
  ASSERT_EQ(AmzDate(scope_.unix_seconds), "20130524T000000Z");
  EXPECT_EQ(Signature("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, empty_),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(Signature("PUT", "/test$file.text", {},
                      {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                      Sha256Hex(AsBytes("Welcome to Amazon S3."))),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(Signature("GET", "/", {{"lifecycle", ""}}, {}, empty_),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(Signature("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, empty_),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(S3Url, QueriesAreSortedAndEncoded) {
  EXPECT_EQ(QueryText({{"uploads", ""}, {"prefix", "a b/c"}, {"X", "\xc3\xa4"}}), "X=%C3%A4&prefix=a%20b%2Fc&uploads=");
  EXPECT_EQ(Decode(Encode("a/b?c=%d&e \xff")), "a/b?c=%d&e \xff");
  EXPECT_EQ(Decode("100%"), "100%");
}

TEST(S3Signer, Base64HasPadding) {
  EXPECT_EQ(Base64(AsBytes("")), "");
  EXPECT_EQ(Base64(AsBytes("a")), "YQ==");
  EXPECT_EQ(Base64(AsBytes("abc")), "YWJj");
}

}  // namespace
}  // namespace kedge::s3
