// See routed_files.h.
#include "client/regions/routed_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/files/files.h"
#include "session/process_folder.h"

namespace kedge::client {
namespace {

constexpr size_t kCopyBytes = 1 << 20;
constexpr int kMakeAgainMax = 100;

}  // namespace

Result<std::string> RoutedFiles::Route(const std::string& original) {
  if (original.empty()) return Status(Code::kInvalidArgument, "route_file: the path is empty");
  const std::string absolute = os::AbsolutePath(original);
  for (const File& file : files_) {
    if (file.original == absolute) return file.routed;
  }
  if (own_folder_.empty()) {
    const std::string folder = os::JoinPath(folder_, ProcessFolderName());
    Status made = os::MakeFolders(file_system_, folder, 0700, /*durable=*/false);
    // Another rank may remove the folder above as it leaves the last of it empty (RemoveAll).
    for (int again = 0; again < kMakeAgainMax && made.code() == Code::kNotFound; ++again) {
      made = os::MakeFolders(file_system_, folder, 0700, /*durable=*/false);
    }
    KEDGE_RETURN_IF_ERROR(made);
    own_folder_ = folder;
  }
  const std::string folder = os::JoinPath(own_folder_, std::to_string(++routed_count_));
  KEDGE_RETURN_IF_ERROR(file_system_.Mkdir(folder, 0700));
  files_.push_back({absolute, os::JoinPath(folder, os::BaseName(absolute))});
  return files_.back().routed;
}

const std::string& RoutedFiles::OriginalOf(const std::string& routed) const {
  return std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.routed == routed; })->original;
}

Status RoutedFiles::Capture(ImageCapture* capture) {
  std::vector<uint64_t> sizes;
  for (File& file : files_) {
    auto info = file_system_.Stat(file.routed);
    if (!info.ok()) {
      return info.status().WithContext(fmt::format("routed file for '{}': it was routed, but not written", file.original));
    }
    file.bytes = info->size_bytes;
    file.mode = info->mode;
    sizes.push_back(file.bytes);
  }
  KEDGE_RETURN_IF_ERROR(capture->BeginPart(sizes));
  for (size_t i = 0; i < files_.size(); ++i) KEDGE_RETURN_IF_ERROR(CaptureFile(files_[i], static_cast<int32_t>(i), capture));
  return Status::Ok();
}

Status RoutedFiles::CaptureFile(const File& file, int32_t id, ImageCapture* capture) {
  Region region;
  region.id = id;
  region.kind = RegionKind::kFile;
  region.name = file.original;
  region.bytes = file.bytes;
  region.file_mode = file.mode;
  KEDGE_RETURN_IF_ERROR(ValidateRegion(region));
  KEDGE_ASSIGN_OR_RETURN(const auto opened, file_system_.Open(file.routed, os::OpenFlags::kRead));
  KEDGE_RETURN_IF_ERROR(capture->OpenRegion(region));
  std::vector<std::byte> buffer(std::min<uint64_t>(kCopyBytes, file.bytes));
  for (uint64_t offset = 0; offset < file.bytes;) {
    const uint64_t bytes = std::min<uint64_t>(buffer.size(), file.bytes - offset);
    KEDGE_RETURN_IF_ERROR(os::ReadAll(*opened, buffer.data(), bytes, offset));
    KEDGE_RETURN_IF_ERROR(capture->Append(buffer.data(), bytes));
    offset += bytes;
  }
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo after, opened->Fstat());
  if (after.size_bytes != file.bytes) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("routed file for '{}' grew from {} to {} bytes while it was captured: close "
                              "files before checkpoint_end",
                              file.original, file.bytes, after.size_bytes));
  }
  return capture->CloseRegion();
}

void RoutedFiles::RemoveAll() {
  files_.clear();
  routed_count_ = 0;
  if (own_folder_.empty()) return;
  (void)os::RemoveTree(file_system_, own_folder_);
  own_folder_.clear();
  (void)file_system_.Rmdir(folder_);  // when it was the last
}

}  // namespace kedge::client
