#include "net/fabric.h"

#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/random.h"
#include "net/fabric_library.h"
#include "net/frame.h"
#include "net/network.h"
#include "os/sockets/tcp_ports.h"

namespace kedge::net {
namespace {

constexpr uint32_t kApi = FI_VERSION(1, 17);
constexpr uint64_t kCapabilities = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;
// What we can do for a provider that wants it; one that does not leaves the bit out.
constexpr int kMemoryModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
constexpr size_t kQueueEntries = 1024;
constexpr size_t kSendingOperationsMax = 128;
constexpr size_t kServingReceivesMax = 256;
constexpr size_t kUnusedOperations = 16;
constexpr int kPortTries = 8;

// Reliable datagrams over connections (ofi_rxm) keep buffers for whatever comes to an endpoint, 4,096 of 16 KiB by default, taken
// from chunks of 1,024 that are cleared whole: 40 ms of processor time an endpoint, where one chunk of buffers that hold a frame
// takes a few. And they look after connections every 10 ms, and until then an event of one keeps whoever sleeps on descriptors
// awake: three times for each connection. Others do not read these. Ends whose buffers differ in size do not connect.
//
// tcp reads ahead 9,000 bytes of a connection, and goes on for as long as that ends in the middle of a message and more is there:
// a connection that is flooded takes all receive buffers each time, and others' messages lie in the kernel. Without reading ahead
// it takes one message of each connection in turn.
struct FabricSetting {
  const char* name;
  const char* value;
};
constexpr FabricSetting kFabricSettings[] = {{"FI_OFI_RXM_MSG_RX_SIZE", "256"},
                                             {"FI_OFI_RXM_BUFFER_SIZE", "2304"},
                                             {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "100"},
                                             {"FI_TCP_PREFETCH_RBUF_SIZE", "0"}};
static_assert(kFrameBytesMax + 256 <= 2304, "a frame and the provider's header fit a buffer");

// Nothing of a network is there before it is.
const FabricLibrary& Loaded() {
  return **LoadFabric();
}

Info MakeHints(const std::string& provider) {
  Info hints(Loaded().dupinfo(nullptr));
  KEDGE_CHECK(hints != nullptr);
  hints->caps = kCapabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->mr_mode = kMemoryModes;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  return hints;
}

// The names of what can be asked for here, for a person whose configuration names something else.
std::string KnownProviders() {
  Info hints = MakeHints("");
  free(hints->fabric_attr->prov_name);
  hints->fabric_attr->prov_name = nullptr;
  fi_info* found = nullptr;
  if (Loaded().getinfo(kApi, nullptr, nullptr, 0, hints.get(), &found) != 0) return "none";
  const Info owner(found);
  std::set<std::string> names;
  for (const fi_info* info = found; info != nullptr; info = info->next) names.insert(info->fabric_attr->prov_name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<Info> GetInfo(const std::string& host, fi_info* hints, const std::string& provider) {
  fi_info* found = nullptr;
  const int code =
      Loaded().getinfo(kApi, host.empty() ? nullptr : host.c_str(), nullptr, host.empty() ? 0 : FI_SOURCE, hints, &found);
  if (code == -FI_ENODATA) {
    return Status(Code::kUnsupported,
                  fmt::format("libfabric provider {}{}: there is none here with reliable datagrams and remote reads; it has: {}",
                              provider, host.empty() ? "" : " at " + host, KnownProviders()));
  }
  if (code != 0)
    return FabricError(code, fmt::format("fi_getinfo for provider {}{}", provider, host.empty() ? "" : " at " + host));
  return Info(found);
}

void SetSource(fi_info* info, const std::string& address) {
  free(info->src_addr);
  info->src_addr = malloc(address.size());
  KEDGE_CHECK(info->src_addr != nullptr);
  std::memcpy(info->src_addr, address.data(), address.size());
  info->src_addrlen = address.size();
}

void LimitQueues(fi_info* info, size_t transmits, size_t receives) {
  info->tx_attr->size = std::min(info->tx_attr->size, transmits);
  info->rx_attr->size = std::min(info->rx_attr->size, receives);
}

}  // namespace

void FreeInfo::operator()(fi_info* info) const {
  Loaded().freeinfo(info);
}

Status FabricError(int64_t code, const std::string& what) {
  const int error = static_cast<int>(code < 0 ? -code : code);
  const char* text = Loaded().strerror(error);
  switch (error) {
    case FI_ENOMEM:
    case FI_ENOBUFS: return Status(Code::kNoSpace, fmt::format("{}: {}", what, text));
    case FI_EADDRINUSE:
    case FI_EADDRNOTAVAIL:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ECANCELED:
    case FI_EHOSTUNREACH:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT: return Status(Code::kUnavailable, fmt::format("{}: {}", what, text));
    default: return Status(Code::kIo, fmt::format("{}: {}", what, text));
  }
}

void SetFabricDefaults() {
  for (const FabricSetting& setting : kFabricSettings) setenv(setting.name, setting.value, /*overwrite=*/0);
}

Endpoint::Endpoint(Fid<fid_av> addresses, Fid<fid_cq> completions, Fid<fid_ep> endpoint, int descriptor)
    : addresses_(std::move(addresses)),
      completions_(std::move(completions)),
      endpoint_(std::move(endpoint)),
      descriptor_(descriptor) {}

Endpoint::~Endpoint() = default;

// tcp looks at errno also where a connection has ended before anything came over it, as those of Probe do. There it is what the
// call before has left: after EAGAIN tcp waits for more, and whoever sleeps on descriptors is kept awake for good.
Result<size_t> Endpoint::Poll(std::span<Completion> completions) {
  errno = 0;
  size_t count = 0;
  // Several at a time: with each question the provider takes in more, of which a flood has no end.
  std::array<fi_cq_msg_entry, 64> entries;
  while (count < completions.size()) {
    const ssize_t got = fi_cq_read(completions_.get(), entries.data(), std::min(entries.size(), completions.size() - count));
    for (ssize_t i = 0; i < got; ++i) {
      const fi_cq_msg_entry& entry = entries[static_cast<size_t>(i)];
      completions[count++] = {entry.op_context, entry.len, Status::Ok()};
    }
    if (got > 0) continue;
    if (got == -FI_EAGAIN || got == 0) break;
    if (got != -FI_EAVAIL) return FabricError(got, "fi_cq_read");
    fi_cq_err_entry error{};
    const ssize_t errors = fi_cq_readerr(completions_.get(), &error, 0);
    if (errors == -FI_EAGAIN) break;
    if (errors < 0) return FabricError(errors, "fi_cq_readerr");
    completions[count++] = {error.op_context, 0, FabricError(error.err, "libfabric")};
  }
  return count;
}

Result<fi_addr_t> Endpoint::Insert(const NodeAddress& address) {
  // Providers read as many bytes as their form of an address has.
  std::string padded = address.bytes;
  padded.resize(kAddressBytesMax, '\0');
  fi_addr_t number = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(addresses_.get(), padded.data(), 1, &number, 0, nullptr);
  if (inserted != 1)
    return Status(Code::kInvalidArgument, fmt::format("{} is no address that the provider takes", address.ToDisplay()));
  return number;
}

Fabric::~Fabric() = default;

Result<std::unique_ptr<Fabric>> Fabric::Open(const std::string& provider, const std::string& interface_address,
                                             const NodeAddress& former) {
  KEDGE_RETURN_IF_ERROR(LoadFabric().status());
  std::unique_ptr<Fabric> fabric(new Fabric());
  const Info hints = MakeHints(provider);
  KEDGE_ASSIGN_OR_RETURN(Info info, GetInfo(interface_address, hints.get(), provider));
  fabric->provider_ = info->fabric_attr->prov_name;
  if (!former.empty() && former.provider != fabric->provider_) {
    return Status(Code::kMismatch, fmt::format("the address {} is of provider {}, this is {}", former.ToDisplay(),
                                               former.provider, fabric->provider_));
  }
  fabric->sending_info_.reset(Loaded().dupinfo(info.get()));
  fabric->serving_info_.reset(Loaded().dupinfo(info.get()));
  // Providers fill buffers for as many operations as they offer, in thousands; we begin few at a time.
  LimitQueues(fabric->sending_info_.get(), kSendingOperationsMax, kUnusedOperations);
  LimitQueues(fabric->serving_info_.get(), kUnusedOperations, kServingReceivesMax);
  fabric->opens_former_ = !former.empty();
  if (fabric->opens_former_) SetSource(fabric->serving_info_.get(), former.bytes);
  fid_fabric* opened = nullptr;
  int code = Loaded().fabric(info->fabric_attr, &opened, nullptr);
  if (code != 0) return FabricError(code, "fi_fabric " + fabric->provider_);
  fabric->fabric_.reset(opened);
  fid_domain* domain = nullptr;
  code = fi_domain(opened, info.get(), &domain, nullptr);
  if (code != 0) return FabricError(code, "fi_domain " + fabric->provider_);
  fabric->domain_.reset(domain);
  return fabric;
}

Result<std::unique_ptr<Endpoint>> Fabric::OpenEndpoint(fi_info* info) {
  fi_av_attr av_attributes{};
  av_attributes.type = FI_AV_UNSPEC;
  fid_av* av = nullptr;
  int code = fi_av_open(domain_.get(), &av_attributes, &av, nullptr);
  if (code != 0) return FabricError(code, "fi_av_open");
  Fid<fid_av> addresses(av);

  fi_cq_attr cq_attributes{};
  cq_attributes.format = FI_CQ_FORMAT_MSG;
  cq_attributes.size = kQueueEntries;
  cq_attributes.wait_obj = FI_WAIT_FD;
  fid_cq* cq = nullptr;
  int descriptor = -1;
  code = fi_cq_open(domain_.get(), &cq_attributes, &cq, nullptr);
  if (code == 0 && fi_control(&cq->fid, FI_GETWAIT, &descriptor) != 0) descriptor = -1;
  if (code != 0) {
    cq_attributes.wait_obj = FI_WAIT_NONE;
    code = fi_cq_open(domain_.get(), &cq_attributes, &cq, nullptr);
  }
  if (code != 0) return FabricError(code, "fi_cq_open");
  Fid<fid_cq> completions(cq);

  fid_ep* ep = nullptr;
  code = fi_endpoint(domain_.get(), info, &ep, nullptr);
  if (code != 0) return FabricError(code, "fi_endpoint");
  Fid<fid_ep> endpoint(ep);
  code = fi_ep_bind(ep, &av->fid, 0);
  if (code == 0) code = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_enable(ep);
  if (code != 0) return FabricError(code, "enabling an endpoint");
  return std::make_unique<Endpoint>(std::move(addresses), std::move(completions), std::move(endpoint), descriptor);
}

Result<std::unique_ptr<Endpoint>> Fabric::OpenAtLastingPort() {
  fi_info* info = serving_info_.get();
  const auto ports = provider_.starts_with("tcp") ? os::LastingPorts() : std::nullopt;
  if (ports.has_value() && info->src_addr != nullptr) {
    const std::string any(static_cast<const char*>(info->src_addr), info->src_addrlen);
    Random random(Id128::Generate().low);
    for (int tries = 0; tries < kPortTries; ++tries) {
      const auto port = static_cast<uint16_t>(ports->first + random.Below(ports->last - ports->first + 1));
      const auto address = os::WithPort(any, port);
      if (!address.has_value()) break;
      SetSource(info, *address);
      auto endpoint = OpenEndpoint(info);
      if (endpoint.ok()) return endpoint;
    }
    SetSource(info, any);
  }
  return OpenEndpoint(info);
}

Result<std::unique_ptr<Endpoint>> Fabric::OpenServing() {
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint,
                         opens_former_ ? OpenEndpoint(serving_info_.get()) : OpenAtLastingPort());
  char name[kAddressBytesMax];
  size_t bytes = sizeof(name);
  const int code = fi_getname(&endpoint->get()->fid, name, &bytes);
  if (code != 0) return FabricError(code, "fi_getname");
  address_ = {provider_, std::string(name, bytes)};
  return endpoint;
}

Result<std::unique_ptr<Endpoint>> Fabric::OpenSending() {
  return OpenEndpoint(sending_info_.get());
}

Result<Registration> Fabric::RegisterRemote(std::span<const std::byte> memory, Endpoint* serving) {
  const int mode = serving_info_->domain_attr->mr_mode;
  fid_mr* registered = nullptr;
  // Where keys are ours to choose they are random: whoever was not told one does not guess it.
  uint64_t key = 0;
  FillFromKernel(&key, sizeof(key));
  const size_t key_bytes = serving_info_->domain_attr->mr_key_size;
  if (key_bytes < sizeof(key)) key &= (uint64_t{1} << (8 * key_bytes)) - 1;
  int code = fi_mr_reg(domain_.get(), memory.data(), memory.size(), FI_REMOTE_READ, 0, key, 0, &registered, nullptr);
  if (code != 0) return FabricError(code, fmt::format("registering {} bytes to be read", memory.size()));
  Fid<fid_mr> owner(registered);
  if ((mode & FI_MR_ENDPOINT) != 0) {
    code = fi_mr_bind(registered, &serving->get()->fid, 0);
    if (code == 0) code = fi_mr_enable(registered);
    if (code != 0) return FabricError(code, "binding a registration");
  }
  const uint64_t address = (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<uint64_t>(memory.data()) : 0;
  return Registration(std::move(owner), address);
}

Result<Registration> Fabric::RegisterLocal(std::span<std::byte> memory) {
  if ((serving_info_->domain_attr->mr_mode & FI_MR_LOCAL) == 0) return Registration();
  fid_mr* registered = nullptr;
  uint64_t key = 0;
  FillFromKernel(&key, sizeof(key));
  const int code =
      fi_mr_reg(domain_.get(), memory.data(), memory.size(), FI_READ | FI_SEND | FI_RECV, 0, key, 0, &registered, nullptr);
  if (code != 0) return FabricError(code, fmt::format("registering {} bytes", memory.size()));
  return Registration(Fid<fid_mr>(registered), 0);
}

bool Fabric::MaySleep(std::span<Endpoint* const> endpoints) {
  std::vector<fid*> fids;
  for (const Endpoint* endpoint : endpoints) {
    if (endpoint->descriptor() >= 0) fids.push_back(&endpoint->completions()->fid);
  }
  return fids.empty() || fi_trywait(fabric_.get(), fids.data(), static_cast<int>(fids.size())) == 0;
}

}  // namespace kedge::net
