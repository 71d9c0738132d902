// Secrets in memory: in pages of their own, which no core file has, and which are wiped before they go.
//
// What a process is told in its environment, or reads from a file, has been elsewhere before; whoever takes it from there into a
// SecretText wipes what can be reached of that.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kedge::os {

// Bytes to work with: zeros at first. The program ends where the system has no memory.
class SecretBytes {
 public:
  explicit SecretBytes(size_t bytes);
  ~SecretBytes();
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), bytes_}; }

 private:
  const size_t bytes_;
  std::byte* data_ = nullptr;  // null: of no bytes
};

// A text that stays as it is. Copies share one place.
class SecretText {
 public:
  SecretText() = default;
  // The string is wiped.
  explicit SecretText(std::string text);

  bool empty() const { return held_ == nullptr; }
  // As long as a copy of this text is there.
  std::string_view view() const { return held_ == nullptr ? std::string_view() : held_->view(); }
  friend bool operator==(const SecretText& a, const SecretText& b) { return a.view() == b.view(); }

 private:
  std::shared_ptr<const SecretBytes> held_;
};

// Byte by byte: memcpy leaves what it copied in the vector registers, which a core file has, and which calls through the dynamic
// linker put onto the stack.
void CopySecret(std::string_view from, std::span<std::byte> to);

// Overwrites all that the string has room for, and leaves it empty.
void Wipe(std::string* text);

// Wipes a string at the end of a block; null: there is none.
class WipedAtTheEnd {
 public:
  explicit WipedAtTheEnd(std::string* text) : text_(text) {}
  ~WipedAtTheEnd() {
    if (text_ != nullptr) Wipe(text_);
  }
  WipedAtTheEnd(const WipedAtTheEnd&) = delete;
  WipedAtTheEnd& operator=(const WipedAtTheEnd&) = delete;

 private:
  std::string* const text_;
};

}  // namespace kedge::os
