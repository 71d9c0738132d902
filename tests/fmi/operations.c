/* Operations of the program: `fmirun -n RANKS fmi_operations CASE`. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "checks.h"

/* Matrices of two rows, whose product depends on the order. */
typedef struct {
  uint64_t at[4];
} matrix;

static matrix times(matrix a, matrix b) {
  return (matrix){{a.at[0] * b.at[0] + a.at[1] * b.at[2], a.at[0] * b.at[1] + a.at[1] * b.at[3],
                   a.at[2] * b.at[0] + a.at[3] * b.at[2], a.at[2] * b.at[1] + a.at[3] * b.at[3]}};
}

static matrix matrix_of(int number) {
  return (matrix){{(uint64_t)number + 1, 3, (uint64_t)number * 5, 7}};
}

static int is_equal(matrix a, matrix b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

static FMI_Datatype matrix_type, spread_type;

static void multiply(void* in, void* inout, int* count, FMI_Datatype* type) {
  CHECK(*type == matrix_type);
  for (int i = 0; i < *count; ++i) ((matrix*)inout)[i] = times(((matrix*)in)[i], ((matrix*)inout)[i]);
}

/* The same of matrices whose rows lie apart, with a state. */
typedef struct {
  uint64_t first[2];
  char between[24];
  uint64_t second[2];
} spread;

static spread spread_of(matrix m) {
  spread s;
  memset(&s, 'x', sizeof s);
  memcpy(s.first, &m.at[0], sizeof s.first);
  memcpy(s.second, &m.at[2], sizeof s.second);
  return s;
}

static matrix matrix_in(spread s) {
  return (matrix){{s.first[0], s.first[1], s.second[0], s.second[1]}};
}

static void multiply_spread(void* in, void* inout, size_t count, FMI_Datatype type, void* state) {
  CHECK(type == spread_type);
  ++*(int*)state;
  spread *left = in, *right = inout;
  for (size_t i = 0; i < count; ++i) right[i] = spread_of(times(matrix_in(left[i]), matrix_in(right[i])));
}

static void make_types(void) {
  const int lengths[] = {2, 2};
  const FMI_Aint offsets[] = {offsetof(spread, first), offsetof(spread, second)};
  const FMI_Datatype parts[] = {FMI_UNSIGNED_LONG, FMI_UNSIGNED_LONG};
  OK(FMI_Type_contiguous(4, FMI_UNSIGNED_LONG, &matrix_type));
  OK(FMI_Type_commit(&matrix_type));
  OK(FMI_Type_create_struct(2, lengths, offsets, parts, &spread_type));
  OK(FMI_Type_commit(&spread_type));
}

static matrix product(int from, int until) {
  matrix all = {{1, 0, 0, 1}};
  for (int i = from; i < until; ++i) all = times(all, matrix_of(i));
  return all;
}

static void all(void) {
  FMI_Op op, spread_op;
  int commutes = -1, calls = 0;
  make_types();
  OK(FMI_Op_create(multiply, 0, &op));
  OK(FMI_Op_create_x(multiply_spread, &calls, 0, &spread_op));
  OK(FMI_Op_commutative(op, &commutes));
  CHECK(commutes == 0);
  OK(FMI_Op_commutative(FMI_SUM, &commutes));
  CHECK(commutes == 1);
  const matrix expected = product(0, ranks);
  for (int round = 0; round < 20; ++round) {
    matrix own[2] = {matrix_of(rank), matrix_of(rank)}, got[2] = {{{0}}, {{0}}};
    OK(FMI_Allreduce(own, got, 2, matrix_type, op, WORLD));
    CHECK(is_equal(got[0], expected) && is_equal(got[1], expected));
    OK(FMI_Scan(own, got, 1, matrix_type, op, WORLD));
    CHECK(is_equal(got[0], product(0, rank + 1)));
    for (int root = 0; root < ranks; ++root) {
      got[0] = got[1] = own[0];
      OK(FMI_Reduce(rank == root ? FMI_IN_PLACE : own, got, 2, matrix_type, op, root, WORLD));
      CHECK(rank != root ? is_equal(got[1], own[0]) : is_equal(got[0], expected) && is_equal(got[1], expected));
    }
    got[0] = got[1] = matrix_of(99);
    OK(FMI_Exscan(own, got, 1, matrix_type, op, WORLD));
    CHECK(is_equal(got[0], rank == 0 ? matrix_of(99) : product(0, rank)) && is_equal(got[1], matrix_of(99)));
    OK(FMI_Exscan(FMI_IN_PLACE, own, 1, matrix_type, op, WORLD));
    CHECK(is_equal(own[0], rank == 0 ? matrix_of(0) : product(0, rank)));
    own[0] = matrix_of(rank);
    spread mine[2] = {spread_of(own[0]), spread_of(own[1])}, ours[2];
    memset(ours, 'y', sizeof ours);
    OK(FMI_Allreduce(mine, ours, 2, spread_type, spread_op, WORLD));
    CHECK(is_equal(matrix_in(ours[0]), expected) && is_equal(matrix_in(ours[1]), expected));
    /* What lies between the elements is not theirs. */
    for (size_t i = 0; i < sizeof ours[0].between; ++i) CHECK(ours[1].between[i] == 'y');
    OK(FMI_Scan(FMI_IN_PLACE, mine, 2, spread_type, spread_op, WORLD));
    CHECK(is_equal(matrix_in(mine[1]), product(0, rank + 1)));
  }
  CHECK((calls > 0) == (ranks > 1));
  matrix left = matrix_of(2), right = matrix_of(9);
  OK(FMI_Reduce_local(&left, &right, 1, matrix_type, op));
  CHECK(is_equal(right, times(matrix_of(2), matrix_of(9))) && is_equal(left, matrix_of(2)));
  double one = 1, two = 2;
  OK(FMI_Reduce_local(&one, &two, 1, FMI_DOUBLE, FMI_SUM));
  CHECK(one == 1 && two == 3);
  OK(FMI_Op_free(&op));
  OK(FMI_Op_free(&spread_op));
  CHECK(op == FMI_OP_NULL);
}

/* Rank r gets r elements of what all have combined, or two. */
static void scatter(void) {
  FMI_Op op, spread_op;
  int counts[16], calls = 0, total = 0;
  make_types();
  OK(FMI_Op_create(multiply, 0, &op));
  OK(FMI_Op_create_x(multiply_spread, &calls, 0, &spread_op));
  for (int i = 0; i < ranks; ++i) total += counts[i] = i;
  matrix sent[200], got[200];
  spread mine[32];
  for (int i = 0; i < 200; ++i) sent[i] = i % 2 ? matrix_of(rank) : matrix_of(ranks - rank);
  matrix even = product(0, 0);
  for (int i = 0; i < ranks; ++i) even = times(even, matrix_of(ranks - i));
  const matrix odd = product(0, ranks);
  const int first = rank * (rank - 1) / 2;
  memset(got, 1, sizeof got);
  const matrix untouched = got[0];
  OK(FMI_Reduce_scatter(sent, got, counts, matrix_type, op, WORLD));
  for (int i = 0; i < rank; ++i) CHECK(is_equal(got[i], (first + i) % 2 ? odd : even));
  CHECK(is_equal(got[rank], untouched));
  memcpy(got, sent, sizeof got);
  OK(FMI_Reduce_scatter(FMI_IN_PLACE, got, counts, matrix_type, op, WORLD));
  for (int i = 0; i < rank; ++i) CHECK(is_equal(got[i], (first + i) % 2 ? odd : even));
  CHECK(is_equal(got[total], sent[total]));
  for (int i = 0; i < 2 * ranks; ++i) mine[i] = spread_of(sent[i]);
  OK(FMI_Reduce_scatter_block(FMI_IN_PLACE, mine, 2, spread_type, spread_op, WORLD));
  CHECK(is_equal(matrix_in(mine[0]), even) && is_equal(matrix_in(mine[1]), odd));
  int ones[32], sum = -1;
  for (int i = 0; i < ranks; ++i) ones[i] = rank * i;
  OK(FMI_Reduce_scatter_block(ones, &sum, 1, FMI_INT, FMI_SUM, WORLD));
  CHECK(sum == rank * ranks * (ranks - 1) / 2);
  double reals[2] = {rank, 1}, below[2] = {-1, -1};
  OK(FMI_Exscan(reals, below, 2, FMI_DOUBLE, FMI_SUM, WORLD));
  CHECK(rank == 0 ? below[0] == -1 && below[1] == -1 : below[0] == first && below[1] == rank);
}

/* An operation of before the loop is there after deaths of rank 1; the others keep the one that they have made in it. */
static void survive(void) {
  FMI_Op op, late = FMI_OP_NULL;
  int step;
  matrix state = product(0, 0), expected = product(0, 0);
  void* arrays[] = {&state};
  int sizes[] = {sizeof state};
  make_types();
  OK(FMI_Op_create(multiply, 0, &op));
  while ((step = FMI_Loop(arrays, sizes, 1)) < 8) {
    if (step == 1) OK(FMI_Op_create(multiply, 1, &late));
    if ((step == 3 || step == 6) && rank == 1 && atoi(getenv("FMI_RESPAWNS")) == step / 3 - 1) die();
    const matrix own = times(state, matrix_of(rank + step));
    if (FMI_Allreduce(&own, &state, 1, matrix_type, op, WORLD) != FMI_SUCCESS) continue;
  }
  for (int i = 0; i < 8; ++i) {
    matrix next = product(0, 0);
    for (int other = 0; other < ranks; ++other) next = times(next, times(expected, matrix_of(other + i)));
    expected = next;
  }
  CHECK(is_equal(state, expected));
  if (rank != 1) OK(FMI_Op_free(&late));
}

/* Rank 1 dies in step 2, and has from its checkpoint a number that it has not made. */
static void made_in_the_loop(void) {
  FMI_Op op = FMI_OP_NULL;
  void* arrays[] = {&op};
  int sizes[] = {sizeof op}, step;
  make_types();
  while ((step = FMI_Loop(arrays, sizes, 1)) < 4) {
    matrix own = matrix_of(rank), got;
    if (step == 0) OK(FMI_Op_create(multiply, 0, &op));
    if (step == 2 && rank == 1) was_started_again() ? (void)0 : die();
    FMI_Allreduce(&own, &got, 1, matrix_type, op, WORLD);
  }
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  begin(&argc, &argv);
  FMI_Op op = FMI_SUM;
  matrix own = matrix_of(rank);
  if (strcmp(name, "all") == 0) {
    all();
    scatter();
  } else if (strcmp(name, "survive") == 0) {
    survive();
  } else if (strcmp(name, "made-in-the-loop") == 0) {
    made_in_the_loop();
  } else if (strcmp(name, "freed") == 0) {
    make_types();
    FMI_Op_create(multiply, 0, &op);
    const FMI_Op gone = op;
    FMI_Op_free(&op);
    FMI_Allreduce(FMI_IN_PLACE, &own, 1, matrix_type, gone, WORLD);
  } else if (strcmp(name, "of-the-language") == 0) {
    FMI_Op_free(&op);
  } else if (strcmp(name, "counts-differ") == 0) {
    int counts[] = {1, rank + 1}, numbers[] = {1, 2, 3};
    FMI_Reduce_scatter(FMI_IN_PLACE, numbers, counts, FMI_INT, FMI_SUM, WORLD);
  } else if (strcmp(name, "negative-count") == 0) {
    int counts[] = {1, -1}, numbers[] = {1, 2, 3};
    FMI_Reduce_scatter(FMI_IN_PLACE, numbers, counts, FMI_INT, FMI_SUM, WORLD);
  } else if (strcmp(name, "none") == 0) {
    FMI_Allreduce(FMI_IN_PLACE, &own, 1, FMI_INT, FMI_OP_NULL, WORLD);
  } else {
    fail(__FILE__, __LINE__, name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
