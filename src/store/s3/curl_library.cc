#include "store/s3/curl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kedge::s3 {

namespace {

constexpr char kFile[] = "libcurl.so.4";

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Result<CurlLibrary> Load() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status(Code::kUnsupported,
                  fmt::format("a store at s3:// needs {} (Debian: libcurl4): {}", kFile, why == nullptr ? "not found" : why));
  }
  CurlLibrary curl{};
  const bool has_all =
      Find(library, "curl_global_init", &curl.global_init) && Find(library, "curl_easy_init", &curl.easy_init) &&
      Find(library, "curl_easy_setopt", &curl.easy_setopt) && Find(library, "curl_easy_getinfo", &curl.easy_getinfo) &&
      Find(library, "curl_easy_cleanup", &curl.easy_cleanup) && Find(library, "curl_easy_reset", &curl.easy_reset) &&
      Find(library, "curl_easy_strerror", &curl.easy_strerror) && Find(library, "curl_slist_append", &curl.slist_append) &&
      Find(library, "curl_slist_free_all", &curl.slist_free_all) && Find(library, "curl_multi_init", &curl.multi_init) &&
      Find(library, "curl_multi_setopt", &curl.multi_setopt) && Find(library, "curl_multi_add_handle", &curl.multi_add_handle) &&
      Find(library, "curl_multi_remove_handle", &curl.multi_remove_handle) &&
      Find(library, "curl_multi_perform", &curl.multi_perform) && Find(library, "curl_multi_poll", &curl.multi_poll) &&
      Find(library, "curl_multi_wakeup", &curl.multi_wakeup) && Find(library, "curl_multi_info_read", &curl.multi_info_read) &&
      Find(library, "curl_multi_cleanup", &curl.multi_cleanup);
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
