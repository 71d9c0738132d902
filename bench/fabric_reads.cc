#include "fabric_reads.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace kedge::bench {
namespace {

constexpr uint32_t kApiVersion = FI_VERSION(1, 17);
constexpr size_t kAddressBytesMax = 256;
// The modes of registration that are answered below; a provider that wants another one cannot be opened.
constexpr int kRegistrationModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

struct Close {
  template <typename T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Close>;

// What the others need to know to read from a process.
struct Remote {
  char address[kAddressBytesMax];
  uint64_t address_bytes;
  uint64_t memory;
  uint64_t key;
};

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};

}  // namespace

class FabricReads::Impl {
 public:
  Impl(MPI_Comm communicator, const char* memory, size_t bytes) : communicator_(communicator), memory_(memory), bytes_(bytes) {
    MPI_Comm_size(communicator, &processes_);
  }
  ~Impl() {
    stop_ = true;
    if (progress_.joinable()) progress_.join();
  }

  bool Open(const std::string& provider, std::string* why) {
    return OpenEndpoint(provider, why) && Register(why) && Done(fi_enable(endpoint_.get()), "fi_enable", why) && Bind(why);
  }
  void Introduce();
  double Read(int from, size_t bytes, size_t piece_bytes, size_t window);

 private:
  static bool Done(ssize_t code, const char* what, std::string* why) {
    if (code == 0) return true;
    *why = std::string(what) + ": " + fi_strerror(static_cast<int>(-code));
    return false;
  }
  bool OpenEndpoint(const std::string& provider, std::string* why);
  bool Register(std::string* why);
  bool Bind(std::string* why);
  // Completions of our own reads that have arrived; aborts when one failed. Drives progress for those who read from us.
  size_t Poll();

  MPI_Comm communicator_;
  const char* memory_;
  size_t bytes_;
  int processes_ = 0;
  std::unique_ptr<fi_info, FreeInfo> info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
  Owned<fid_cq> completions_;
  Owned<fid_mr> registered_;
  Owned<fid_mr> registered_target_;
  Owned<fid_ep> endpoint_;
  std::vector<char> target_;
  Remote self_{};
  std::vector<Remote> remotes_;
  std::vector<fi_addr_t> peers_;
  std::thread progress_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> arrived_{0};
};

