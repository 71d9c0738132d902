#include "agent/remote_object.h"

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

// For an event loop that is busy, or gone.
constexpr Duration kMargin = std::chrono::seconds(5);

}  // namespace

RemoteObject::~RemoteObject() {
  // A lease that has yet to be answered ends by itself.
  TakeLease(Duration::zero());
  EndLease();
}

void RemoteObject::AskForLease() {
  if (std::exchange(asked_for_lease_, true)) return;
  lease_answer_.emplace();
  link_.AskAsync(node_, PeerKind::kLease, Encode(what_), timeout_, lease_answer_->Setter());
}

void RemoteObject::TakeLease(Duration timeout) {
  if (!lease_answer_.has_value()) return;
  const Result<Buffer> answer = lease_answer_->Wait(timeout);
  lease_answer_.reset();
  auto reply = answer.ok() ? DecodeLeaseReply(*answer) : Result<LeaseReply>(answer.status());
  if (reply.ok()) leased_ = std::move(reply->parts);
}

void RemoteObject::EndLease() {
  for (const LeasedPart& part : leased_) link_.EndLease(node_, part.memory);
  leased_.clear();
}

Pending<ArrivedBytes> RemoteObject::Begin(uint64_t offset, uint64_t bytes) {
  AskForLease();
  TakeLease(timeout_ + kMargin);
  Pending<ArrivedBytes> pending;
  for (const LeasedPart& part : leased_) {
    if (offset < part.offset || offset + bytes > part.offset + part.memory.bytes) continue;
    link_.ReadAsync(node_, part.memory, offset - part.offset, bytes, timeout_,
                    [set = pending.Setter()](Result<net::ReadBuffer> read) {
                      set(read.ok() ? Result<ArrivedBytes>(ArrivedBytes(std::move(*read))) : Result<ArrivedBytes>(read.status()));
                    });
    return pending;
  }
  ReadRequest request = what_;
  request.offset = offset;
  request.bytes = static_cast<uint32_t>(bytes);
  link_.AskAsync(node_, PeerKind::kRead, Encode(request), timeout_, [set = pending.Setter()](Result<Buffer> answer) {
    set(answer.ok() ? Result<ArrivedBytes>(ArrivedBytes(std::move(*answer))) : Result<ArrivedBytes>(answer.status()));
  });
  return pending;
}

void RemoteObject::Expect(uint64_t offset, uint64_t bytes) {
  expected_.push_back({offset, bytes, Begin(offset, bytes)});
}

bool RemoteObject::IsExpected(uint64_t offset, uint64_t bytes) const {
  return std::any_of(expected_.begin(), expected_.end(),
                     [&](const Expected& expected) { return expected.offset == offset && expected.bytes == bytes; });
}

Result<ArrivedBytes> RemoteObject::Read(uint64_t offset, uint64_t bytes) {
  const auto found = std::find_if(expected_.begin(), expected_.end(),
                                  [&](const Expected& expected) { return expected.offset == offset && expected.bytes == bytes; });
  const bool is_expected = found != expected_.end();
  Pending<ArrivedBytes> pending = is_expected ? std::move(found->answer) : Begin(offset, bytes);
  if (is_expected) expected_.erase(expected_.begin(), std::next(found));
  Result<ArrivedBytes> arrived = pending.Wait(timeout_ + kMargin);
  const Code failed = arrived.status().code();
  if (!arrived.ok() && failed != Code::kTimeout && failed != Code::kUnavailable && !leased_.empty()) {
    // The lease may have run out: asked once more, the plain way.
    EndLease();
    arrived = Begin(offset, bytes).Wait(timeout_ + kMargin);
  }
  if (arrived.ok() && arrived->bytes().size() != bytes) return Status(Code::kCorrupt, "an answer of another length");
  return arrived;
}

}  // namespace kedge
