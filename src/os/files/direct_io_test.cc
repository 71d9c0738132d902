// Direct I/O gives the same bytes and the same errors whichever engine and alignment is at work.
#include "os/files/direct_io.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "os/files/files.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using testing::Call;
using testing::CallsOf;
using testing::FaultPlan;
using testing::FaultyFileSystem;
using testing::SimulatedFileSystem;
using testing::TemporaryFolder;
using Engine = DirectIoOptions::Engine;

std::string RandomText(uint64_t seed, size_t bytes) {
  std::string text(bytes, '\0');
  Random(seed).Fill(text.data(), bytes);
  return text;
}

// Page-aligned memory, as in a pool slot.
class AlignedCopy {
 public:
  explicit AlignedCopy(const std::string& text)
      : memory_(std::aligned_alloc(4096, (text.size() + 4095) / 4096 * 4096 + 4096), std::free) {
    std::memcpy(memory_.get(), text.data(), text.size());
  }
  const char* data() const { return static_cast<const char*>(memory_.get()); }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
};

struct Setting {
  std::string name;
  Engine engine;
  bool direct;
  std::string parent;  // of the temporary folder
};

class DirectIoConformance : public ::testing::TestWithParam<Setting> {
 protected:
  DirectIoConformance() : folder_(GetParam().parent) {
    auto io =
        DirectIo::Create({.engine = GetParam().engine, .direct = GetParam().direct, .buffer_bytes = 64 << 10, .buffer_count = 4});
    if (GetParam().engine == Engine::kIoUring && io.status().code() == Code::kUnsupported) return;
    KEDGE_CHECK(io.ok());
    io_ = std::move(*io);
  }
  void SetUp() override {
    if (io_ == nullptr) GTEST_SKIP() << "this kernel offers no io_uring";
  }
  std::string Content(const std::string& path) { return ReadFile(fs_, path, 1 << 26).value(); }

  FileSystem& fs_ = SystemFileSystem();
  TemporaryFolder folder_;
  std::unique_ptr<DirectIo> io_;
};

TEST_P(DirectIoConformance, WritesAnyLengthFromAnyMemory) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{65536}, size_t{1'000'003}}) {
    for (const size_t misaligned : {size_t{0}, size_t{8}}) {
      const std::string text = RandomText(bytes, bytes + misaligned);
      const AlignedCopy memory(text);
      const std::string path = folder_ / (std::to_string(bytes) + "-" + std::to_string(misaligned));
      auto writer = DirectWriter::Open(*io_, fs_, path);
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      ASSERT_TRUE((*writer)->Reserve(bytes + 1).ok());
      ASSERT_TRUE((*writer)->Write(memory.data() + misaligned, bytes, 0).ok());
      ASSERT_TRUE((*writer)->SyncAndClose().ok());
      EXPECT_TRUE(Content(path) == text.substr(misaligned)) << bytes << " bytes, memory off by " << misaligned;
    }
  }
}

TEST_P(DirectIoConformance, WritesPiecesAtAnyOffsetsInAnyOrder) {
  Random random(7);
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string text = RandomText(random.Next(), 300'000 + random.Below(100'000));
    std::vector<std::pair<size_t, size_t>> pieces;  // offset, bytes
    for (size_t offset = 0; offset < text.size();) {
      size_t bytes = 1 + random.Below(70'000);
      if (random.Chance(0.5)) bytes = (bytes + 4095) / 4096 * 4096;
      bytes = std::min(bytes, text.size() - offset);
      pieces.emplace_back(offset, bytes);
      offset += bytes;
    }
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.Below(i)]);
    const std::string path = folder_ / ("p" + std::to_string(round));
    auto writer = DirectWriter::Open(*io_, fs_, path).value();
    for (const auto& [offset, bytes] : pieces) {
      if (random.Chance(0.5) && bytes <= 64 << 10) {
        const auto buffer = writer->Buffer();
        ASSERT_TRUE(buffer.ok());
        ASSERT_EQ(buffer->size(), size_t{64} << 10);
        std::memcpy(buffer->data(), text.data() + offset, bytes);
        ASSERT_TRUE(writer->Submit(bytes, offset).ok());
      } else {
        ASSERT_TRUE(writer->Write(text.data() + offset, bytes, offset).ok());
      }
    }
    ASSERT_TRUE(writer->SyncAndClose(/*data_only=*/true).ok());
    ASSERT_TRUE(Content(path) == text);
  }
}

