// Elements of the program's memory on their way into a message and out of one.
//
// Where they lie side by side, their own memory is the message's, and nothing is copied. Else they are packed into a buffer
// before they are sent, and unpacked from one when they have come: here, and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include "fmi/communicator_channel.h"
#include "fmi/handles/type_map.h"
#include "fmi/messenger.h"

namespace kedge::fmi {

struct Elements {
  void* data = nullptr;                // the first element; where they lie side by side, the first byte
  uint64_t bytes = 0;                  // of the message
  uint64_t count = 0;                  // where they do not
  std::shared_ptr<const TypeMap> map;  // null: they lie side by side
};

class PackedElements {
 public:
  // With `copies` they are copied wherever they lie.
  explicit PackedElements(Elements elements, bool copies = false)
      : elements_(std::move(elements)),
        buffer_(elements_.map || copies ? std::make_unique_for_overwrite<std::byte[]>(elements_.bytes) : nullptr) {}

  // The message.
  void* data() const { return buffer_ ? buffer_.get() : elements_.data; }
  uint64_t bytes() const { return elements_.bytes; }
  void Pack() {
    if (buffer_) PackInto(buffer_.get());
  }
  // So much of it has come.
  void Unpack(uint64_t bytes) {
    if (elements_.map) elements_.map->Unpack(buffer_.get(), bytes, elements_.data);
  }
  // The same by a buffer of others, whether they lie side by side or not.
  void PackInto(std::byte* to) const {
    if (elements_.map) {
      elements_.map->Pack(elements_.data, elements_.count, to);
    } else if (elements_.bytes > 0) {
      std::memcpy(to, elements_.data, elements_.bytes);
    }
  }
  void UnpackFrom(const std::byte* from) const {
    if (elements_.map) {
      elements_.map->Unpack(from, elements_.bytes, elements_.data);
    } else if (elements_.bytes > 0) {
      std::memcpy(elements_.data, from, elements_.bytes);
    }
  }

 private:
  Elements elements_;
  std::unique_ptr<std::byte[]> buffer_;
};

// The buffers of sends and receives under way.
class PackedMessages {
 public:
  RequestId BeginSend(const CommunicatorChannel& channel, uint32_t to, int tag, Elements elements, Messenger::SendMode mode,
                      bool copies) {
    PackedElements packed(std::move(elements), copies);
    packed.Pack();
    const RequestId id = channel.BeginSend(to, tag, packed.data(), packed.bytes(), mode);
    return Keep(id, std::move(packed), /*is_send=*/true);
  }
  RequestId BeginReceive(const CommunicatorChannel& channel, int from, int tag, Elements elements) {
    PackedElements packed(std::move(elements));
    const RequestId id = channel.BeginReceive(from, tag, packed.data(), packed.bytes());
    return Keep(id, std::move(packed), /*is_send=*/false);
  }
  // The request, which may be of elements that lie side by side, is complete, and has brought so many bytes. One that a failure
  // has ended keeps its buffer: connections may still know of it.
  void Complete(RequestId id, uint64_t bytes) {
    if (!messages_.empty()) Unpack(id, bytes);
  }
  // The messenger has begun anew.
  void Clear() { messages_.clear(); }

 private:
  struct Message {
    PackedElements packed;
    bool is_send;
  };
  RequestId Keep(RequestId id, PackedElements packed, bool is_send) {
    messages_.insert_or_assign(id, Message{std::move(packed), is_send});
    return id;
  }
  void Unpack(RequestId id, uint64_t bytes) {
    const auto found = messages_.find(id);
    if (found == messages_.end()) return;
    if (!found->second.is_send) found->second.packed.Unpack(bytes);
    messages_.erase(found);
  }

  std::unordered_map<RequestId, Message> messages_;
};

}  // namespace kedge::fmi
