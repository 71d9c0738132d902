/* jacobi: a Poisson equation in a box, on the ranks of an FMI job, of which any may be killed at any time.
 *
 *   fmirun -n 4 --interval 10 jacobi CELLS STEPS [PAUSE]
 *
 * The Himeno benchmark's kernel: Jacobi's method with a 19-point stencil and its coefficients in arrays, on CELLS^3 cells that
 * are cut into slabs. A step computes the cells, exchanges the outermost planes with both neighbours, and adds up the residual.
 * What a step needs are the cells alone, so they are all that FMI_Loop is given. After each step it sleeps for PAUSE
 * milliseconds: a long run to watch, which leaves processors to others. The checksum printed at the end covers every bit of the
 * cells; kills change nothing in it.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <kedge/fmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int rank, below, above;     /* ranks */
  int cells, planes, first;   /* of the box, along each side; of this rank, without the neighbours' two; the first one's number */
  float *a[4], *b[3], *c[3];  /* coefficients */
  float *p, *bound, *w1, *w2; /* cells; where they count; the right side; the next cells */
  double residual;
} slab;

static size_t at(const slab* s, int i, int j, int k) {
  return ((size_t)i * s->cells + j) * s->cells + k;
}

static float* new_array(const slab* s, float value) {
  const size_t count = at(s, s->planes + 2, 0, 0);
  float* array = malloc(count * sizeof *array);
  if (array == NULL) {
    fprintf(stderr, "jacobi: out of memory\n");
    FMI_Abort(FMI_COMM_WORLD, 1);
  }
  for (size_t i = 0; i < count; ++i) array[i] = value;
  return array;
}

static slab make_slab(int cells) {
  slab s = {.cells = cells};
  int ranks;
  FMI_Comm_rank(FMI_COMM_WORLD, &s.rank);
  FMI_Comm_size(FMI_COMM_WORLD, &ranks);
  s.below = s.rank > 0 ? s.rank - 1 : FMI_PROC_NULL;
  s.above = s.rank + 1 < ranks ? s.rank + 1 : FMI_PROC_NULL;
  s.first = (int)((int64_t)cells * s.rank / ranks);
  s.planes = (int)((int64_t)cells * (s.rank + 1) / ranks) - s.first;
  for (int i = 0; i < 3; ++i) {
    s.a[i] = new_array(&s, 1);
    s.b[i] = new_array(&s, 0);
    s.c[i] = new_array(&s, 1);
  }
  s.a[3] = new_array(&s, 1.0f / 6);
  s.bound = new_array(&s, 1);
  s.w1 = new_array(&s, 0);
  s.w2 = new_array(&s, 0);
  s.p = new_array(&s, 0);
  for (int i = 0; i < s.planes + 2; ++i) {
    const float x = (float)(s.first + i - 1) / (float)(cells - 1);
    for (int j = 0; j < cells; ++j)
      for (int k = 0; k < cells; ++k) s.p[at(&s, i, j, k)] = x * x;
  }
  return s;
}

/* The outermost planes of the box, and the cells on its other sides, stay what they are. */
static double compute(slab* s) {
  const float omega = 0.8f, *p = s->p;
  const size_t plane = at(s, 1, 0, 0), row = s->cells;
  const int from = s->below == FMI_PROC_NULL ? 2 : 1, to = s->above == FMI_PROC_NULL ? s->planes - 1 : s->planes;
  double residual = 0;
  for (int i = from; i <= to; ++i)
    for (int j = 1; j < s->cells - 1; ++j)
      for (int k = 1; k < s->cells - 1; ++k) {
        const size_t x = at(s, i, j, k);
        const float sum = s->a[0][x] * p[x + plane] + s->a[1][x] * p[x + row] + s->a[2][x] * p[x + 1] +
                          s->b[0][x] * (p[x + plane + row] - p[x + plane - row] - p[x - plane + row] + p[x - plane - row]) +
                          s->b[1][x] * (p[x + row + 1] - p[x - row + 1] - p[x + row - 1] + p[x - row - 1]) +
                          s->b[2][x] * (p[x + plane + 1] - p[x - plane + 1] - p[x + plane - 1] + p[x - plane - 1]) +
                          s->c[0][x] * p[x - plane] + s->c[1][x] * p[x - row] + s->c[2][x] * p[x - 1] + s->w1[x];
        const float change = (sum * s->a[3][x] - p[x]) * s->bound[x];
        residual += (double)change * change;
        s->w2[x] = p[x] + omega * change;
      }
  for (int i = from; i <= to; ++i)
    for (int j = 1; j < s->cells - 1; ++j) memcpy(s->p + at(s, i, j, 1), s->w2 + at(s, i, j, 1), (s->cells - 2) * sizeof(float));
  return residual;
}