TEST_P(DirectIoConformance, ReadsAnyRangeInOrder) {
  const std::string text = RandomText(3, 700'001);
  ASSERT_TRUE(WriteFileDurably(fs_, folder_ / "f", text, "t").ok());
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    const size_t offset = round == 0 ? 0 : random.Below(text.size());
    const size_t bytes = round == 0 ? text.size() : random.Below(text.size() - offset + 1);
    auto reader = DirectReader::Open(*io_, fs_, folder_ / "f").value();
    EXPECT_EQ(reader->file_bytes(), text.size());
    uint64_t next = offset;
    std::string seen;
    const Status streamed = reader->Stream(offset, bytes, [&](std::span<const std::byte> piece, uint64_t piece_offset) {
      EXPECT_EQ(piece_offset, next);
      EXPECT_LE(piece.size(), size_t{64} << 10);
      next += piece.size();
      seen.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return Status::Ok();
    });
    ASSERT_TRUE(streamed.ok()) << streamed.ToString();
    ASSERT_TRUE(seen == text.substr(offset, bytes)) << bytes << " at " << offset;
    std::string again(bytes, '\0');
    ASSERT_TRUE(reader->Read(again.data(), bytes, offset).ok());
    ASSERT_TRUE(again == seen);
  }
}

TEST_P(DirectIoConformance, RefusesRangesBehindTheEnd) {
  ASSERT_TRUE(WriteFileDurably(fs_, folder_ / "f", "short", "t").ok());
  auto reader = DirectReader::Open(*io_, fs_, folder_ / "f").value();
  char buffer[16];
  EXPECT_EQ(reader->Read(buffer, 6, 0).code(), Code::kCorrupt);
  EXPECT_EQ(reader->Read(buffer, 1, UINT64_MAX).code(), Code::kCorrupt);
  EXPECT_TRUE(reader->Read(buffer, 5, 0).ok());
}

TEST_P(DirectIoConformance, EndsAStreamWhenTheConsumerFails) {
  ASSERT_TRUE(WriteFileDurably(fs_, folder_ / "f", RandomText(4, 1 << 20), "t").ok());
  auto reader = DirectReader::Open(*io_, fs_, folder_ / "f").value();
  int pieces = 0;
  const Status status =
      reader->Stream(0, 1 << 20, [&](auto, auto) { return ++pieces == 3 ? Status(Code::kCorrupt, "enough") : Status::Ok(); });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(pieces, 3);
  char byte = 0;
  EXPECT_TRUE(reader->Read(&byte, 1, 5).ok()) << "the reader stays usable";
}

