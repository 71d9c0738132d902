// The bytes under tests/golden/format-2 and format-3 are what these format versions are. While nothing is released they follow
// the format: KEDGE_GOLDEN_WRITE=1 makes them anew; from the first release on they are readable for ever. docs/format.md shows
// one of them, and what it says about it is held against the code here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "format/testing/sample_records.h"

namespace kedge {
namespace {

const std::string kSource = KEDGE_SOURCE_FOLDER;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Buffer FromHex(const std::string& text) {
  Buffer bytes;
  std::istringstream words(text);
  for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  return bytes;
}

std::string ToHex(const Buffer& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) text += i % 16 == 0 ? '\n' : ' ';
    text += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  }
  return text + '\n';
}

std::string GoldenPath(const testing::Sample& sample) {
  return fmt::format("{}/tests/golden/format-{}/{}.hex", kSource, testing::FormatVersionOf(sample.bytes), sample.name);
}

TEST(Golden, AllFormatsAreReadAsTheyWereWritten) {
  for (const testing::Sample& sample : testing::AllSamples()) {
    const std::string path = GoldenPath(sample);
    if (std::getenv("KEDGE_GOLDEN_WRITE") != nullptr) std::ofstream(path) << ToHex(sample.bytes);
    const Buffer golden = FromHex(ReadText(path));
    ASSERT_FALSE(golden.empty()) << sample.name;
    const Status status = sample.decode_and_encode_again(golden);
    EXPECT_TRUE(status.ok()) << sample.name << ": " << status.ToString();
    // These are the versions that are written: today's bytes are those as well.
    EXPECT_TRUE(golden == sample.bytes) << sample.name << ": KEDGE_GOLDEN_WRITE=1 makes " << path << " anew";
  }
  const Buffer image = FromHex(ReadText(kSource + "/tests/golden/format-2/image.hex"));
  EXPECT_EQ(DecodeImageRecord(image).value(), testing::SampleImage());
  const Buffer part = FromHex(ReadText(kSource + "/tests/golden/format-2/part.hex"));
  EXPECT_EQ(DecodePartRecord(part).value(), testing::SamplePartRecord());
  const Buffer whole = FromHex(ReadText(kSource + "/tests/golden/format-3/version-whole.hex"));
  EXPECT_EQ(DecodeVersionRecord(whole).value(), testing::SampleWholeVersionRecord());
}

// Format 1 was never released.
TEST(Golden, FormatOneIsRefusedByName) {
  const Status refused = DecodePartRecord(FromHex(ReadText(kSource + "/tests/golden/format-1/part.hex"))).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("format version 1"), std::string::npos) << refused.ToString();
}

// The worked example: lines "OFFSET  HEX BYTES  meaning" between ```hex and ```.
TEST(Golden, TheDocumentsExampleIsARecord) {
  const std::string document = ReadText(kSource + "/docs/format.md");
  const size_t begin = document.find("```hex\n");
  ASSERT_NE(begin, std::string::npos);
  std::istringstream lines(document.substr(begin + 7, document.find("```", begin + 7) - begin - 7));
  Buffer bytes;
  for (std::string line; std::getline(lines, line);) {
    const size_t bar = line.find('|');
    ASSERT_NE(bar, std::string::npos) << line;
    EXPECT_EQ(std::stoul(line.substr(0, 4)), bytes.size()) << line;
    const Buffer more = FromHex(line.substr(4, bar - 4));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  Buffer expected;
  Encode(testing::SampleJobRecord(), &expected);
  EXPECT_TRUE(bytes == expected);
}

}  // namespace
}  // namespace kedge
