// Files that the application writes and reads itself: each gets a path on local storage between begin and end.
//
// At the end of a checkpoint they become regions of kind file in the image, and the local files go. At a restart they are
// written from the image, verified, and go at its end. They lie in a folder of this process below the job's scratch folder or
// the node's run folder, which is on tmpfs; what a dead process left there, a later context of the same user and PID
// namespace removes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "capture/image_capture.h"
#include "os/files/file_system.h"

namespace kedge::client {

class RoutedFiles {
 public:
  struct File {
    std::string original;  // absolute
    std::string routed;
    uint64_t bytes = 0;
    uint32_t mode = 0600;
  };

  // `folder`: on a local tier; made at the first use.
  RoutedFiles(os::FileSystem& file_system, std::string folder) : file_system_(file_system), folder_(std::move(folder)) {}
  ~RoutedFiles() { RemoveAll(); }

  // The path for `original` (relative ones are taken from the current folder); the same for the same file until RemoveAll. Its
  // last component is that of `original`, so that what a library reads from a suffix stays true.
  Result<std::string> Route(const std::string& original);
  // The original of a path that Route gave.
  const std::string& OriginalOf(const std::string& routed) const;
  bool empty() const { return files_.empty(); }
  const std::vector<File>& files() const { return files_; }

  // Reads what the application wrote into the image, one region a file. The local files stay until RemoveAll.
  // kNotFound: a routed file was never written.
  Status Capture(ImageCapture* capture);
  void RemoveAll();

 private:
  Status CaptureFile(const File& file, int32_t id, ImageCapture* capture);

  os::FileSystem& file_system_;
  const std::string folder_;
  std::string own_folder_;  // of this object, once it is made
  uint64_t routed_count_ = 0;
  std::vector<File> files_;
};

}  // namespace kedge::client