bool FabricReads::Impl::OpenEndpoint(const std::string& provider, std::string* why) {
  std::unique_ptr<fi_info, FreeInfo> hints(fi_allocinfo());
  hints->caps = FI_RMA | FI_READ | FI_REMOTE_READ;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = kRegistrationModes;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  fi_info* found = nullptr;
  if (!Done(fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo", why)) return false;
  info_.reset(found);
  fid_fabric* fabric = nullptr;
  if (!Done(fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric", why)) return false;
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (!Done(fi_domain(fabric, info_.get(), &domain, nullptr), "fi_domain", why)) return false;
  domain_.reset(domain);
  fi_av_attr av_attr{};
  fid_av* av = nullptr;
  if (!Done(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open", why)) return false;
  addresses_.reset(av);
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_CONTEXT;
  fid_cq* cq = nullptr;
  if (!Done(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open", why)) return false;
  completions_.reset(cq);
  fid_ep* endpoint = nullptr;
  if (!Done(fi_endpoint(domain, info_.get(), &endpoint, nullptr), "fi_endpoint", why)) return false;
  endpoint_.reset(endpoint);
  return Done(fi_ep_bind(endpoint, &av->fid, 0), "fi_ep_bind", why) &&
         Done(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind", why);
}

bool FabricReads::Impl::Register(std::string* why) {
  target_.assign(bytes_, 1);
  fid_mr* region = nullptr;
  if (!Done(fi_mr_reg(domain_.get(), memory_, bytes_, FI_REMOTE_READ, 0, 1, 0, &region, nullptr), "fi_mr_reg", why)) return false;
  registered_.reset(region);
  fid_mr* target = nullptr;
  if (!Done(fi_mr_reg(domain_.get(), target_.data(), bytes_, FI_READ, 0, 2, 0, &target, nullptr), "fi_mr_reg", why)) return false;
  registered_target_.reset(target);
  return true;
}

bool FabricReads::Impl::Bind(std::string* why) {
  if ((info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    if (!Done(fi_mr_bind(registered_.get(), &endpoint_->fid, 0), "fi_mr_bind", why) ||
        !Done(fi_mr_enable(registered_.get()), "fi_mr_enable", why)) {
      return false;
    }
  }
  size_t address_bytes = sizeof(self_.address);
  if (!Done(fi_getname(&endpoint_->fid, self_.address, &address_bytes), "fi_getname", why)) return false;
  self_.address_bytes = address_bytes;
  const bool is_virtual = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  self_.memory = is_virtual ? reinterpret_cast<uint64_t>(memory_) : 0;
  self_.key = fi_mr_key(registered_.get());
  return true;
}

// Exchanges addresses, and starts the thread that serves.
void FabricReads::Impl::Introduce() {
  remotes_.resize(static_cast<size_t>(processes_));
  MPI_Allgather(&self_, sizeof(self_), MPI_BYTE, remotes_.data(), sizeof(self_), MPI_BYTE, communicator_);
  peers_.resize(remotes_.size());
  for (size_t i = 0; i < remotes_.size(); ++i) {
    if (fi_av_insert(addresses_.get(), remotes_[i].address, 1, &peers_[i], 0, nullptr) != 1) {
      std::fprintf(stderr, "kedge-bench: fi_av_insert failed\n");
      MPI_Abort(communicator_, 1);
    }
  }
  progress_ = std::thread([this] {
    while (!stop_) {
      const size_t arrived = Poll();
      arrived_ += arrived;
      if (arrived == 0) std::this_thread::yield();
    }
  });
}

size_t FabricReads::Impl::Poll() {
  fi_cq_entry entries[16];
  const ssize_t got = fi_cq_read(completions_.get(), entries, 16);
  if (got == -FI_EAGAIN) return 0;
  if (got < 0) {
    fi_cq_err_entry error{};
    fi_cq_readerr(completions_.get(), &error, 0);
    std::fprintf(stderr, "kedge-bench: a read over the fabric failed: %s\n",
                 fi_strerror(error.err != 0 ? error.err : static_cast<int>(-got)));
    MPI_Abort(communicator_, 1);
  }
  return static_cast<size_t>(got);
}

double FabricReads::Impl::Read(int from, size_t bytes, size_t piece_bytes, size_t window) {
  const Remote& remote = remotes_[static_cast<size_t>(from)];
  const size_t pieces = (bytes + piece_bytes - 1) / piece_bytes;
  arrived_ = 0;
  MPI_Barrier(communicator_);
  const auto start = std::chrono::steady_clock::now();
  for (size_t posted = 0; posted < pieces || arrived_ < pieces;) {
    if (posted == pieces || posted - arrived_ >= window) {
      std::this_thread::yield();
      continue;
    }
    const size_t offset = posted * piece_bytes;
    const ssize_t code = fi_read(endpoint_.get(), target_.data() + offset, std::min(piece_bytes, bytes - offset),
                                 fi_mr_desc(registered_target_.get()), peers_[static_cast<size_t>(from)], remote.memory + offset,
                                 remote.key, nullptr);
    if (code == -FI_EAGAIN) continue;
    std::string why;
    if (!Done(code, "fi_read", &why)) {
      std::fprintf(stderr, "kedge-bench: %s\n", why.c_str());
      MPI_Abort(communicator_, 1);
    }
    ++posted;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MPI_Barrier(communicator_);
  return seconds;
}

FabricReads::FabricReads(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FabricReads::~FabricReads() = default;

std::unique_ptr<FabricReads> FabricReads::Open(MPI_Comm communicator, const std::string& provider, const char* memory,
                                               size_t bytes, std::string* why) {
  auto impl = std::make_unique<Impl>(communicator, memory, bytes);
  const int open = impl->Open(provider, why) ? 1 : 0;
  int all_open = 0;
  MPI_Allreduce(&open, &all_open, 1, MPI_INT, MPI_MIN, communicator);
  if (all_open == 0) {
    if (open != 0) *why = "another process could not open it";
    return nullptr;
  }
  impl->Introduce();
  return std::unique_ptr<FabricReads>(new FabricReads(std::move(impl)));
}

double FabricReads::ReadSeconds(int from, size_t bytes, size_t piece_bytes, size_t window) {
  return impl_->Read(from, bytes, piece_bytes, window);
}

}  // namespace kedge::bench
