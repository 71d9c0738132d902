// Networks of several nodes in one process, for tests: opened, joined into one job, and asked with bounded waits.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/network.h"

namespace kedge::net::testing {

inline constexpr const char* kJob = "store/heat";
// Of what ends by itself, with a provider that has threads of its own on a busy machine.
inline constexpr Duration kPatience = std::chrono::seconds(150);

inline NetworkOptions TestOptions(const std::string& provider) {
  NetworkOptions options;
  options.provider = provider;
  options.interface_address = provider == "shm" ? "" : "127.0.0.1";
  options.connect_timeout = std::chrono::seconds(20);
  return options;
}

inline std::unique_ptr<Network> OpenNetwork(NetworkOptions options) {
  SetFabricDefaults();
  auto network = Network::Open(std::move(options));
  EXPECT_TRUE(network.ok()) << network.status().ToString();
  return network.ok() ? std::move(network).value() : nullptr;
}

inline Buffer Bytes(std::string_view text) {
  const ByteSpan bytes = AsBytes(text);
  return Buffer(bytes.begin(), bytes.end());
}

// Asks and waits; a wait that never ends fails the test.
inline Result<Buffer> Ask(Network* network, const Peer& peer, uint16_t kind, Buffer body, Duration timeout = kPatience) {
  auto promise = std::make_shared<std::promise<Result<Buffer>>>();
  auto reply = promise->get_future();
  network->Call(peer, kind, std::move(body), timeout, [promise](Result<Buffer> got) { promise->set_value(std::move(got)); });
  if (reply.wait_for(timeout + std::chrono::seconds(30)) != std::future_status::ready) {
    ADD_FAILURE() << "the call to " << peer.node << " never ended";
    return Status(Code::kInternal, "never ended");
  }
  return reply.get();
}

inline std::future<Result<ReadBuffer>> BeginRead(Network* network, const Peer& peer, const RemoteMemory& memory, uint64_t offset,
                                                 size_t bytes, Duration timeout = kPatience) {
  auto promise = std::make_shared<std::promise<Result<ReadBuffer>>>();
  auto future = promise->get_future();
  network->Read(peer, memory, offset, bytes, timeout, [promise](Result<ReadBuffer> got) { promise->set_value(std::move(got)); });
  return future;
}

inline Result<ReadBuffer> Fetch(Network* network, const Peer& peer, const RemoteMemory& memory, uint64_t offset, size_t bytes,
                                Duration timeout = kPatience) {
  auto future = BeginRead(network, peer, memory, offset, bytes, timeout);
  if (future.wait_for(timeout + std::chrono::seconds(30)) != std::future_status::ready) {
    ADD_FAILURE() << "the read from " << peer.node << " never ended";
    return Status(Code::kInternal, "never ended");
  }
  return future.get();
}

// Whether it comes to hold.
inline bool Eventually(const std::function<bool()>& holds) {
  const Deadline deadline(SystemClock(), kPatience);
  while (!holds() && !deadline.Passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return holds();
}

// The job, as `self` knows it.
inline Membership MakeMembership(const std::string& self, std::vector<Member> members, const Secret& secret,
                                 uint32_t attempt = 1) {
  Membership membership;
  membership.job = kJob;
  membership.attempt = attempt;
  membership.self = self;
  membership.secret = secret;
  membership.members = std::move(members);
  return membership;
}
// A job over `names`, on networks that are given.
inline Membership MakeMembership(const std::vector<std::string>& names, const std::vector<std::unique_ptr<Network>>& networks,
                                 size_t self, const Secret& secret, uint32_t attempt = 1) {
  std::vector<Member> members;
  for (size_t i = 0; i < names.size(); ++i) members.push_back({names[i], networks[i]->address()});
  return MakeMembership(names[self], std::move(members), secret, attempt);
}

// Nodes n0, n1, ... of one job, each with an echo at kind 1.
class Nodes {
 public:
  Nodes(size_t count, const NetworkOptions& options) {
    for (size_t i = 0; i < count; ++i) {
      names_.push_back("n" + std::to_string(i));
      networks_.push_back(OpenNetwork(options));
    }
    for (size_t i = 0; i < count; ++i) Start(i);
  }

  void Start(size_t i) {
    networks_[i]->Serve(1, [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });
    const Status joined = networks_[i]->Join(MakeMembership(names_, networks_, i, secret_, attempt_));
    EXPECT_TRUE(joined.ok()) << joined.ToString();
  }
  // The node leaves, and a new network binds its address.
  void Restart(size_t i, NetworkOptions options) {
    options.former_address = networks_[i]->address();
    networks_[i].reset();
    networks_[i] = OpenNetwork(std::move(options));
    if (networks_[i]) Start(i);
  }

  Network* operator[](size_t i) { return networks_[i].get(); }
  Peer peer(size_t i) const { return {kJob, names_[i]}; }
  const Secret& secret() const { return secret_; }
  std::vector<std::unique_ptr<Network>>& networks() { return networks_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const Secret secret_ = Secret::Generate();
  const uint32_t attempt_ = 1;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Network>> networks_;
};

}  // namespace kedge::net::testing
