#include "agent/bring/shared_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "agent/tables/agent_core.h"
#include "agent/tables/flush_object.h"
#include "store/keys.h"

namespace kedge {
namespace {

// Lines that are read at once. Their threads wait for the store.
constexpr uint32_t kReadsMax = 16;
// Of one image: half a TiB of it.
constexpr uint64_t kLinesMax = uint64_t{1} << 20;
// Of one session at a time.
constexpr size_t kImagesMax = 64;

Status Check(const ShareObjectsRequest& request, const std::string& job) {
  uint64_t lines = 0;
  for (const WantedObject& object : request.objects) {
    KEDGE_RETURN_IF_ERROR(ValidateKey(object.key));
    if (!object.key.starts_with(keys::JobFolder(job) + '/')) {
      return Status(Code::kInvalidArgument, fmt::format("{} is no object of job {}", object.key, job));
    }
    uint64_t end = 0;
    for (const LineRun& run : object.lines) {
      if (run.first > kLinesMax || run.lines > kLinesMax) return Status(Code::kInvalidArgument, "an object cannot be so large");
      end = std::max(end, run.first + run.lines);
    }
    lines += end;
    if (lines > kLinesMax) return Status(Code::kInvalidArgument, "an image cannot be so large");
  }
  return Status::Ok();
}

}  // namespace

SharedReads::SharedReads(AgentCore& core)
    : core_(core), workers_(kReadsMax, std::chrono::seconds(2), Workers::Priority::kAwaited) {
  core.requests().OnSession<ShareObjectsRequest>(std::bind_front(&SharedReads::Open, this));
  core.requests().OnSession<ReadLineRequest>(std::bind_front(&SharedReads::Read, this));
}

// Sessions may keep theirs longer.
SharedReads::~SharedReads() {
  for (const auto& [key, known] : pools_) {
    if (const auto pool = known.lock()) pool->Stop();
  }
}

std::shared_ptr<LinePool> SharedReads::PoolOf(const Session& session) {
  std::erase_if(pools_, [](const auto& pool) { return pool.second.expired(); });
  std::weak_ptr<LinePool>& known = pools_[JobKey(session.hello.store_id, session.hello.job)];
  if (auto pool = known.lock()) return pool;
  LinePoolMeans means;
  means.open = [store = session.job->store, attempt = session.hello.attempt](const std::string& key) {
    const auto open = [&]() -> Result<std::unique_ptr<ObjectReader>> {
      KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(attempt));
      return catalog.store().OpenObject(key);
    };
    return open();
  };
  means.work = [this](std::function<void()> work) { workers_.Submit(std::move(work)); };
  means.post = [&loop = core_.loop()](std::function<void()> work) { loop.Post(std::move(work)); };
  means.later = [&loop = core_.loop()](Duration delay, std::function<void()> work) { loop.AddTimer(delay, std::move(work)); };
  auto pool = LinePool::Make(std::move(means));
  known = pool;
  return pool;
}

Result<ShareObjectsReply> SharedReads::Open(Session& session, const ShareObjectsRequest& request) {
  if (session.line_readers.size() >= kImagesMax) return Status(Code::kBusy, "the session reads too many images at a time");
  KEDGE_RETURN_IF_ERROR(Check(request, session.hello.job));
  const uint64_t handle = ++session.last_handle;
  session.line_readers[handle] = PoolOf(session)->Join(request.objects);
  return ShareObjectsReply{handle};
}

void SharedReads::Read(const Session& session, const ReadLineRequest& request, const Question& question) {
  const auto found = session.line_readers.find(request.image);
  if (found == session.line_readers.end() || request.wanted.size() > 1) {
    return question.Answer(Status(Code::kInvalidArgument, fmt::format("nothing is shared under {}", request.image)));
  }
  const std::shared_ptr<LineReader> reader = found->second;
  reader->HasTaken(request.done);
  if (request.wanted.empty()) return question.Answer(ReadLineReply{});
  reader->Read(request.wanted.front(), [question, weak = std::weak_ptr(reader)](const Result<ReadLineReply>& reply) {
    std::vector<os::UniqueFd> descriptors;
    const auto still = weak.lock();
    if (reply.ok() && reply->is_here && still != nullptr && still->TellOfMemory()) {
      auto descriptor = os::DuplicateDescriptor(still->descriptor());
      if (!descriptor.ok()) return question.Answer(descriptor.status());
      descriptors.push_back(std::move(*descriptor));
    }
    question.Answer(reply, std::move(descriptors));
  });
}

}  // namespace kedge
