// One node of a job as a process of its own, for tests that kill, stop or cut it off.
//
//   net_peer NAME SECRET MEMBERS ROLE [TARGET] [--address FORMER] [--listen HOST] [--silence SECONDS] [--lease SECONDS] [--mib N]
//            [--reuse 1] [--stall SECONDS]
//
// Prints "address TEXT", waits until the file MEMBERS is there (lines "name address"), joins, prints "joined" and serves: kind 1
// echoes; kind 2 leases 64 MiB (or N) whose bytes follow from their offset, for two seconds, and prints "lease ended, N have
// expired" when it does; with "--reuse 1" each lease has memory of its own, which holds other bytes from then on. ROLE "serve" is
// all of that. ROLE "read" in addition takes a lease of TARGET again and again and reads all of it, checks each byte, and prints
// "round N ok" or "round N failed: WHY"; with "--stall SECONDS" it prints "leased", and waits so long before it reads.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include "base/clock.h"
#include "net/network.h"

namespace {

using namespace std::chrono_literals;
using namespace kedge;
using namespace kedge::net;

constexpr const char* kJob = "job";
constexpr Duration kReadTimeout = 3s;

std::byte ByteAt(uint64_t offset) {
  return static_cast<std::byte>(offset * 2654435761U >> 13);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

template <typename T>
Result<T> Wait(std::future<Result<T>> future) {
  if (future.wait_for(60s) != std::future_status::ready) return Status(Code::kInternal, "a call that never ended");
  return future.get();
}

Result<RemoteMemory> TakeLease(Network* network, const Peer& peer) {
  auto promise = std::make_shared<std::promise<Result<Buffer>>>();
  network->Call(peer, 2, {}, kReadTimeout, [promise](Result<Buffer> got) { promise->set_value(std::move(got)); });
  KEDGE_ASSIGN_OR_RETURN(const Buffer reply, Wait(promise->get_future()));
  Decoder in(reply);
  const RemoteMemory memory = DecodeRemoteMemory(&in);
  KEDGE_RETURN_IF_ERROR(in.Finish("lease"));
  return memory;
}

Status ReadAll(Network* network, const Peer& peer, std::chrono::seconds stall) {
  KEDGE_ASSIGN_OR_RETURN(const RemoteMemory memory, TakeLease(network, peer));
  if (stall > 0s) Say("leased");
  std::this_thread::sleep_for(stall);
  std::vector<std::future<Result<ReadBuffer>>> reads;
  for (uint64_t at = 0; at < memory.bytes; at += kReadBytesMax) {
    auto promise = std::make_shared<std::promise<Result<ReadBuffer>>>();
    reads.push_back(promise->get_future());
    network->Read(peer, memory, at, kReadBytesMax, kReadTimeout,
                  [promise](Result<ReadBuffer> got) { promise->set_value(std::move(got)); });
  }
  Status status;
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto read = Wait(std::move(reads[i]));
    if (!read.ok()) {
      if (status.ok()) status = read.status();
      continue;
    }
    for (size_t at = 0; at < read->bytes().size(); ++at) {
      if (read->bytes()[at] != ByteAt(i * kReadBytesMax + at)) return Status(Code::kCorrupt, "WRONG BYTES");
    }
  }
  network->EndLease(peer, memory);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  std::map<std::string, std::string> settings;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) == 0 && i + 1 < argc) {
      settings[argv[i]] = argv[i + 1];
      ++i;
    } else {
      words.emplace_back(argv[i]);
    }
  }
  if (words.size() < 4) return 2;

  NetworkOptions options;
  options.interface_address = settings.contains("--listen") ? settings["--listen"] : "127.0.0.1";
  if (settings.contains("--address"))
    options.former_address = NodeAddress::FromText(settings["--address"]).value_or(NodeAddress{});
  options.heartbeat_interval = 500ms;
  if (settings.contains("--silence")) options.silence_timeout = std::chrono::seconds(std::stoi(settings["--silence"]));
  options.connect_timeout = 3s;
  auto network = Network::Open(options);
  if (!network.ok()) {
    Say("cannot open: " + network.status().ToString());
    return 1;
  }
  Say("address " + (*network)->address().ToText());

  const auto number = [&](const std::string& name, int otherwise) {
    return settings.contains(name) ? std::stoi(settings[name]) : otherwise;
  };
  static std::vector<std::byte> memory(static_cast<size_t>(number("--mib", 64)) << 20);
  const Duration lease_duration = std::chrono::seconds(number("--lease", 2));
  for (size_t at = 0; at < memory.size(); ++at) memory[at] = ByteAt(at);
  const bool reuse = number("--reuse", 0) != 0;
  const std::chrono::seconds stall(number("--stall", 0));
  Network* const net = network->get();
  net->Serve(1, [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });
  net->Serve(2, [net, lease_duration, reuse](const Peer& peer, ByteSpan, const Answer& answer) {
    auto leased = reuse ? std::make_shared<std::vector<std::byte>>(memory) : nullptr;
    const auto lease = net->Lease(peer.job, reuse ? *leased : memory, lease_duration, [net, leased] {
      if (leased) std::memset(leased->data(), 0xff, leased->size());
      Say("lease ended, " + std::to_string(net->Counters().leases_expired) + " have expired");
      static std::vector<std::shared_ptr<std::vector<std::byte>>> reused;  // the memory stays
      reused.push_back(leased);
    });
    if (!lease.ok()) return answer(lease.status());
    Buffer reply;
    {
      Encoder out(reply);
      EncodeRemoteMemory(*lease, &out);
    }
    answer(std::move(reply));
  });

  Membership membership;
  membership.job = kJob;
  membership.attempt = 1;
  membership.self = words[0];
  membership.secret = *Secret::FromHex(words[1]);
  const Deadline members_deadline(SystemClock(), 60s);
  while (access(words[2].c_str(), R_OK) != 0) {
    if (members_deadline.Passed()) return 1;
    std::this_thread::sleep_for(5ms);
  }
  std::ifstream members(words[2]);
  for (std::string name, address; members >> name >> address;)
    membership.members.push_back({name, NodeAddress::FromText(address).value_or(NodeAddress{})});
  const Status joined = net->Join(membership);
  Say(joined.ok() ? "joined" : "cannot join: " + joined.ToString());

  for (int round = 0;; ++round) {
    if (words[3] == "read") {
      const Status done = ReadAll(net, {kJob, words.at(4)}, stall);
      Say("round " + std::to_string(round) + (done.ok() ? " ok" : " failed: " + done.ToString()));
      if (done.ok()) continue;
    }
    std::this_thread::sleep_for(50ms);
  }
}
