// What capture.track gives and takes: blocked time of a checkpoint, and the application's time between two, plain and tracked, of
// memory of which a part of the pages is written in each step.
//
//   tracking_bench [MiB=1024] [percent=1] [versions=15] [huge=0|1] [auto=0|1] [skip=2]
//
// A step reads all of the memory and writes one word to that part of its pages, spread evenly at random. Versions go to the
// node's pool alone. Plain and tracked each have a context and a pool of their own, on the same memory; medians of all but the
// first `skip` versions. auto=1 measures capture.track = auto, which decides in the first sixteen whether it tracks.
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kedge/kedge.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPageBytes = 4096;
constexpr size_t kPausedBytesPerMillisecond = size_t{3} << 20;

void Check(int code, const char* call) {
  if (code == KEDGE_OK) return;
  std::fprintf(stderr, "%s: %s\n", call, kedge_error_message());
  std::exit(1);
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of this thread: what a busy machine takes away does not count.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Figures {
  std::vector<double> blocked, blocked_cpu, step, step_cpu;
  double unchanged = 0;  // of the bytes captured
};

class Application {
 public:
  Application(size_t bytes, double part, bool huge) : words_(bytes / sizeof(uint64_t)), part_(part) {
    constexpr size_t kHugeBytes = size_t{2} << 20;
    void* const reserved = mmap(nullptr, bytes + kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) std::abort();
    const auto begin = (reinterpret_cast<uintptr_t>(reserved) + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
    memory_ = reinterpret_cast<uint64_t*>(begin);
    madvise(memory_, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (size_t i = 0; i < words_; ++i) memory_[i] = i;
  }
  void* memory() { return memory_; }
  size_t bytes() const { return words_ * sizeof(uint64_t); }
  uint64_t Step() {
    uint64_t sum = 0;
    for (size_t i = 0; i < words_; ++i) sum += memory_[i];
    const size_t pages = bytes() / kPageBytes;
    for (auto left = static_cast<size_t>(part_ * static_cast<double>(pages)); left > 0; --left) {
      memory_[random_() % pages * (kPageBytes / sizeof(uint64_t))] = sum + left;
    }
    return sum;
  }

 private:
  uint64_t* memory_ = nullptr;
  size_t words_;
  double part_;
  std::mt19937_64 random_{1};
};

Figures Measure(Application& application, const std::string& folder, const char* track, int versions, int skip) {
  const std::string overrides = "store.path=" + folder + "/store-" + track + "\nnode.run_folder=" + folder + "/run-" + track +
                                "\njob.name=bench\nschedule.store=0\ncapture.track=" + track +
                                "\npool.size=" + std::to_string(4 * (application.bytes() >> 20)) + "MiB\nagent.idle_timeout=5s\n";
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  Check(kedge_init(&options, nullptr, &context), "kedge_init");
  Check(kedge_protect(context, 1, application.memory(), application.bytes(), 1, nullptr), "kedge_protect");
  Figures figures;
  for (int version = 1; version <= versions; ++version) {
    const auto step_begin = Clock::now();
    const double step_cpu_begin = CpuSeconds();
    const volatile uint64_t sum = application.Step();
    static_cast<void>(sum);
    figures.step.push_back(SecondsSince(step_begin));
    figures.step_cpu.push_back(CpuSeconds() - step_cpu_begin);
    const auto begin = Clock::now();
    const double cpu_begin = CpuSeconds();
    Check(kedge_checkpoint(context, "state", version, 0), "kedge_checkpoint");
    figures.blocked.push_back(SecondsSince(begin));
    figures.blocked_cpu.push_back(CpuSeconds() - cpu_begin);
    // The agent completes the image before the next one begins, as with any real interval.
    std::this_thread::sleep_for(application.bytes() / kPausedBytesPerMillisecond * std::chrono::milliseconds(1));
  }
  kedge_statistics statistics{};
  statistics.struct_size = sizeof statistics;
  Check(kedge_get_statistics(context, &statistics), "kedge_get_statistics");
  figures.unchanged = static_cast<double>(statistics.bytes_unchanged) / static_cast<double>(statistics.bytes_captured);
  Check(kedge_finalize(context, 0), "kedge_finalize");
  for (auto* values : {&figures.blocked, &figures.blocked_cpu, &figures.step, &figures.step_cpu}) {
    values->erase(values->begin(), values->begin() + skip);
  }
  return figures;
}

double Argument(int argc, char** argv, const std::string& name, double value) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(name + "=")) value = std::atof(argument.c_str() + name.size() + 1);
  }
  return value;
}

void Print(const char* what, const std::vector<double>& plain, const std::vector<double>& tracked) {
  std::printf("%s: plain %.2f ms, tracked %.2f ms, ratio %.3f\n", what, Median(plain) * 1e3, Median(tracked) * 1e3,
              Median(tracked) / Median(plain));
}

}  // namespace

int main(int argc, char** argv) {
  const auto bytes = static_cast<size_t>(Argument(argc, argv, "MiB", 1024)) << 20;
  const double part = Argument(argc, argv, "percent", 1) / 100;
  const int skip = std::max(static_cast<int>(Argument(argc, argv, "skip", 2)), 0);
  const int versions = std::max(static_cast<int>(Argument(argc, argv, "versions", 15)), skip + 1);
  const char* const track = Argument(argc, argv, "auto", 0) != 0 ? "auto" : "on";
  Application application(bytes, part, Argument(argc, argv, "huge", 0) != 0);
  const std::string folder = "/dev/shm/kedge-tracking-bench-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const Figures plain = Measure(application, folder, "off", versions, skip);
  const Figures tracked = Measure(application, folder, track, versions, skip);
  Print("blocked", plain.blocked, tracked.blocked);
  Print("blocked, processor time", plain.blocked_cpu, tracked.blocked_cpu);
  Print("step", plain.step, tracked.step);
  Print("step, processor time", plain.step_cpu, tracked.step_cpu);
  std::printf("not read, of all bytes captured: %.3f\n", tracked.unchanged);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return 0;
}
