// Programs in C++ that ignore what calls return: `fmirun -n RANKS fmi_throwing CASE`.
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <kedge/fmi.hpp>
#include <numeric>
#include <vector>

#include "checks.h"

namespace {

constexpr int kSteps = 10;

// The others wait then.
void DieLater() {
  usleep(100000);
  die();
}

int Respawns() {
  return std::atoi(std::getenv("FMI_RESPAWNS"));
}

// There are as many as are in scope, whichever way that is left.
struct Counted {
  static inline int count = 0;
  Counted() { ++count; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    --count;
    // A call comes to nothing while an exception is on its way, and back.
    if (std::uncaught_exceptions() > 0) CHECK(FMI_Barrier(WORLD) == FMI_ERR_PROC_FAILED);
  }
};

void Exchange(std::vector<std::int64_t>* cells) {
  const Counted counted;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, bytes = static_cast<int>(cells->size());
  std::vector<std::int64_t> got(cells->size());
  OK(FMI_Sendrecv(cells->data(), bytes, FMI_LONG, next, 1, got.data(), bytes, FMI_LONG, previous, 1, WORLD, FMI_STATUS_IGNORE));
  cells->swap(got);
}

// Failed calls are asked for again and again, and keep nothing.
void CheckThatNothingLeaks() {
  FMI_Datatype column = FMI_DATATYPE_NULL;
  OK(FMI_Type_vector(1000, 1, 2, FMI_LONG, &column));
  OK(FMI_Type_commit(&column));
  std::vector<std::int64_t> matrix(2000 * static_cast<std::size_t>(ranks)), all(2000 * static_cast<std::size_t>(ranks));
  std::vector<int> counts(static_cast<std::size_t>(ranks), 1), places(counts.size(), 0);
  std::size_t before = 0;
  int thrown = 0;
  for (int i = 0; i < 600; ++i) {
    if (i == 300) before = mallinfo2().uordblks;
    try {
      switch (i % 6) {
        case 0: FMI_Allgatherv(matrix.data(), 1, column, all.data(), counts.data(), places.data(), column, WORLD); break;
        case 1: FMI_Reduce_scatter_block(matrix.data(), all.data(), 900, FMI_LONG, FMI_SUM, WORLD); break;
        case 2: FMI_Bcast(matrix.data(), 1, column, 0, WORLD); break;
        case 3: FMI_Sendrecv_replace(matrix.data(), 1000, FMI_LONG, rank, 0, rank, 0, WORLD, FMI_STATUS_IGNORE); break;
        case 4: {
          FMI_Comm comm = FMI_COMM_NULL;
          FMI_Comm_split(WORLD, 0, 0, &comm);
          break;
        }
        case 5: {
          FMI_Request request = FMI_REQUEST_NULL;
          FMI_Irecv(matrix.data(), 1, column, rank, 0, WORLD, &request);
          break;
        }
      }
      CHECK(!"a call has come back");
    } catch (const kedge::fmi::Failure&) {
      ++thrown;
    }
  }
  CHECK(thrown == 600);
  CHECK(mallinfo2().uordblks < before + 4096);
  FMI_Type_free(&column);
}

void Survive(bool looks_for_leaks) {
  std::vector<std::int64_t> cells(3000, rank);
  std::int64_t sum = 0;
  int failures = 0;
  kedge::fmi::Loop({cells, sum}, [&](int number) {
    CHECK(Counted::count == 0);
    const Counted counted;
    if (number == 3 && rank == 1 && Respawns() == 0) DieLater();
    if (number == 6 && rank == 0 && Respawns() == 0) DieLater();
    try {
      if (number == kSteps) {
        if (rank == 2 && Respawns() == 0) DieLater();
        OK(FMI_Barrier(WORLD));
        return false;
      }
      Exchange(&cells);
      std::int64_t own = std::accumulate(cells.begin(), cells.end(), std::int64_t{0}), all = 0;
      OK(FMI_Allreduce(&own, &all, 1, FMI_LONG, FMI_SUM, WORLD));
      sum += all + number;
      std::int64_t swept = 0;
      kedge::fmi::InnerLoop("sweep", {swept}, [&](int turn) {
        std::int64_t one = 1, here = 0;
        OK(FMI_Allreduce(&one, &here, 1, FMI_LONG, FMI_SUM, WORLD));
        swept += here;
        return turn < 3;
      });
      CHECK(swept == 4 * ranks);
    } catch (const kedge::fmi::Failure&) {
      ++failures;
      if (looks_for_leaks && failures == 1) CheckThatNothingLeaks();
      throw;
    }
    return true;
  });
  CHECK(Counted::count == 0);
  CHECK(cells[0] == (rank + ranks - kSteps % ranks) % ranks);
  CHECK(sum == std::int64_t{kSteps} * 3000 * ranks * (ranks - 1) / 2 + kSteps * (kSteps - 1) / 2);
  if (rank == 3) CHECK(failures >= 3);
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* name = argc == 2 ? argv[1] : "";
  if (std::strcmp(name, "survive") == 0) {
    Survive(false);
  } else if (std::strcmp(name, "leaks") == 0) {
    Survive(true);
  } else {
    fail(__FILE__, __LINE__, name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
