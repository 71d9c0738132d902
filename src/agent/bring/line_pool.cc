#include "agent/bring/line_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// Read ahead of who asks, of one object: as many reads are under way where the store answers late.
constexpr uint32_t kLinesAheadMax = 16;
// So far behind the line that was asked for.
constexpr uint64_t kLinesLookedAtMax = 64;

}  // namespace

struct LinePool::Source {
  explicit Source(std::string name) : key(std::move(name)) {}

  Result<ObjectReader*> Open(const LinePoolMeans& means) {
    const std::lock_guard lock(mutex);
    if (reader == nullptr) {
      KEDGE_ASSIGN_OR_RETURN(reader, means.open(key));
    }
    return reader.get();
  }

  const std::string key;
  std::mutex mutex;
  std::unique_ptr<ObjectReader> reader;  // guarded by mutex
};

std::shared_ptr<LinePool> LinePool::Make(LinePoolMeans means, LinePoolOptions options) {
  KEDGE_CHECK(options.lines >= 2 && options.lines <= kSharedLines);
  return std::make_shared<LinePool>(std::move(means), options);
}

LinePool::~LinePool() {
  if (bytes_read_ == 0) return;
  LogInfo("agent", "{} bytes that several ranks needed were read once from the store, and shown as {}", bytes_read_,
          bytes_shown_);
}

std::shared_ptr<LineReader> LinePool::Join(const std::vector<WantedObject>& objects) {
  auto reader = std::make_shared<LineReader>(shared_from_this());
  for (const WantedObject& wanted : objects) {
    Object& object = objects_[wanted.key];
    if (object.source == nullptr) object.source = std::make_shared<Source>(wanted.key);
    ++object.readers;
    LineReader::Need need{&object, {}};
    for (const LineRun& run : wanted.lines) {
      const uint64_t end = run.first + run.lines;
      if (need.lines.size() < end) need.lines.resize(end);
      if (object.wanted.size() < end) object.wanted.resize(end);
      for (uint64_t line = run.first; line < end; ++line) {
        if (!need.lines[line]) ++object.wanted[line];
        need.lines[line] = true;
      }
    }
    reader->needs_.push_back(std::move(need));
  }
  readers_.insert(reader.get());
  return reader;
}

void LinePool::Stop() {
  is_stopped_ = true;
  starving_.clear();
}

void LinePool::Leave(LineReader& reader) {
  readers_.erase(&reader);
  reader.ForgetAll();
  std::erase_if(starving_, [&](const Request& request) { return request.reader == &reader; });
  for (LineReader::Need& need : reader.needs_) {
    if (--need.object->readers == 0) EndSharing(*need.object);
  }
  ServeStarving();
}

bool LinePool::MayShare(Object& object) {
  if (object.cannot_be_read || is_stopped_) return false;
  // Much of what the last reader needs may be here.
  if (object.is_shared) return true;
  if (object.readers < 2 || has_no_memory_ || shared_objects_ >= options_.lines / 2) return false;
  if (!memory_.valid()) {
    auto made = os::SharedMapping::CreateSealed("kedge-lines", kSharedLinesBytes);
    has_no_memory_ = !made.ok();
    if (!made.ok()) return false;
    memory_ = std::move(*made);
    lines_.resize(options_.lines);
  }
  ++shared_objects_;
  return object.is_shared = true;
}

void LinePool::EndSharing(Object& object) {
  if (std::exchange(object.is_shared, false)) --shared_objects_;
}

LinePool::Line* LinePool::Find(const Object& object, uint64_t index) {
  const auto found = std::ranges::find_if(
      lines_, [&](const Line& line) { return line.state != State::kEmpty && line.object == &object && line.index == index; });
  return found == lines_.end() ? nullptr : &*found;
}

LinePool::Line* LinePool::FindFree() {
  Line* oldest = nullptr;
  for (Line& line : lines_) {
    if (line.state == State::kEmpty) return &line;
    const bool is_needed = line.state == State::kReading || line.object->wanted[line.index] > 0;
    if (!is_needed && (oldest == nullptr || line.used < oldest->used)) oldest = &line;
  }
  return oldest;
}

bool LinePool::Answer(Object& object, uint64_t index, const Done& done) {
  Line* const line = Find(object, index);
  if (line == nullptr) return false;
  line->used = ++moment_;
  if (line->state == State::kReading) {
    line->waiting.push_back(done);
    return true;
  }
  bytes_shown_ += line->bytes;
  done(ReadLineReply{true, false, PlaceOf(*line), line->sequence, line->bytes});
  return true;
}

void LinePool::Read(const LineReader& reader, Object& object, uint64_t index, const Done& done) {
  if (!MayShare(object)) return done(ReadLineReply{.is_alone = true});
  if (!Answer(object, index, done)) {
    // It was left behind, or needs the line once more.
    if (!reader.Needs(object, index)) return done(ReadLineReply{});
    starving_.push_back({&reader, &object, index, ++last_request_, done});
    ServeStarving();
  }
  ReadAhead(object, index);
}

