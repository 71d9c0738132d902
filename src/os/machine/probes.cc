#include "os/machine/probes.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "os/files/files.h"
#include "os/files/unique_fd.h"

// Newer than Debian 12's headers.
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace kedge::os {
namespace {

bool HasUserfaultfdFeature(uint64_t feature) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = feature;
  return fd.get() >= 0 && ioctl(fd.get(), UFFDIO_API, &api) == 0;
}

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

UserfaultfdSupport ProbeUserfaultfd() {
  UserfaultfdSupport support;
  support.available = HasUserfaultfdFeature(0);
  if (!support.available) {
    support.reason = std::strerror(errno);
    return support;
  }
  support.write_protect = HasUserfaultfdFeature(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
  support.asynchronous = support.write_protect && HasUserfaultfdFeature(UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_ASYNC);
  return support;
}

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
