// Takes checkpoints: whole, or begin, parts, end; through the agent's slots, or inline into the store without an agent.
//
// Guarded by the context's lock. The state between begin and end is one image; any error ends it, and the next checkpoint
// starts afresh. With capture.mode = cow a whole one returns once writes to its memory are held back: its image has started, and
// the thread that copies it ends it under the lock (Core::capturing). No other one begins before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "capture/background_copy.h"
#include "capture/copy_order.h"
#include "capture/image_capture.h"
#include "capture/store_sink.h"
#include "client/core/core.h"
#include "client/core/ledger.h"
#include "client/regions/change_tracker.h"
#include "client/regions/routed_files.h"
#include "client/session/agent_session.h"
#include "restore/file_publisher.h"
#include "store/attempts.h"

namespace kedge::client {

class Checkpointer {
 public:
  // All outlive the checkpointer. `files_folder`: where routed files lie.
  Checkpointer(Core* core, Ledger* ledger, AgentSession* session, const std::string& files_folder);

  // `lock` holds the context's lock on entry and return.
  Status Whole(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite);
  Status Begin(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite);
  Status Part(kedge_selection selection, const int* ids, size_t count);
  Result<std::string> RouteFile(const std::string& original);
  Status Annotate(std::string_view key, std::string_view value);
  Status End(bool success);

  bool active() const { return taken_ != nullptr; }
  RoutedFiles& files() { return files_; }
  // Gives up the image between begin and end, if any.
  void Abandon();
  // Whether other ranks agree that the versions that went to the store inline are what was taken; else a failure of the session.
  void CheckAgreement();

 private:
  Status Start(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite);
  // What was gathered, in one call; true: some of it is copied later.
  Result<bool> CaptureWhole();
  // Whether the image goes where memory can be copied later, and this process can hold writes back. Tries it the first time, and
  // says in the log why not.
  bool CopiesLater();
  Result<bool> StartCopy(std::vector<CopiedLater> later);
  // The copy's thread: all is there, or what has become of it.
  void OnCopied(Status status);
  // Chooses the sink and begins the image there.
  Status OpenImage(uint64_t announced_bytes);
  Status FallBackInline(const Status& why);
  // Fills gathered_ with the selected regions; on an error none of them counts as taken.
  Status Gather(kedge_selection selection, const int* ids, size_t count);
  Status Take(DeclaredRegion* declared);
  // `later` null: all of it is copied now.
  Status CapturePart(std::vector<CopiedLater>* later);
  Status CaptureMemory(const DeclaredRegion& declared);
  // As many as stay on the node, and the next one.
  uint64_t VersionsOnNode() const { return uint64_t{core_->job.keys.keep_local} + 1; }
  // By such images of all its ranks.
  uint64_t NeededOnNode(uint64_t image_bytes) const;
  bool Fits(uint64_t image_bytes) const;
  Status CaptureObject(DeclaredRegion* declared);
  void AnnotateHeap();
  Status EndCapture();
  Status Finish();
  void CountFinished();
  void PublishFilesInline(const Generation& taken);
  Status PublishFileInline(const FileOrigin& origin, const RoutedFiles::File& file);
  void WarnWhenTooBig(uint64_t image_bytes);

  Core* core_;
  Ledger* ledger_;
  AgentSession* session_;
  StoreSink store_sink_;
  ImageCapture capture_;
  ChangeTracker tracker_;
  RoutedFiles files_;
  FilePublisher file_publisher_;
  LeaseWatch silence_watch_;  // of attempts that have left something

  TakenVersion* taken_ = nullptr;  // the image between begin and end
  bool inline_ = false;
  std::shared_ptr<AttachedSession> image_session_;  // where the image goes, unless inline: alive until it ends
  uint64_t image_number_ = 0;                       // counts images: marks the regions that each has taken
  uint64_t parts_ = 0;                              // captured into the present sink
  std::vector<DeclaredRegion*> gathered_;
  std::vector<uint64_t> gathered_bytes_;
  bool warned_of_size_ = false;
  std::map<std::string, Generation> unfinished_;  // the newest inline one of each name, not seen complete

  bool tried_to_hold_ = false;
  bool holds_ = false;
  CopyOrder copy_order_;
  TakenVersion* started_ = nullptr;  // while Core::capturing
  int64_t started_ns_ = 0;
  std::unique_ptr<BackgroundCopy> copy_;  // the last member: its thread uses the others
};

}  // namespace kedge::client
