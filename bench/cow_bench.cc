// What capture.mode = cow gives and takes, of an application whose hot memory lies behind its cold memory.
//
//   cow_bench [MiB=512] [hot=25] [work=4] [images=9] [huge=0|1] [heap=0|1]
//
// The memory is a mapping of its own, with huge pages or without; with heap=1 it is a block of kedge_alloc.
// A step computes each word of the hot part (in percent) anew, in order. First through the library, with its agent, copy and cow
// each with a context of its own: blocked time, and the step that follows. Then the copy alone, into memory that is there, with
// the three ways of [AI-Ckpt]: in the call; later, in the order of addresses; later, in the order of writes. The overhead of an
// image is what its call and the step after it take longer than a step without one; beside it in this thread's processor time, in
// which neither waiting counts nor what a busy machine takes away. Medians, all ways in turn; the first two images of each do not
// count.
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "capture/background_copy.h"
#include "capture/copy_order.h"
#include "kedge/kedge.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kHugeBytes = size_t{2} << 20;
constexpr int kSkipped = 2;

void Check(int code, const char* call) {
  if (code == KEDGE_OK) return;
  std::fprintf(stderr, "%s: %s\n", call, kedge_error_message());
  std::exit(1);
}

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Moment {
  Clock::time_point wall = Clock::now();
  double processor = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  }();
};

// In milliseconds.
struct Took {
  explicit Took(const Moment& begin) : wall(MillisecondsSince(begin.wall)), processor(Moment().processor - begin.processor) {}
  double wall, processor;
};

