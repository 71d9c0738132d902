// One provider of libfabric, opened: what all endpoints of a network share. Only this layer sees libfabric.
//
// We ask for reliable datagrams with messages and remote reads, give every provider the memory registration that it wants
// (mr_mode), and sleep on descriptors where the provider has them; nothing here names a provider. FI_THREAD_SAFE is asked
// for because the reliable datagrams of libfabric over `tcp` (1.17) notice a peer's end only with that: otherwise connections
// are looked after in reads of the completion queue alone, and a broken one is never made again.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/address.h"

namespace kedge::net {

// A status for a failed libfabric call; `code` is what it returned (negative) or an error entry's err (positive).
Status FabricError(int64_t code, const std::string& what);

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    if (object != nullptr) fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

// What providers ask of whoever registers memory.
class Registration {
 public:
  Registration() = default;
  Registration(Fid<fid_mr> memory, uint64_t address) : memory_(std::move(memory)), address_(address) {}
  // For local operations; null where none is needed.
  void* descriptor() const { return memory_ ? fi_mr_desc(memory_.get()) : nullptr; }
  uint64_t key() const { return fi_mr_key(memory_.get()); }
  // What a reader names for the first byte.
  uint64_t address() const { return address_; }

 private:
  Fid<fid_mr> memory_;
  uint64_t address_ = 0;
};

// A completion: of the operation whose context is `context`.
struct Completion {
  void* context = nullptr;
  size_t bytes = 0;
  Status status;
};

// An endpoint with its address vector and completion queue. Closing it ends all its operations: none touches its memory
// after. One thread at a time.
class Endpoint {
 public:
  Endpoint(Fid<fid_av> addresses, Fid<fid_cq> completions, Fid<fid_ep> endpoint, int descriptor);
  ~Endpoint();

  // Up to `completions.size()` of them; 0: none now. The error of the queue itself.
  Result<size_t> Poll(std::span<Completion> completions);
  // A number for a peer's address, for sends and reads.
  Result<fi_addr_t> Insert(const NodeAddress& address);

  fid_ep* get() const { return endpoint_.get(); }
  fid_cq* completions() const { return completions_.get(); }
  // Readable when there may be completions; -1: the provider has no such thing, and must be asked.
  int descriptor() const { return descriptor_; }

 private:
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  Fid<fid_ep> endpoint_;  // goes first
  int descriptor_;
};

struct FreeInfo {
  void operator()(fi_info* info) const;
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

class Fabric {
 public:
  // `interface_address`: host or address to be reached at, empty: the provider's first. `former`: an address to bind again,
  // with the port; empty: any.
  static Result<std::unique_ptr<Fabric>> Open(const std::string& provider, const std::string& interface_address,
                                              const NodeAddress& former);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The endpoint that others reach; its address is then address(). Where it listens at a TCP port it takes one that no outgoing
  // connection gets, so that a successor finds it free.
  Result<std::unique_ptr<Endpoint>> OpenServing();
  // One to send and read from, at an address of its own.
  Result<std::unique_ptr<Endpoint>> OpenSending();
  const NodeAddress& address() const { return address_; }

  // Lets others read `memory` through `serving`. Thread safe.
  Result<Registration> RegisterRemote(std::span<const std::byte> memory, Endpoint* serving);
  // For operations of our own into or from `memory`; without a registration where the provider needs none.
  Result<Registration> RegisterLocal(std::span<std::byte> memory);

  // Whether a thread may sleep until one of the endpoints has completions.
  bool MaySleep(std::span<Endpoint* const> endpoints);
  const std::string& provider() const { return provider_; }

 private:
  Fabric() = default;
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(fi_info* info);
  Result<std::unique_ptr<Endpoint>> OpenAtLastingPort();

  std::string provider_;
  bool opens_former_ = false;
  NodeAddress address_;
  Info serving_info_;
  Info sending_info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
};

}  // namespace kedge::net
