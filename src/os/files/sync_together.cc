#include "os/files/sync_together.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>

#include "os/files/io_queue.h"

namespace kedge::os {
namespace {

constexpr unsigned kRingDepth = 64;
constexpr size_t kThreadsMax = 16;

// A thread's ring, made when it first syncs several files, and gone with it: to end one takes as long as many syncs.
class OwnRing {
 public:
  // Null: there is none.
  IoQueue* Get() {
    // A child has its parent's memory, and must not use its ring.
    if (pid_ != getpid()) {
      static_cast<void>(ring_.release());
      auto made = MakeRingQueue(kRingDepth);
      if (made.ok()) ring_ = std::move(*made);
      pid_ = getpid();
    }
    return ring_.get();
  }
  // It broke: the next one to ask gets another.
  void Drop() {
    ring_ = nullptr;
    pid_ = 0;
  }

 private:
  std::unique_ptr<IoQueue> ring_;
  pid_t pid_ = 0;
};
thread_local OwnRing own_ring;

// An error means that the queue broke, and that nothing is known of any file.
Status SyncByRing(IoQueue& ring, std::span<File* const> files, std::vector<Status>* statuses) {
  size_t begun = 0;
  for (size_t ended = 0; ended < files.size(); ++ended) {
    for (; begun < files.size() && begun - ended < kRingDepth; ++begun) {
      KEDGE_RETURN_IF_ERROR(ring.Submit({.file = files[begun], .kind = IoKind::kSync, .token = begun}));
    }
    KEDGE_ASSIGN_OR_RETURN(const IoCompletion completion, ring.Wait());
    (*statuses)[completion.token] = completion.outcome.status();
  }
  return Status::Ok();
}

// Started so that they take none of the application's signals.
std::vector<std::thread> StartThreads(size_t count, const std::function<void()>& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::vector<std::thread> threads;
  try {
    while (threads.size() < count) threads.emplace_back(body);
  } catch (const std::system_error&) {
    // The others, and the caller, do what is left.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return threads;
}

void SyncByThreads(std::span<File* const> files, std::vector<Status>* statuses) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < files.size(); i = next++) (*statuses)[i] = files[i]->Fsync();
  };
  std::vector<std::thread> threads = StartThreads(std::min(files.size(), kThreadsMax) - 1, work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

std::vector<Status> SyncTogether(std::span<File* const> files, SyncEngine engine) {
  if (files.empty()) return {};
  if (files.size() == 1 && engine == SyncEngine::kAuto) return {files.front()->Fsync()};
  std::vector<Status> statuses(files.size());
  if (engine != SyncEngine::kThreads) {
    IoQueue* const ring = own_ring.Get();
    Status status(Code::kUnsupported, "there is no io_uring here");
    if (ring != nullptr) status = SyncByRing(*ring, files, &statuses);
    if (ring != nullptr && !status.ok()) own_ring.Drop();
    if (ring != nullptr || engine == SyncEngine::kRing) {
      return status.ok() ? statuses : std::vector<Status>(files.size(), status);
    }
  }
  SyncByThreads(files, &statuses);
  return statuses;
}

}  // namespace kedge::os
