// Bytes of objects in a far store that several ranks of this node need for a restart: read once, and shown to all of them in
// memory that they map (session/shared_lines.h).
//
// Each rank says first which lines of which objects it needs. A line is read when the first rank asks for it, or a little ahead
// of one, and stays until all that need it have said that they have it: so a rank that is ahead waits for the others once the
// memory is full. It waits no longer than `patience`; then the line that was used least lately is given up, and whoever still
// needed it is left behind: nothing is kept for it any more, and what it does not find here it reads by itself. An object that
// one rank alone needs, or that cannot be read here, its ranks read by themselves.
//
// All calls on one thread; what blocks is done on others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "os/memory/mapping.h"
#include "session/messages.h"
#include "session/shared_lines.h"
#include "store/store.h"

namespace kedge {

struct LinePoolMeans {
  std::function<Result<std::unique_ptr<ObjectReader>>(const std::string& key)> open;  // on any thread
  std::function<void(std::function<void()>)> work;                                    // on a thread that may block
  std::function<void(std::function<void()>)> post;                                    // on the pool's; from any
  std::function<void(Duration, std::function<void()>)> later;                         // on the pool's
};
struct LinePoolOptions {
  uint32_t lines = kSharedLines;  // at most that many; half as many objects are shared at a time
  Duration patience = std::chrono::seconds(2);
};

class LineReader;

class LinePool : public std::enable_shared_from_this<LinePool> {
 public:
  static std::shared_ptr<LinePool> Make(LinePoolMeans means, LinePoolOptions options = {});
  LinePool(LinePoolMeans means, LinePoolOptions options) : means_(std::move(means)), options_(options) {}
  ~LinePool();

  // A rank that is about to read these lines. Nobody waits for it any more when it goes.
  std::shared_ptr<LineReader> Join(const std::vector<WantedObject>& objects);
  // Nothing more is read. Who has joined may leave later.
  void Stop();
  // -1: nothing was shared yet.
  int descriptor() const { return memory_.descriptor(); }

 private:
  friend class LineReader;
  using Done = std::function<void(const Result<ReadLineReply>&)>;
  // What is read of an object; of the threads that block.
  struct Source;
  struct Object {
    std::shared_ptr<Source> source;
    uint32_t readers = 0;
    std::vector<uint32_t> wanted;  // by line: by how many readers
    bool is_shared = false;
    bool cannot_be_read = false;
  };
  enum class State { kEmpty, kReading, kReady };
  struct Line {
    State state = State::kEmpty;
    Object* object = nullptr;
    uint64_t index = 0;
    uint64_t sequence = 0;
    uint64_t used = 0;  // by moment_
    uint32_t bytes = 0;
    std::vector<Done> waiting;
  };
  struct Request {
    const LineReader* reader;
    Object* object;
    uint64_t index;
    uint64_t number;
    Done done;
  };

  bool MayShare(Object& object);
  void EndSharing(Object& object);
  Line* Find(const Object& object, uint64_t index);
  // One that nobody needs; null: there is none.
  Line* FindFree();
  void Read(const LineReader& reader, Object& object, uint64_t index, const Done& done);
  // Whether the line is here, or on its way.
  bool Answer(Object& object, uint64_t index, const Done& done);
  void ReadAhead(Object& object, uint64_t index);
  void Begin(Line& line, Object& object, uint64_t index);
  Result<uint32_t> Fetch(uint32_t place, Source& source, uint64_t index) const;
  void OnRead(uint32_t place, const Result<uint32_t>& bytes);
  void ServeStarving();
  void OnPatience(uint64_t number);
  void Leave(LineReader& reader);
  uint32_t PlaceOf(const Line& line) const { return static_cast<uint32_t>(&line - lines_.data()); }

  const LinePoolMeans means_;
  const LinePoolOptions options_;
  os::SharedMapping memory_;
  bool has_no_memory_ = false;
  bool is_stopped_ = false;
  std::map<std::string, Object> objects_;  // by key; they stay
  std::vector<Line> lines_;
  std::set<LineReader*> readers_;
  std::deque<Request> starving_;  // no line is free for them
  bool is_patient_ = false;       // OnPatience will be called
  uint32_t shared_objects_ = 0;
  uint64_t moment_ = 0;
  uint64_t last_request_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t bytes_shown_ = 0;
};

// What one rank needs.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<LinePool> pool) : pool_(std::move(pool)) {}
  ~LineReader() { pool_->Leave(*this); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The rank has these. Some may be none that it needs.
  void HasTaken(const std::vector<SharedLineName>& lines);
  // `done` is called once, at once or when it is here. kInvalidArgument: there is no such object.
  void Read(const SharedLineName& line, const LinePool::Done& done);
  int descriptor() const { return pool_->descriptor(); }
  // Whether it was told of the memory: at most once.
  bool TellOfMemory() { return descriptor() >= 0 && !std::exchange(was_told_, true); }

 private:
  friend class LinePool;
  struct Need {
    LinePool::Object* object;
    std::vector<bool> lines;
  };
  static bool Needs(const Need& need, uint64_t line) { return line < need.lines.size() && need.lines[line]; }
  bool Needs(const LinePool::Object& object, uint64_t line) const;
  static void Forget(Need& need, uint64_t line);
  void ForgetAll();

  const std::shared_ptr<LinePool> pool_;
  std::vector<Need> needs_;
  bool was_told_ = false;
};

}  // namespace kedge
