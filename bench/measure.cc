#include "measure.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "os/sockets/unix_socket.h"

namespace kedge::bench {
namespace {

class Pattern {
 public:
  Pattern(int rank, int64_t version)
      : seed_(static_cast<uint64_t>(version) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(rank) * 0xd1b54a32d192ed03ULL) {}
  uint64_t Word(size_t index) const {
    uint64_t z = seed_ + index * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  uint64_t seed_;
};

}  // namespace

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double TimeCall(const std::function<void()>& call) {
  const double start = Now();
  call();
  return Now() - start;
}

double Slowest(double seconds) {
  double slowest = 0;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double TimeTogether(const std::function<double()>& measure) {
  MPI_Barrier(MPI_COMM_WORLD);
  return Slowest(measure());
}

double SumOverRanks(double value) {
  double sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void Check(int status, const char* what) {
  if (status == KEDGE_OK) return;
  std::fprintf(stderr, "kedge-bench: %s: %s\n", what, kedge_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void FillPattern(int rank, int64_t version, std::vector<char>* data) {
  const Pattern pattern(rank, version);
  size_t at = 0;
  for (; at + 8 <= data->size(); at += 8) {
    const uint64_t value = pattern.Word(at / 8);
    std::memcpy(data->data() + at, &value, 8);
  }
  for (; at < data->size(); ++at) (*data)[at] = static_cast<char>(pattern.Word(at));
}

bool IsPattern(int rank, int64_t version, const std::vector<char>& data) {
  const Pattern pattern(rank, version);
  bool equal = true;
  size_t at = 0;
  for (; at + 8 <= data.size(); at += 8) {
    uint64_t value = 0;
    std::memcpy(&value, data.data() + at, 8);
    equal &= value == pattern.Word(at / 8);
  }
  for (; at < data.size(); ++at) equal &= data[at] == static_cast<char>(pattern.Word(at));
  return equal;
}

double ComputeSeconds(uint64_t steps) {
  const double start = Now();
  uint64_t state = 88172645463325252ULL;
  for (uint64_t i = 0; i < steps; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  volatile uint64_t sink = state;  // so that the work is done
  static_cast<void>(sink);
  return Now() - start;
}

double CpuSeconds(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return -1;
  unsigned long long user = 0;
  unsigned long long system = 0;
  if (std::sscanf(text.c_str() + after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
    return -1;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int AgentPid(const std::string& run_folder) {
  if (run_folder.empty()) return -1;
  const auto socket = os::UnixSocket::Connect(run_folder + "/agent.sock", std::chrono::seconds(1));
  if (!socket.ok()) return -1;
  const auto peer = socket->Peer();
  return peer.ok() ? static_cast<int>(peer->process_id) : -1;
}

void AwaitMemory() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace kedge::bench
