// Jumps back to FMI_Loop in a program in C++: `fmirun -n RANKS fmi_jumping`. Objects of the frames that are left are destroyed.
#include <kedge/fmi_jump.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "checks.h"

namespace {

constexpr int kSteps = 8;
int in_scope = 0;
int left_early = 0;

struct Counted {
  Counted() { ++in_scope; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    --in_scope;
    if (has_ended) return;
    // A call in a jump that is under way comes to nothing, and back.
    ++left_early;
    CHECK(FMI_Barrier(WORLD) == FMI_ERR_PROC_FAILED);
  }
  bool has_ended = false;
};

void Exchange(std::vector<std::int64_t>* cells) {
  Counted counted;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, count = static_cast<int>(cells->size());
  std::vector<std::int64_t> got(cells->size());
  OK(FMI_Sendrecv(cells->data(), count, FMI_LONG, next, 1, got.data(), count, FMI_LONG, previous, 1, WORLD, FMI_STATUS_IGNORE));
  for (std::size_t i = 0; i < got.size(); ++i) (*cells)[i] = got[i] + 1;
  counted.has_ended = true;
}

// Not a part of the function that calls FMI_Loop, whose objects stay.
[[gnu::noinline]] void Step(std::vector<std::int64_t>* cells) {
  Counted counted;
  Exchange(cells);
  OK(FMI_Barrier(WORLD));
  counted.has_ended = true;
}

void Run(std::vector<std::int64_t>* cells) {
  void* arrays[] = {cells->data()};
  int sizes[] = {static_cast<int>(cells->size() * sizeof cells->front())}, step = 0;
  while ((step = FMI_Loop(arrays, sizes, 1)) < kSteps) {
    CHECK(in_scope == 0);
    if ((step == 2 && rank == 1 && !was_started_again()) || (step == 5 && rank == 0 && !was_started_again())) {
      usleep(100000);  // the others wait
      die();
    }
    Step(cells);
  }
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  std::vector<std::int64_t> cells(4000, rank);
  Run(&cells);
  CHECK(cells.back() == (rank + ranks - kSteps % ranks) % ranks + kSteps);
  // Of Step at least, and of Exchange where that was what has failed.
  if (rank == 2) CHECK(left_early >= 2 && in_scope == 0);
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
