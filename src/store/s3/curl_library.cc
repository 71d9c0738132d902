#include "store/s3/curl_library.h"

#include <fmt/format.h>

#include "os/process/shared_library.h"

namespace kedge::s3 {

namespace {

constexpr char kFile[] = "libcurl.so.4";

Result<CurlLibrary> Load() {
  const auto library = os::SharedLibrary::Load(kFile);
  if (!library.ok()) {
    return Status(Code::kUnsupported,
                  fmt::format("a store at s3:// needs {} (Debian: libcurl4): {}", kFile, library.status().message()));
  }
  CurlLibrary curl{};
  const bool has_all =
      library->Find("curl_global_init", &curl.global_init) && library->Find("curl_easy_init", &curl.easy_init) &&
      library->Find("curl_easy_setopt", &curl.easy_setopt) && library->Find("curl_easy_getinfo", &curl.easy_getinfo) &&
      library->Find("curl_easy_cleanup", &curl.easy_cleanup) && library->Find("curl_easy_reset", &curl.easy_reset) &&
      library->Find("curl_easy_strerror", &curl.easy_strerror) && library->Find("curl_slist_append", &curl.slist_append) &&
      library->Find("curl_slist_free_all", &curl.slist_free_all) && library->Find("curl_multi_init", &curl.multi_init) &&
      library->Find("curl_multi_setopt", &curl.multi_setopt) && library->Find("curl_multi_add_handle", &curl.multi_add_handle) &&
      library->Find("curl_multi_remove_handle", &curl.multi_remove_handle) &&
      library->Find("curl_multi_perform", &curl.multi_perform) && library->Find("curl_multi_poll", &curl.multi_poll) &&
      library->Find("curl_multi_wakeup", &curl.multi_wakeup) && library->Find("curl_multi_info_read", &curl.multi_info_read) &&
      library->Find("curl_multi_cleanup", &curl.multi_cleanup);
  if (!has_all)
    return Status(Code::kUnsupported, fmt::format("{} is older than 7.68: it lacks what a store at s3:// needs", kFile));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Status(Code::kInternal, "curl_global_init failed");
  return curl;
}

}  // namespace

Result<const CurlLibrary*> LoadCurl() {
  static const Result<CurlLibrary> kLoaded = Load();
  if (!kLoaded.ok()) return kLoaded.status();
  return &*kLoaded;
}

}  // namespace kedge::s3
