#include "os/machine/probes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "os/files/files.h"

namespace kedge::os {
namespace {

std::string ReadWhole(const char* path) {
  const auto content = ReadFile(SystemFileSystem(), path, 4096);
  return content.ok() ? *content : "";
}

// "always [madvise] never" -> "madvise"
std::string Chosen(const std::string& choices) {
  const size_t open = choices.find('[');
  const size_t close = choices.find(']');
  return open == std::string::npos || close == std::string::npos ? "" : choices.substr(open + 1, close - open - 1);
}

// A file of this process's own in `folder`, removed at the end of the scope.
class ProbeFile {
 public:
  ProbeFile(FileSystem& fs, const std::string& folder)
      : fs_(fs), path_(TemporaryPath(JoinPath(folder, "probe"), std::to_string(getpid()))) {}
  ~ProbeFile() { static_cast<void>(UnlinkIfPresent(fs_, path_)); }
  Result<std::unique_ptr<File>> Open() {
    return fs_.Open(path_, OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kExclusive, 0600);
  }

 private:
  FileSystem& fs_;
  std::string path_;
};

}  // namespace

std::string TransparentHugePages() {
  return Chosen(ReadWhole("/sys/kernel/mm/transparent_hugepage/enabled"));
}
std::string SharedMemoryHugePages() {
  return Chosen(ReadWhole("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
}
uint64_t HugetlbPagesTotal() {
  return std::strtoull(ReadWhole("/proc/sys/vm/nr_hugepages").c_str(), nullptr, 10);
}

uint64_t LockedMemoryLimitBytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

Result<double> MeasureSyncSeconds(FileSystem& fs, const std::string& folder, size_t bytes, int rounds) {
  const std::vector<char> data(bytes, 'k');
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    ProbeFile probe(fs, folder);
    const int64_t start = SystemClock().NowNs();
    KEDGE_ASSIGN_OR_RETURN(const auto file, probe.Open());
    KEDGE_RETURN_IF_ERROR(WriteAll(*file, data.data(), data.size(), 0));
    KEDGE_RETURN_IF_ERROR(file->Fsync());
    KEDGE_RETURN_IF_ERROR(file->Close());
    seconds.push_back(static_cast<double>(SystemClock().NowNs() - start) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace kedge::os
