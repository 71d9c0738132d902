#include "os/memory/secret_text.h"

#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

namespace kedge::os {

SecretBytes::SecretBytes(size_t bytes) : bytes_(bytes) {
  if (bytes_ == 0) return;
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KEDGE_CHECK(mapped != MAP_FAILED);
  data_ = static_cast<std::byte*>(mapped);
  KEDGE_CHECK(madvise(data_, bytes_, MADV_DONTDUMP) == 0);
}

SecretBytes::~SecretBytes() {
  if (data_ == nullptr) return;
  explicit_bzero(data_, bytes_);
  munmap(data_, bytes_);
}

SecretText::SecretText(std::string text) {
  const WipedAtTheEnd wiped(&text);
  if (text.empty()) return;
  const auto held = std::make_shared<const SecretBytes>(text.size());
  CopySecret(text, held->bytes());
  held_ = held;
}

void CopySecret(std::string_view from, std::span<std::byte> to) {
  KEDGE_CHECK(from.size() <= to.size());
  volatile std::byte* out = to.data();
  for (const char byte : from) *out++ = static_cast<std::byte>(byte);
}

void Wipe(std::string* text) {
  text->resize(text->capacity());
  explicit_bzero(text->data(), text->size());
  text->clear();
}

}  // namespace kedge::os