double MedianOf(std::vector<double> values) {
  values.erase(values.begin(), values.begin() + kSkipped);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::byte* NewMemory(size_t bytes, bool huge) {
  void* const reserved = mmap(nullptr, bytes + kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) std::abort();
  const auto begin = (reinterpret_cast<uintptr_t>(reserved) + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
  auto* const memory = reinterpret_cast<std::byte*>(begin);
  madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(memory, 1, bytes);
  return memory;
}

struct Folder {
  const std::string path = "/dev/shm/kedge-cow-bench-" + std::to_string(getpid());
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

// Of a context that takes no checkpoints.
class Heap {
 public:
  Heap(const std::string& folder, size_t bytes) {
    const std::string overrides =
        "store.path=" + folder + "/store-heap\nnode.run_folder=" + folder + "/run-heap\njob.mode=sync\njob.name=heap\n";
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    Check(kedge_init(&options, nullptr, &context_), "kedge_init");
    Check(kedge_alloc(context_, "state", bytes, 1, nullptr, &block_), "kedge_alloc");
    std::memset(block_, 1, bytes);
  }
  ~Heap() { Check(kedge_finalize(context_, 0), "kedge_finalize"); }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  std::byte* block() const { return static_cast<std::byte*>(block_); }

 private:
  kedge_context* context_ = nullptr;
  void* block_ = nullptr;
};

class Stencil {
 public:
  Stencil(std::byte* memory, size_t bytes, double hot, int work)
      : memory_(memory), bytes_(bytes), hot_words_(static_cast<size_t>(hot * static_cast<double>(bytes)) / 8), work_(work) {}
  std::byte* memory() { return memory_; }
  size_t bytes() const { return bytes_; }
  Took Step() {
    const Moment begin;
    auto* const words = reinterpret_cast<uint64_t*>(memory_ + bytes_) - hot_words_;
    for (size_t i = 0; i < hot_words_; ++i) {
      uint64_t word = words[i];
      for (int k = 0; k < work_; ++k) word = word * 6364136223846793005u + 1442695040888963407u;
      words[i] = word;
    }
    return Took(begin);
  }

 private:
  std::byte* const memory_;
  const size_t bytes_, hot_words_;
  const int work_;
};

struct Times {
  std::vector<double> blocked, step, overhead, processor, waited;

  void Add(const Took& call, const Took& after, const Took& plain) {
    blocked.push_back(call.wall);
    step.push_back(after.wall);
    overhead.push_back(call.wall + after.wall - plain.wall);
    processor.push_back(call.processor + after.processor - plain.processor);
  }
};

// ---- Through the library ----
class Program {
 public:
  Program(Stencil& stencil, const std::string& folder, const std::string& mode) {
    const std::string overrides = "store.path=" + folder + "/store-" + mode + "\nnode.run_folder=" + folder + "/run-" + mode +
                                  "\njob.name=bench\nschedule.store=0\ncapture.mode=" + mode +
                                  "\npool.size=" + std::to_string(4 * (stencil.bytes() >> 20)) + "MiB\nagent.idle_timeout=5s\n";
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    Check(kedge_init(&options, nullptr, &context_), "kedge_init");
    Check(kedge_protect(context_, 1, stencil.memory(), stencil.bytes(), 1, nullptr), "kedge_protect");
  }
  ~Program() { Check(kedge_finalize(context_, 0), "kedge_finalize"); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Take(Stencil& stencil, const Took& plain_step, Times* times) {
    const Moment begin;
    Check(kedge_checkpoint(context_, "state", ++version_, 0), "kedge_checkpoint");
    const Took call(begin);
    times->Add(call, stencil.Step(), plain_step);
    Check(kedge_wait(context_, "state", version_, KEDGE_LEVEL_LOCAL, 60), "kedge_wait");
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    Check(kedge_get_statistics(context_, &statistics), "kedge_get_statistics");
    times->waited.push_back(static_cast<double>(statistics.writes_held - held_));
    held_ = statistics.writes_held;
  }

 private:
  kedge_context* context_ = nullptr;
  int64_t version_ = 0;
  uint64_t held_ = 0;
};

// ---- The copy alone ----
enum class Way { kInCall, kByAddress, kByWrites };

void Copy(Stencil& stencil, std::byte* image, Way way, kedge::CopyOrder* order, const Took& plain_step, Times* times) {
  kedge::CopyOrder none;
  std::promise<kedge::Status> done;
  std::unique_ptr<kedge::BackgroundCopy> copy;
  const Moment begin;
  if (way == Way::kInCall) {
    kedge::crc32c::CopyAndChecksum(image, stencil.memory(), stencil.bytes());
  } else {
    auto created = kedge::BackgroundCopy::Create(way == Way::kByWrites ? order : &none);
    if (!created.ok() || !(*created)->Add(stencil.memory(), stencil.bytes()).ok()) std::abort();
    copy = std::move(*created);
    std::vector<kedge::CopiedLater> parts{{0, 1, stencil.memory(), image, stencil.bytes(), 0}};
    const auto goes_on = copy->Start(std::move(parts), [&done](kedge::Status status) { done.set_value(std::move(status)); });
    if (!goes_on.ok() || !*goes_on) std::abort();
  }
  const Took call(begin);
  times->Add(call, stencil.Step(), plain_step);
  if (copy && !done.get_future().get().ok()) std::abort();
  times->waited.push_back(copy ? static_cast<double>(copy->waited()) : 0);
}

double Argument(int argc, char** argv, const std::string& name, double value) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(name + "=")) value = std::atof(argument.c_str() + name.size() + 1);
  }
  return value;
}

void Print(const char* what, const Times& times) {
  std::printf("%-28s %10.2f %10.2f %10.2f %10.2f %10.0f\n", what, MedianOf(times.blocked), MedianOf(times.step),
              MedianOf(times.overhead), MedianOf(times.processor), MedianOf(times.waited));
}

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  const auto bytes = static_cast<size_t>(Argument(argc, argv, "MiB", 512)) << 20;
  const int images = std::max(static_cast<int>(Argument(argc, argv, "images", 9)), kSkipped + 1);
  const bool huge = Argument(argc, argv, "huge", 0) != 0;
  const Folder folder;
  const auto heap = Argument(argc, argv, "heap", 0) != 0 ? std::make_unique<Heap>(folder.path, bytes) : nullptr;
  Stencil stencil(heap ? heap->block() : NewMemory(bytes, huge), bytes, Argument(argc, argv, "hot", 25) / 100,
                  static_cast<int>(Argument(argc, argv, "work", 4)));
  std::byte* const image = NewMemory(bytes, false);
  std::vector<double> copied, plain;
  Times copy, cow, in_call, by_address, by_writes;

  const double before = PeakMebibytes();
  kedge::CopyOrder order;
  for (int i = 0; i < images; ++i) {
    const Took step = stencil.Step();
    plain.push_back(step.wall);
    const auto begin = Clock::now();
    std::memcpy(image, stencil.memory(), bytes);
    copied.push_back(MillisecondsSince(begin));
    Copy(stencil, image, Way::kInCall, nullptr, step, &in_call);
    Copy(stencil, image, Way::kByAddress, nullptr, step, &by_address);
    Copy(stencil, image, Way::kByWrites, &order, step, &by_writes);
  }
  const double extra = PeakMebibytes() - before;

  {
    Program copies(stencil, folder.path, "copy"), holds(stencil, folder.path, "cow");
    for (int i = 0; i < images; ++i) {
      const Took step = stencil.Step();
      copies.Take(stencil, step, &copy);
      holds.Take(stencil, step, &cow);
    }
  }
  std::printf("%zu MiB, pages %s; milliseconds\nstep without a checkpoint %.2f, memcpy %.2f, extra memory %.1f MiB\n",
              bytes >> 20,
              heap   ? "of kedge_alloc"
              : huge ? "huge"
                     : "of 4 KiB",
              MedianOf(plain), MedianOf(copied), extra);
  std::printf("%-28s %10s %10s %10s %10s %10s\n", "", "blocked", "step", "overhead", "processor", "waited");
  Print("library, copy", copy);
  Print("library, cow", cow);
  Print("copy in the call", in_call);
  Print("later, by address", by_address);
  Print("later, by writes", by_writes);
  return 0;
}