/* Both planes next to the neighbours', to them; theirs here. */
static int exchange(slab* s) {
  const int count = s->cells * s->cells;
  FMI_Request requests[4];
  FMI_Irecv(s->p, count, FMI_FLOAT, s->below, 0, FMI_COMM_WORLD, &requests[0]);
  FMI_Irecv(s->p + at(s, s->planes + 1, 0, 0), count, FMI_FLOAT, s->above, 1, FMI_COMM_WORLD, &requests[1]);
  FMI_Isend(s->p + at(s, s->planes, 0, 0), count, FMI_FLOAT, s->above, 0, FMI_COMM_WORLD, &requests[2]);
  FMI_Isend(s->p + at(s, 1, 0, 0), count, FMI_FLOAT, s->below, 1, FMI_COMM_WORLD, &requests[3]);
  return FMI_Waitall(4, requests, FMI_STATUSES_IGNORE);
}

/* Fails where a rank has died meanwhile: the last step is then computed again, and the result printed by that. */
static int print_result(const slab* s, int steps, double seconds) {
  unsigned long sum = 0, all = 0;
  for (int i = 1; i <= s->planes; ++i)
    for (int j = 0; j < s->cells; ++j)
      for (int k = 0; k < s->cells; ++k) {
        uint32_t bits;
        memcpy(&bits, &s->p[at(s, i, j, k)], sizeof bits);
        sum += (bits ^ (uint64_t)at(s, s->first + i, j, k)) * UINT64_C(0x9e3779b97f4a7c15);
      }
  const int code = FMI_Reduce(&sum, &all, 1, FMI_UNSIGNED_LONG, FMI_SUM, 0, FMI_COMM_WORLD);
  if (code != FMI_SUCCESS || s->rank != 0) return code;
  printf("steps %d, residual %a, checksum %016lx\n", steps, s->residual, all);
  printf("%.3f seconds since the first step of rank 0\n", seconds);
  fflush(stdout); /* a rank that is killed at its very end has said it */
  return code;
}

static void sleep_for(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  if (milliseconds > 0) nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  FMI_Init(&argc, &argv);
  const int cells = argc >= 3 ? atoi(argv[1]) : 0, steps = argc >= 3 ? atoi(argv[2]) : 0, pause = argc == 4 ? atoi(argv[3]) : 0;
  int ranks;
  FMI_Comm_size(FMI_COMM_WORLD, &ranks);
  if (cells < 4 || cells < 2 * ranks || steps < 1 || pause < 0 || argc > 4) {
    fprintf(stderr, "usage: fmirun -n RANKS jacobi CELLS STEPS [PAUSE], with at least 4 cells, and 2 for each rank\n");
    FMI_Abort(FMI_COMM_WORLD, 2);
  }
  slab s = make_slab(cells);
  void* arrays[] = {s.p, &s.residual};
  int sizes[] = {(int)(at(&s, s.planes + 2, 0, 0) * sizeof(float)), sizeof s.residual};
  double begin = 0;
  do {
    while (FMI_Loop(arrays, sizes, 2) < steps) {
      if (begin == 0) begin = FMI_Wtime();
      const double own = compute(&s);
      if (exchange(&s) != FMI_SUCCESS) continue;
      FMI_Allreduce(&own, &s.residual, 1, FMI_DOUBLE, FMI_SUM, FMI_COMM_WORLD);
      sleep_for(pause);
    }
  } while (print_result(&s, steps, FMI_Wtime() - begin) != FMI_SUCCESS);
  return FMI_Finalize();
}