void LinePool::ReadAhead(Object& object, uint64_t index) {
  // Half of the lines are for what is asked for.
  const uint32_t ahead_max = std::min(kLinesAheadMax, options_.lines / 2 / std::max(shared_objects_, 1u));
  const uint64_t end = std::min<uint64_t>(object.wanted.size(), index + 1 + kLinesLookedAtMax);
  uint32_t ahead = 0;
  for (uint64_t next = index + 1; next < end && ahead < ahead_max; ++next) {
    if (object.wanted[next] == 0) continue;
    ++ahead;
    if (Find(object, next) != nullptr) continue;
    Line* const line = starving_.empty() ? FindFree() : nullptr;
    if (line == nullptr) return;
    Begin(*line, object, next);
  }
}

void LinePool::Begin(Line& line, Object& object, uint64_t index) {
  const uint32_t place = PlaceOf(line);
  line = Line{};
  line.state = State::kReading;
  line.object = &object;
  line.index = index;
  line.used = ++moment_;
  // Before anything is written over it.
  SharedLineSequence(memory_.data(), place).exchange(0, std::memory_order_acq_rel);
  means_.work([self = shared_from_this(), place, source = object.source, index] {
    Result<uint32_t> bytes = self->Fetch(place, *source, index);
    self->means_.post([self, place, bytes = std::move(bytes)] { self->OnRead(place, bytes); });
  });
}

Result<uint32_t> LinePool::Fetch(uint32_t place, Source& source, uint64_t index) const {
  KEDGE_ASSIGN_OR_RETURN(ObjectReader* const reader, source.Open(means_));
  const uint64_t begin = index * kSharedLineBytes;
  if (begin >= reader->size_bytes()) return Status(Code::kCorrupt, fmt::format("{} ends before byte {}", source.key, begin));
  const auto bytes = static_cast<uint32_t>(std::min(kSharedLineBytes, reader->size_bytes() - begin));
  os::KillPoint("shared-line");
  KEDGE_RETURN_IF_ERROR(reader->ReadJust(begin, {SharedLine(memory_.data(), place), bytes}));
  return bytes;
}

void LinePool::OnRead(uint32_t place, const Result<uint32_t>& bytes) {
  Line& line = lines_[place];
  const std::vector<Done> waiting = std::exchange(line.waiting, {});
  if (bytes.ok()) {
    line.state = State::kReady;
    line.bytes = *bytes;
    line.sequence = ++last_sequence_;
    SharedLineSequence(memory_.data(), place).store(line.sequence, std::memory_order_release);
    bytes_read_ += line.bytes;
    bytes_shown_ += line.bytes * waiting.size();
  } else {
    LogWarning("agent", "{}: its ranks read it by themselves: {}", line.object->source->key, bytes.status().ToString());
    line.object->cannot_be_read = true;
    EndSharing(*line.object);
    line.state = State::kEmpty;
  }
  ReadLineReply reply{true, false, place, line.sequence, line.bytes};
  if (!bytes.ok()) reply = ReadLineReply{.is_alone = true};
  for (const Done& done : waiting) done(reply);
  ServeStarving();
}

void LinePool::ServeStarving() {
  while (!starving_.empty()) {
    const Request& first = starving_.front();
    if (!first.object->is_shared) {
      first.done(ReadLineReply{.is_alone = true});
    } else if (!Answer(*first.object, first.index, first.done)) {
      Line* const line = FindFree();
      if (line == nullptr) break;
      Begin(*line, *first.object, first.index);
      line->waiting.push_back(first.done);
    }
    starving_.pop_front();
  }
  if (starving_.empty() || std::exchange(is_patient_, true)) return;
  means_.later(options_.patience, [weak = weak_from_this(), number = starving_.front().number] {
    if (const auto self = weak.lock()) self->OnPatience(number);
  });
}

void LinePool::OnPatience(uint64_t number) {
  is_patient_ = false;
  if (starving_.empty()) return;
  Line* oldest = nullptr;
  for (Line& line : lines_) {
    if (line.state == State::kReady && (oldest == nullptr || line.used < oldest->used)) oldest = &line;
  }
  if (starving_.front().number == number && oldest != nullptr) {
    for (LineReader* reader : readers_) {
      if (reader->Needs(*oldest->object, oldest->index)) reader->ForgetAll();
    }
  }
  ServeStarving();
}

bool LineReader::Needs(const LinePool::Object& object, uint64_t line) const {
  return std::ranges::any_of(needs_, [&](const Need& need) { return need.object == &object && Needs(need, line); });
}

void LineReader::Forget(Need& need, uint64_t line) {
  if (!Needs(need, line)) return;
  need.lines[line] = false;
  --need.object->wanted[line];
}

void LineReader::ForgetAll() {
  for (Need& need : needs_) {
    for (uint64_t line = 0; line < need.lines.size(); ++line) Forget(need, line);
  }
}

void LineReader::HasTaken(const std::vector<SharedLineName>& lines) {
  for (const SharedLineName& name : lines) {
    if (name.object < needs_.size()) Forget(needs_[name.object], name.line);
  }
  pool_->ServeStarving();
}

void LineReader::Read(const SharedLineName& line, const LinePool::Done& done) {
  if (line.object >= needs_.size()) return done(Status(Code::kInvalidArgument, "there is no such object"));
  pool_->Read(*this, *needs_[line.object].object, line.line, done);
}

}  // namespace kedge
