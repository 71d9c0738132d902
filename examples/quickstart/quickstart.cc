#include <kedge/kedge_mpi.h>
#include <kedge/kedge.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<double> field(1000);
  int step = 0;
  auto context = kedge::Context::Open({}, [](auto* options, auto** out) { return kedge_mpi_init(MPI_COMM_WORLD, options, out); });
  const auto tell = [](const kedge::Error& error) { std::puts(error.message().c_str()); };
  if (!context) return tell(context.error()), 1;
  if (auto done = context->Protect(0, step); !done) return tell(done.error()), 1;
  if (auto done = context->Protect(1, kedge::Span<double>(field)); !done) return tell(done.error()), 1;
  if (auto restored = context->Restart("quickstart")) {
    std::printf("continuing from step %d\n", step);
  } else if (restored.error().code() != KEDGE_ERROR_NOT_FOUND) {
    return tell(restored.error()), 1;
  }
  while (++step <= 100) {
    for (double& value : field) value += step * 0.5;
    if (step % 10 != 0) continue;
    if (auto taken = context->Checkpoint("quickstart", step); !taken) tell(taken.error());
  }
  std::printf("field[0] = %g\n", field[0]);
  if (auto ended = context->Finalize(); !ended) tell(ended.error());
  return MPI_Finalize();
}
