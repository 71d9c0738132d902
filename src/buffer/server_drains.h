// Which of the owners' stores are drained to where, and when: what clients say with kDrainTo, held against what the operator
// allows, noted in the owner's folder, and done step by step (drain.h) by threads of their own.
//
// A store is looked at when the server starts, when its clients first say where it is drained to, when a version record was put
// into it, after what has failed, and while a partner is waited for, which has the same. At most one thread works on a store.
// What is of no use any more the server's own removals take, which count it.
//
// The event loop's thread owns what is here.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "buffer/drain.h"
#include "buffer/server_core.h"
#include "buffer/server_stores.h"
#include "burst/store_messages.h"

namespace kedge::buffer {

class ServerDrains {
 public:
  // Both outlive it.
  ServerDrains(ServerCore& core, ServerStores& stores) : core_(core), stores_(stores) {}

  // Goes on with what was noted. kInvalidArgument: a place that the options allow is none, or its owner is not there.
  Status Start(std::map<std::string, Owner>& owners);
  void OnDrainTo(Owner& owner, const StoreRequest& request, net::Answer answer);
  // A version record was put into it.
  void OnVersion(Owner& owner, const std::string& store);
  // Waits for the steps that are done now. Not while the loop runs.
  void Stop();
  // Of an owner's stores that are drained, for operators.
  Json Describe(const Owner& owner) const;

 private:
  using Key = std::pair<std::string, std::string>;  // an owner's name, and which of its stores
  struct Drained {
    Owner* owner = nullptr;
    std::string target;                 // as its clients name it
    std::shared_ptr<StoreDrain> drain;  // null: the operator does not allow it any more
    bool has_partner = false;           // a program has said so since the start
    bool runs = false;
    bool again = false;  // something has come since it began
    os::EventLoop::TimerId timer = 0;
    DrainReport last;
    uint64_t drained_versions = 0;  // since the start
    uint64_t drained_bytes = 0;
    double bytes_per_second = 0;  // of the last version
  };

  Result<std::string> Allowed(const Owner& owner, const std::string& target) const;
  void Begin(Owner& owner, const std::string& store, const std::string& target, bool has_partner);
  void Run(const Key& key);
  void OnReport(const Key& key, const DrainReport& report);
  void RemoveThen(const Key& key, const DrainReport& report);
  void EndRun(const Key& key);
  void Reply(const net::Answer& answer, const Status& status) const;

  ServerCore& core_;
  ServerStores& stores_;
  std::map<std::string, std::vector<std::string>> places_;  // allowed, by owner
  std::map<Key, Drained> drained_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Workers> workers_;  // goes first
};

}  // namespace kedge::buffer
