#include "agent/peers/remote_object.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace kedge {
namespace {

// For an event loop that is busy, or gone.
constexpr Duration kMargin = std::chrono::seconds(5);
// Of one block, each for another reason than that nothing comes.
constexpr int kBeginsMax = 8;

}  // namespace

RemoteObject::~RemoteObject() {
  // A lease that has yet to be answered ends by itself; so does one that reads are under way with, which would fail and end
  // the session.
  TakeLease(Duration::zero());
  if (expected_.empty()) EndLease();
}

void RemoteObject::AskForLease() {
  if (std::exchange(asked_for_lease_, true) || link_.seals()) return;
  lease_answer_.emplace();
  link_.AskAsync(node_, PeerKind::kLease, Encode(what_), timeout_, lease_answer_->Setter());
}

void RemoteObject::TakeLease(Duration timeout) {
  if (!lease_answer_.has_value()) return;
  const Result<Buffer> answer = lease_answer_->Wait(timeout);
  lease_answer_.reset();
  auto reply = answer.ok() ? DecodeLeaseReply(*answer) : Result<LeaseReply>(answer.status());
  if (!reply.ok()) return;
  leased_ = std::move(reply->parts);
  sealed_ = reply->sealed;
}

void RemoteObject::RenewLease() {
  const int64_t now_ns = SystemClock().NowNs();
  const bool is_due = std::any_of(leased_.begin(), leased_.end(), [&](const LeasedPart& part) {
    const Duration half = std::chrono::milliseconds(part.memory.milliseconds / 2);
    return part.memory.end_ns - half.count() < now_ns;
  });
  if (!is_due) return;
  // What is under way goes by the old one, which ends by itself.
  leased_.clear();
  asked_for_lease_ = false;
}

void RemoteObject::EndLease() {
  for (const LeasedPart& part : leased_) link_.EndLease(node_, part.memory);
  leased_.clear();
}

RemoteObject::Expected RemoteObject::Begin(uint64_t offset, uint64_t bytes) {
  RenewLease();
  AskForLease();
  TakeLease(timeout_ + kMargin);
  // The node has said, before it leased anything, whether it is to be read now.
  if (gates_) gates_->gates().WaitFor({link_.job(), node_});
  Expected begun{offset, bytes, Way::kAsked, SystemClock().NowNs(), {}};
  ReadRequest request = what_;
  request.offset = offset;
  request.bytes = static_cast<uint32_t>(bytes);
  if (link_.seals() || sealed_) {
    begun.way = Way::kSealed;
    AskSealed(request, begun.answer.Setter());
    return begun;
  }
  for (const LeasedPart& part : leased_) {
    if (offset < part.offset || offset + bytes > part.offset + part.memory.bytes) continue;
    begun.way = Way::kLeased;
    link_.ReadAsync(node_, part.memory, offset - part.offset, bytes, timeout_,
                    [set = begun.answer.Setter()](Result<net::ReadBuffer> read) {
                      set(read.ok() ? Result<ArrivedBytes>(ArrivedBytes(std::move(*read))) : Result<ArrivedBytes>(read.status()));
                    });
    return begun;
  }
  link_.AskAsync(node_, PeerKind::kRead, Encode(request), timeout_, [set = begun.answer.Setter()](Result<Buffer> answer) {
    set(answer.ok() ? Result<ArrivedBytes>(ArrivedBytes(std::move(*answer))) : Result<ArrivedBytes>(answer.status()));
  });
  return begun;
}

void RemoteObject::AskSealed(const ReadRequest& request, std::function<void(Result<ArrivedBytes>)> set) const {
  const auto read = [link = link_, node = node_, bytes = request.bytes, timeout = timeout_, set](const Result<Buffer>& answer) {
    const auto reply = answer.ok() ? DecodeSealedReply(*answer) : Result<SealedReply>(answer.status());
    if (!reply.ok()) return set(reply.status());
    link.ReadAsync(node, reply->memory, 0, bytes, timeout, [link, node, reply = *reply, set](Result<net::ReadBuffer> arrived) {
      link.EndLease(node, reply.memory);
      if (!arrived.ok()) return set(arrived.status());
      set(ArrivedBytes(std::move(*arrived), reply.seal));
    });
  };
  link_.AskAsync(node_, PeerKind::kReadSealed, Encode(request), timeout_, read);
}

void RemoteObject::Expect(uint64_t offset, uint64_t bytes) {
  expected_.push_back(Begin(offset, bytes));
}

bool RemoteObject::IsExpected(uint64_t offset, uint64_t bytes) const {
  return std::any_of(expected_.begin(), expected_.end(),
                     [&](const Expected& expected) { return expected.offset == offset && expected.bytes == bytes; });
}

Result<ArrivedBytes> RemoteObject::WaitFor(Expected expected) {
  // The network ends what gets nowhere, unless it is gone.
  while (!expected.answer.WaitUntilHere(timeout_ + kMargin) && expected.way != Way::kAsked && link_.IsBringing(node_, timeout_)) {
  }
  Result<ArrivedBytes> arrived = expected.answer.Wait(Duration::zero());
  if (arrived.ok()) arrived_ns_ = SystemClock().NowNs();
  if (arrived.ok() && !arrived->Open()) return Status(Code::kCorrupt, "what came from node " + node_ + " does not open");
  return arrived;
}

bool RemoteObject::MayBeginAgain(const Expected& failed, Code code) {
  if (code == Code::kUnavailable) return false;
  // An answer comes behind the others: where some have come, it is on its way, or was.
  if (code == Code::kTimeout) return failed.way != Way::kLeased && arrived_ns_ > failed.asked_ns;
  // Its turn did not come while it was leased: it is leased anew. Else the plain way, which a sealed one has none of.
  if (failed.way == Way::kLeased && code != Code::kFailedPrecondition) EndLease();
  return failed.way == Way::kLeased || (failed.way == Way::kSealed && code == Code::kFailedPrecondition);
}

Result<ArrivedBytes> RemoteObject::Read(uint64_t offset, uint64_t bytes) {
  const auto found = std::find_if(expected_.begin(), expected_.end(),
                                  [&](const Expected& expected) { return expected.offset == offset && expected.bytes == bytes; });
  const bool is_expected = found != expected_.end();
  Expected begun = is_expected ? *found : Begin(offset, bytes);
  if (is_expected) expected_.erase(expected_.begin(), std::next(found));
  Result<ArrivedBytes> arrived = WaitFor(begun);
  for (int begins = 1; !arrived.ok() && begins < kBeginsMax && MayBeginAgain(begun, arrived.status().code()); ++begins) {
    begun = Begin(offset, bytes);
    arrived = WaitFor(begun);
  }
  if (arrived.ok() && arrived->bytes().size() != bytes) return Status(Code::kCorrupt, "an answer of another length");
  return arrived;
}

}  // namespace kedge