TEST_P(DirectIoConformance, KeepsContentUnlessExclusive) {
  ASSERT_TRUE(WriteFileDurably(fs_, folder_ / "f", "content", "t").ok());
  EXPECT_EQ(DirectWriter::Open(*io_, fs_, folder_ / "f").status().code(), Code::kAlreadyExists);
  auto writer = DirectWriter::Open(*io_, fs_, folder_ / "f", /*exclusive=*/false).value();
  ASSERT_TRUE(writer->Write("C", 1, 0).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(Content(folder_ / "f"), "Content");
  EXPECT_EQ(DirectWriter::Open(*io_, fs_, folder_ / "none/f").status().code(), Code::kNotFound);
  EXPECT_EQ(DirectReader::Open(*io_, fs_, folder_ / "none").status().code(), Code::kNotFound);
}

TEST_P(DirectIoConformance, SurvivesBeingAbandoned) {
  const std::string text = RandomText(5, 1 << 20);
  const AlignedCopy memory(text);
  for (int round = 0; round < 20; ++round) {
    auto writer = DirectWriter::Open(*io_, fs_, folder_ / std::to_string(round)).value();
    ASSERT_TRUE(writer->Write(memory.data(), text.size(), 0).ok());
    writer.reset();  // waits for what is in flight; the memory may go afterwards
    EXPECT_TRUE(Content(folder_ / std::to_string(round)) == text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DirectIoConformance,
                         ::testing::Values(Setting{"RingDirect", Engine::kIoUring, true, ""},
                                           Setting{"RingCached", Engine::kIoUring, false, ""},
                                           Setting{"PlainDirect", Engine::kPlain, true, ""},
                                           Setting{"PlainCached", Engine::kPlain, false, ""},
                                           Setting{"RingTmpfs", Engine::kIoUring, true, "/dev/shm"},
                                           Setting{"AutoTmpfs", Engine::kAuto, true, "/dev/shm"}),
                         [](const auto& param) { return param.param.name; });

class DirectIoFaults : public ::testing::Test {
 protected:
  std::unique_ptr<DirectIo> io_ = DirectIo::Create({.buffer_bytes = 64 << 10, .buffer_count = 4}).value();
  SimulatedFileSystem fs_;
  const std::string text_ = RandomText(6, 500'001);

  Status WriteFile(const std::string& path) {
    KEDGE_ASSIGN_OR_RETURN(const auto writer, DirectWriter::Open(*io_, fs_, path));
    KEDGE_RETURN_IF_ERROR(writer->Write(text_.data(), text_.size(), 0));
    return writer->SyncAndClose();
  }
};

TEST_F(DirectIoFaults, WorksWithoutDescriptorsAndWithShortTransfers) {
  fs_.faults().ShortTransfers(0.7, 1);
  ASSERT_TRUE(WriteFile("/f").ok());
  EXPECT_TRUE(ReadFile(fs_, "/f", 1 << 20).value() == text_);
  auto reader = DirectReader::Open(*io_, fs_, "/f").value();
  std::string back(text_.size(), '\0');
  ASSERT_TRUE(reader->Read(back.data(), back.size(), 0).ok());
  EXPECT_TRUE(back == text_);
}

TEST_F(DirectIoFaults, FallsBackWhereDirectRequestsAreRefused) {
  // Opening works, but every direct transfer fails: the first write of each piece.
  fs_.faults().Add({.calls = CallsOf(Call::kPwrite), .count = 1, .errno_value = EINVAL});
  fs_.faults().Add({.calls = CallsOf(Call::kPread), .count = 2, .errno_value = EINVAL});
  ASSERT_TRUE(WriteFile("/f").ok());
  auto reader = DirectReader::Open(*io_, fs_, "/f").value();
  std::string back(text_.size(), '\0');
  ASSERT_TRUE(reader->Read(back.data(), back.size(), 0).ok());
  EXPECT_TRUE(back == text_);
}

TEST_F(DirectIoFaults, FallsBackWhereOpeningDirectlyIsRefused) {
  fs_.faults().Add({.calls = CallsOf(Call::kOpen), .skip = 1, .errno_value = EINVAL});
  auto writer = DirectWriter::Open(*io_, fs_, "/f").value();
  EXPECT_FALSE(writer->is_direct());
  ASSERT_TRUE(writer->Write(text_.data(), text_.size(), 0).ok());
  ASSERT_TRUE(writer->SyncAndClose().ok());
  EXPECT_TRUE(ReadFile(fs_, "/f", 1 << 20).value() == text_);
}

TEST_F(DirectIoFaults, ReportsTheFirstFailureAndNothingLater) {
  for (const auto& [call, errno_value] : std::vector<std::pair<Call, int>>{
           {Call::kPwrite, ENOSPC}, {Call::kPwrite, EIO}, {Call::kPwrite, EDQUOT}, {Call::kFsync, EIO}, {Call::kClose, EIO}}) {
    for (uint64_t skip = 0; skip < 4; ++skip) {
      fs_.faults().Clear();
      fs_.faults().Add({.calls = CallsOf(call), .skip = call == Call::kPwrite ? skip : 0, .errno_value = errno_value});
      const uint64_t syncs_before = fs_.faults().calls(Call::kFsync);
      const std::string path = "/f" + std::to_string(errno_value) + CallName(call) + std::to_string(skip);
      EXPECT_EQ(WriteFile(path).errno_value(), errno_value) << CallName(call) << " after " << skip;
      EXPECT_EQ(fs_.faults().calls(Call::kFsync) - syncs_before, call == Call::kPwrite ? 0u : 1u);
    }
  }
}

TEST_F(DirectIoFaults, ReportsADeviceThatFillsUp) {
  fs_.SetCapacity(200'000);
  EXPECT_EQ(WriteFile("/f").code(), Code::kNoSpace);
  auto writer = DirectWriter::Open(*io_, fs_, "/g").value();
  EXPECT_EQ(writer->Reserve(1 << 20).code(), Code::kNoSpace);
}

TEST_F(DirectIoFaults, ReportsReadErrors) {
  ASSERT_TRUE(WriteFile("/f").ok());
  auto reader = DirectReader::Open(*io_, fs_, "/f").value();
  fs_.faults().Add({.calls = CallsOf(Call::kPread), .skip = 3, .errno_value = EIO});
  std::string back(text_.size(), '\0');
  EXPECT_EQ(reader->Read(back.data(), back.size(), 0).errno_value(), EIO);
  EXPECT_TRUE(reader->Read(back.data(), back.size(), 0).ok());
  EXPECT_TRUE(back == text_);
}

TEST_F(DirectIoFaults, NoticesAFileThatShrinksMeanwhile) {
  ASSERT_TRUE(WriteFile("/f").ok());
  auto reader = DirectReader::Open(*io_, fs_, "/f").value();
  ASSERT_TRUE(fs_.Open("/f", OpenFlags::kWrite).value()->Ftruncate(1000).ok());
  std::string back(text_.size(), '\0');
  EXPECT_EQ(reader->Read(back.data(), back.size(), 0).code(), Code::kCorrupt);
}

TEST_F(DirectIoFaults, DurableDataSurvivesEveryCrash) {
  ASSERT_TRUE(WriteFile("/f").ok());
  ASSERT_TRUE(SyncFolder(fs_, "/").ok());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto after = fs_.Clone();
    after->Crash(seed);
    ASSERT_TRUE(ReadFile(*after, "/f", 1 << 20).value() == text_) << "seed " << seed;
  }
}

TEST(DirectIo, RefusesSenselessOptions) {
  EXPECT_EQ(DirectIo::Create({.buffer_bytes = 1000}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DirectIo::Create({.buffer_count = 0}).status().code(), Code::kInvalidArgument);
}

TEST(DirectIo, ProbesAndCleansUp) {
  const TemporaryFolder folder;
  const DirectIoProbe probe = ProbeDirectIo(SystemFileSystem(), folder.path());
  EXPECT_EQ(probe.io_uring, probe.io_uring_reason.empty());
  EXPECT_EQ(probe.registered_buffers, probe.registered_buffers_reason.empty());
  EXPECT_EQ(probe.direct, probe.direct_reason.empty());
  EXPECT_TRUE(SystemFileSystem().List(folder.path())->empty());
  EXPECT_FALSE(ProbeDirectIo(SystemFileSystem(), folder / "none").direct);
  FaultPlan plan;
  plan.Add({.calls = CallsOf(Call::kOpen), .count = testing::kForEver, .errno_value = EINVAL});
  FaultyFileSystem faulty(SystemFileSystem(), plan);
  const DirectIoProbe refused = ProbeDirectIo(faulty, folder.path());
  EXPECT_FALSE(refused.direct);
  EXPECT_NE(refused.direct_reason.find("Invalid argument"), std::string::npos);
}

}  // namespace
}  // namespace kedge::os
