#include "references.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "measure.h"

namespace kedge::bench {
namespace {

constexpr size_t kCallBytes = 8u << 20;
constexpr size_t kDirectAlignment = 4096;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "kedge-bench: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// A file that is gone from its folder as soon as it is closed or the program ends.
class ScratchFile {
 public:
  ScratchFile(const std::string& path, int flags) : path_(path) {
    fd_ = open(path.c_str(), flags | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  ~ScratchFile() {
    if (fd_ >= 0) close(fd_);
    unlink(path_.c_str());
  }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

void WriteFully(const ScratchFile& file, const char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = write(file.fd(), data + done, std::min(kCallBytes, bytes - done));
    if (written <= 0) Fail("write " + file.path());
    done += static_cast<size_t>(written);
  }
}

std::string FileName(const std::string& folder, const char* what, int rank) {
  return fmt::format("{}/kedge-bench-{}-{}-{}", folder, what, getpid(), rank);
}

}  // namespace

FaultedBuffer::FaultedBuffer(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  const ScratchFile file(FileName("/dev/shm", "faulted", 0), O_RDWR);
  if (file.fd() < 0 || ftruncate(file.fd(), static_cast<off_t>(bytes_)) != 0) Fail("make " + file.path());
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) Fail("map " + file.path());
  data_ = static_cast<char*>(mapped);
  std::memset(data_, 1, bytes_);
}

FaultedBuffer::~FaultedBuffer() {
  munmap(data_, bytes_);
}

double MemcpySeconds(char* faulted, const char* data, size_t bytes) {
  const double start = Now();
  std::memcpy(faulted, data, bytes);
  return Now() - start;
}

double SharedMemoryWriteSeconds(const char* data, size_t bytes, int rank) {
  const std::string path = FileName("/dev/shm", "write", rank);
  const double start = Now();
  const ScratchFile file(path, O_WRONLY);
  if (file.fd() < 0) Fail("open " + path);
  WriteFully(file, data, bytes);
  return Now() - start;
}

double WriteFsyncSeconds(const std::string& folder, const char* data, size_t bytes, int rank) {
  const std::string path = FileName(folder, "fsync", rank);
  const double start = Now();
  const ScratchFile file(path, O_WRONLY);
  if (file.fd() < 0) Fail("open " + path);
  WriteFully(file, data, bytes);
  if (fsync(file.fd()) != 0) Fail("fsync " + path);
  return Now() - start;
}

double DirectWriteSeconds(const std::string& folder, const char* data, size_t bytes, int rank) {
  const std::string path = FileName(folder, "direct", rank);
  // The copy into aligned memory is not timed: the pool's slots are aligned.
  const size_t aligned_bytes = (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  char* aligned = static_cast<char*>(std::aligned_alloc(kDirectAlignment, aligned_bytes));
  if (aligned == nullptr) Fail("allocate");
  std::memset(aligned, 0, aligned_bytes);
  std::memcpy(aligned, data, bytes);
  const double start = Now();
  const ScratchFile file(path, O_WRONLY | O_DIRECT);
  double seconds = -1;
  if (file.fd() >= 0) {
    WriteFully(file, aligned, aligned_bytes);
    if (fsync(file.fd()) != 0) Fail("fsync " + path);
    seconds = Now() - start;
  }
  std::free(aligned);
  return seconds;
}

double ReadSeconds(const std::string& path, char* destination, size_t bytes) {
  const double start = Now();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Fail("open " + path);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = read(fd, destination + done, std::min(kCallBytes, bytes - done));
    if (got <= 0) Fail("read " + path);
    done += static_cast<size_t>(got);
  }
  close(fd);
  return Now() - start;
}

namespace {

// Regular files. Where others remove folders meanwhile, a walk may end early: then there is another one.
std::vector<std::filesystem::directory_entry> FilesBelow(const std::string& folder) {
  std::vector<std::filesystem::directory_entry> files;
  std::error_code error, ignored;
  for (int walks = 0; walks == 0 || (error && walks < 10); ++walks) {
    files.clear();
    error.clear();
    for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->is_regular_file(ignored)) files.push_back(*entry);
    }
  }
  return files;
}

}  // namespace

std::vector<std::string> NewestFiles(const std::string& folder, size_t bytes, size_t count) {
  std::error_code gone;
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> files;
  for (const auto& entry : FilesBelow(folder)) {
    const bool is_long = entry.file_size(gone) >= bytes;
    const auto written = entry.last_write_time(gone);
    if (is_long && !gone) files.emplace_back(written, entry.path().string());
  }
  std::sort(files.rbegin(), files.rend());
  std::vector<std::string> newest;
  for (size_t i = 0; i < std::min(count, files.size()); ++i) newest.push_back(files[i].second);
  return newest;
}

double LibraryCallsSeconds() {
  static volatile double result = 0;  // else the compiler leaves them out
  static int calls = 0;
  const double start = Now();
  ++calls;
  double numbers[24];
  for (int i = 0; i < 24; ++i) numbers[i] = (i * 7919 + calls) % 97;
  std::sort(std::begin(numbers), std::end(numbers));
  char line[256];
  const int length = std::snprintf(line, sizeof line, "%d %s %.3f %x", calls, "line", numbers[3], static_cast<unsigned>(calls));
  result = result + std::strtod(line + length / 2, nullptr);
  const std::time_t seconds = calls * 1000;
  std::tm date{};
  gmtime_r(&seconds, &date);
  result = result + static_cast<double>(std::strftime(line, sizeof line, "%Y-%m-%d", &date));
  const auto copy = std::make_unique<char[]>(700 + static_cast<size_t>(calls % 100));
  std::memcpy(copy.get(), line, sizeof line);
  result = result + std::pow(numbers[6] + 1, 1.3) + static_cast<double>(std::strlen(copy.get()));
  return Now() - start;
}

void DropFromPageCache(const std::string& folder) {
  for (const auto& entry : FilesBelow(folder)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

}  // namespace kedge::bench
