// Objects of a far store that other ranks of this node read at the same time: what several need, the agent reads once and shows
// to all (session/shared_lines.h).
//
// A rank says what it needs when it opens its image, before the ranks agree to read. Where a line is not to be had that way, or
// the agent is gone, the rank reads from the store as though it were alone. What is read is not checked here: whoever reads
// images holds it against the sums of capture, and has the store as its next source.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/core/core.h"
#include "client/session/agent_session.h"
#include "os/memory/mapping.h"
#include "session/shared_lines.h"
#include "store/versions.h"

namespace kedge::client {

// Thread safe.
class SharedObjects : public std::enable_shared_from_this<SharedObjects> {
 public:
  // Null: the rank reads by itself. Either nothing of the image may be others' too, or its store is near, or there is no agent.
  static std::shared_ptr<SharedObjects> Make(Core* core, AgentSession* session, const StoredImage& image);
  ~SharedObjects();

  // The store's object, read through the agent where that is worth it.
  Result<std::unique_ptr<ObjectReader>> Open(const std::string& key);

 private:
  static constexpr uint64_t kGrainBytes = 4096;
  static constexpr uint64_t kGrains = kSharedLineBytes / kGrainBytes;
  class Reader;
  struct Object {
    uint32_t number = 0;  // at the agent
    // By line: what of it the image has and was not read yet.
    std::vector<std::bitset<kGrains>> needed;
    bool is_alone = false;  // others do not need it any more
  };
  struct Held {
    const Object* object = nullptr;
    uint64_t line = 0;
    uint64_t sequence = 0;
    uint32_t bytes = 0;
  };

  SharedObjects(Store& store, std::map<std::string, Object> objects) : store_(store), objects_(std::move(objects)) {}
  static std::map<std::string, Object> NeededOf(const StoredImage& image);
  static bool IsWorthIt(const Object& object);
  // Through the agent. False: the rank is to read this by itself; the rest of the object as well, where it is alone.
  bool Take(Object& object, uint64_t line, uint64_t within, std::span<std::byte> out);
  bool IsAlone(const Object& object);
  Held* Find(const Object& object, uint64_t line);
  Held* Ask(Object& object, uint64_t line);
  void NoteTaken(Object& object, uint64_t line, uint64_t begin, uint64_t end);

  Store& store_;
  std::shared_ptr<Connection> connection_;
  uint64_t image_ = 0;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Object> objects_;
  os::SharedMapping memory_;
  std::array<Held, kSharedLines> held_{};  // by place
  bool has_no_agent_ = false;
};

}  // namespace kedge::client
