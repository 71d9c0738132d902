#include <kedge/kedge_mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double field[1000] = {0};
  int step = 0;
  kedge_context* kedge;
  if (kedge_mpi_init(MPI_COMM_WORLD, NULL, &kedge) != KEDGE_OK) return puts(kedge_error_message()), 1;
  KEDGE_PROTECT(kedge, 0, &step, 1);
  KEDGE_PROTECT(kedge, 1, field, 1000);
  int status = kedge_restart(kedge, "quickstart", -1, NULL);
  if (status == KEDGE_OK) printf("continuing from step %d\n", step);
  if (status != KEDGE_OK && status != KEDGE_ERROR_NOT_FOUND) return puts(kedge_error_message()), 1;
  while (++step <= 100) {
    for (int i = 0; i < 1000; ++i) field[i] += step * 0.5;
    if (step % 10 == 0 && kedge_checkpoint(kedge, "quickstart", step, 0) != KEDGE_OK) puts(kedge_error_message());
  }
  printf("field[0] = %g\n", field[0]);
  kedge_finalize(kedge, 1);
  return MPI_Finalize();
}
