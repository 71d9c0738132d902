// careless, in C++: a rod that is warm at one end. It looks at no result of any call; one that the death of a rank has ended
// throws, and kedge::fmi::Loop goes back to the last checkpoint.
//
//   fmirun -n 4 --interval 10 build/examples/careless-cpp CELLS STEPS
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <kedge/fmi.hpp>
#include <vector>

namespace {

class Rod {
 public:
  explicit Rod(int cells) {
    int ranks = 1;
    FMI_Comm_size(FMI_COMM_WORLD, &ranks);
    FMI_Comm_rank(FMI_COMM_WORLD, &rank_);
    left_ = rank_ > 0 ? rank_ - 1 : FMI_PROC_NULL;
    right_ = rank_ < ranks - 1 ? rank_ + 1 : FMI_PROC_NULL;
    first_ = static_cast<int>(static_cast<long>(cells) * rank_ / ranks);
    count_ = static_cast<int>(static_cast<long>(cells) * (rank_ + 1) / ranks) - first_;
    now_.assign(static_cast<std::size_t>(count_) + 2, 0.0);
    if (rank_ == 0) now_.front() = 100;
  }

  // What a step begins with.
  std::vector<kedge::fmi::Array> arrays() { return {now_, change_}; }

  void Step() {
    Exchange();
    std::vector<double> next = now_;
    double own = 0;
    for (std::size_t i = 1; i + 1 < now_.size(); ++i) {
      next[i] = 0.5 * now_[i] + 0.25 * (now_[i - 1] + now_[i + 1]);
      own = std::fmax(own, std::fabs(next[i] - now_[i]));
    }
    FMI_Allreduce(&own, &change_, 1, FMI_DOUBLE, FMI_MAX, FMI_COMM_WORLD);
    now_.swap(next);
  }

  // Of every bit of the cells.
  void Print(int steps) const {
    unsigned long sum = 0, all = 0;
    for (int i = 1; i <= count_; ++i) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &now_[static_cast<std::size_t>(i)], sizeof bits);
      sum += (bits ^ static_cast<std::uint64_t>(first_ + i)) * UINT64_C(0x9e3779b97f4a7c15);
    }
    FMI_Reduce(&sum, &all, 1, FMI_UNSIGNED_LONG, FMI_SUM, 0, FMI_COMM_WORLD);
    if (rank_ == 0) std::printf("steps %d, change %a, checksum %016lx\n", steps, change_, all);
    std::fflush(stdout);
  }

 private:
  // The outermost cells to the neighbours; theirs here.
  void Exchange() {
    FMI_Sendrecv(&now_[1], 1, FMI_DOUBLE, left_, 0, &now_.back(), 1, FMI_DOUBLE, right_, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE);
    FMI_Sendrecv(&now_[now_.size() - 2], 1, FMI_DOUBLE, right_, 1, &now_.front(), 1, FMI_DOUBLE, left_, 1, FMI_COMM_WORLD,
                 FMI_STATUS_IGNORE);
  }

  int rank_ = 0, left_ = 0, right_ = 0, first_ = 0, count_ = 0;
  std::vector<double> now_;
  double change_ = 0;  // of the last step, of all ranks
};

}  // namespace

int main(int argc, char** argv) {
  FMI_Init(&argc, &argv);
  const int cells = argc == 3 ? std::atoi(argv[1]) : 0, steps = argc == 3 ? std::atoi(argv[2]) : 0;
  if (cells < 256 || steps < 1) {
    std::fprintf(stderr, "usage: careless-cpp CELLS STEPS, with at least 256 cells\n");
    FMI_Abort(FMI_COMM_WORLD, 2);
  }
  Rod rod(cells);
  kedge::fmi::Loop(rod.arrays(), [&](int number) {
    if (number < steps) return rod.Step(), true;
    rod.Print(number);
    return false;
  });
  FMI_Finalize();
  return 0;
}
