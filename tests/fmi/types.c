/* What the tests of FMI ask of its types: `fmirun -n RANKS types CASE`. Each case ends with "ok", or as it says. */
#include <string.h>

#include "checks.h"

enum { kRows = 300, kColumns = 70 };

typedef struct {
  char kind;
  double place[3];
  int neighbours;
} particle;

static int matrix[kRows][kColumns], other[kRows][kColumns];

static void fill(void) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) matrix[i][j] = 1000000 * rank + 1000 * i + j;
  memset(other, -1, sizeof other);
}

/* Of a rank's matrix. */
static int element(int of, int i, int j) {
  return 1000000 * of + 1000 * i + j;
}

static FMI_Datatype new_column(void) {
  FMI_Datatype column, made;
  OK(FMI_Type_vector(kRows, 1, kColumns, FMI_INT, &column));
  OK(FMI_Type_create_resized(column, 0, sizeof(int), &made));
  OK(FMI_Type_free(&column));
  CHECK(column == FMI_DATATYPE_NULL);
  OK(FMI_Type_commit(&made));
  return made;
}

static FMI_Datatype new_particle(void) {
  const int lengths[] = {1, 3, 1};
  const FMI_Aint offsets[] = {offsetof(particle, kind), offsetof(particle, place), offsetof(particle, neighbours)};
  const FMI_Datatype types[] = {FMI_CHAR, FMI_DOUBLE, FMI_INT};
  FMI_Datatype made;
  OK(FMI_Type_create_struct(3, lengths, offsets, types, &made));
  OK(FMI_Type_commit(&made));
  return made;
}

static void sizes(void) {
  FMI_Datatype column = new_column(), one = new_particle(), row;
  FMI_Aint lower, extent;
  int size;
  OK(FMI_Type_contiguous(kColumns, FMI_INT, &row));
  OK(FMI_Type_size(row, &size));
  CHECK(size == kColumns * (int)sizeof(int));
  OK(FMI_Type_size(column, &size));
  CHECK(size == kRows * (int)sizeof(int));
  OK(FMI_Type_get_extent(column, &lower, &extent));
  CHECK(lower == 0 && extent == sizeof(int));
  OK(FMI_Type_size(one, &size));
  CHECK(size == 1 + 3 * 8 + 4);
  OK(FMI_Type_get_extent(one, &lower, &extent));
  CHECK(extent == sizeof(particle));
  OK(FMI_Type_get_extent(FMI_DOUBLE, &lower, &extent));
  CHECK(lower == 0 && extent == sizeof(double));
  OK(FMI_Type_commit(&row));
  OK(FMI_Type_free(&row));
  OK(FMI_Type_free(&column));
  OK(FMI_Type_free(&one));
}

/* Two columns go round, are rows where they come, and columns again; long ones and short ones. */
static void go_round(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  FMI_Datatype column = new_column();
  FMI_Status status;
  int count;
  fill();
  OK(FMI_Sendrecv(&matrix[0][3], 2, column, next, 1, &other[0][5], 2, column, previous, 1, WORLD, &status));
  for (int i = 0; i < kRows; ++i) {
    CHECK(other[i][4] == -1 && other[i][5] == element(previous, i, 3) && other[i][6] == element(previous, i, 4) &&
          other[i][7] == -1);
  }
  CHECK(status.bytes == 2 * kRows * sizeof(int));
  OK(FMI_Get_count(&status, column, &count));
  CHECK(count == 2);
  OK(FMI_Get_count(&status, FMI_INT, &count));
  CHECK(count == 2 * kRows);

  int* row = malloc(kRows * sizeof *row);
  OK(FMI_Sendrecv(&matrix[0][8], 1, column, next, 1, row, kRows, FMI_INT, previous, 1, WORLD, &status));
  for (int i = 0; i < kRows; ++i) CHECK(row[i] == element(previous, i, 8));
  free(row);

  /* All columns: longer than what travels at once. A part of what there is room for. The type is gone before they come. */
  FMI_Request requests[4];
  fill();
  OK(FMI_Irecv(other, kColumns, column, previous, 2, WORLD, &requests[0]));
  OK(FMI_Isend(matrix, kColumns - 1, column, next, 2, WORLD, &requests[1]));
  OK(FMI_Isend(matrix, kColumns, column, FMI_PROC_NULL, 2, WORLD, &requests[2]));
  requests[3] = FMI_REQUEST_NULL;
  OK(FMI_Type_free(&column));
  int flag = 0;
  while (!flag) OK(FMI_Test(&requests[0], &flag, &status));
  CHECK(requests[0] == FMI_REQUEST_NULL);
  OK(FMI_Waitall(4, requests, FMI_STATUSES_IGNORE));
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) CHECK(other[i][j] == (j < kColumns - 1 ? element(previous, i, j) : -1));
}

/* The lower triangle of a matrix, a row after the other. */
static void triangle(void) {
  enum { kSide = 40 };
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int lengths[kSide], places[kSide];
  FMI_Datatype type;
  for (int i = 0; i < kSide; ++i) lengths[i] = i + 1, places[i] = i * kColumns;
  OK(FMI_Type_indexed(kSide, lengths, places, FMI_INT, &type));
  OK(FMI_Type_commit(&type));
  fill();
  OK(FMI_Sendrecv(matrix, 1, type, next, 0, other, 1, type, previous, 0, WORLD, FMI_STATUS_IGNORE));
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kColumns; ++j) CHECK(other[i][j] == (j <= i ? element(previous, i, j) : -1));
  OK(FMI_Type_free(&type));
}

static void particles(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  FMI_Datatype type = new_particle();
  particle out[3], in[3];
  memset(out, 7, sizeof out);
  memset(in, 9, sizeof in);
  for (int i = 0; i < 3; ++i) out[i] = (particle){(char)i, {rank, i, 0.5}, 10 * rank + i};
  OK(FMI_Sendrecv(out, 3, type, next, 0, in, 3, type, previous, 0, WORLD, FMI_STATUS_IGNORE));
  for (int i = 0; i < 3; ++i)
    CHECK(in[i].kind == i && in[i].place[0] == previous && in[i].place[1] == i && in[i].neighbours == 10 * previous + i);
  /* What lies between the members is not touched. */
  CHECK(((char*)&in[1])[1] == 9);
  OK(FMI_Type_free(&type));
}

static void collectives(void) {
  FMI_Datatype column = new_column();
  const int root = ranks - 1;
  fill();
  OK(FMI_Bcast(&matrix[0][1], 2, column, root, WORLD));
  for (int i = 0; i < kRows; ++i) {
    CHECK(matrix[i][0] == element(rank, i, 0) && matrix[i][1] == element(root, i, 1) && matrix[i][2] == element(root, i, 2));
    CHECK(matrix[i][3] == element(rank, i, 3));
  }
  /* A column of each rank, beside each other; on one of them, on all, and where this rank's own lies in its place. */
  fill();
  OK(FMI_Gather(&matrix[0][9], 1, column, other, 1, column, root, WORLD));
  for (int i = 0; rank == root && i < kRows; ++i)
    for (int of = 0; of < ranks; ++of) CHECK(other[i][of] == element(of, i, 9));
  fill();
  OK(FMI_Allgather(&matrix[0][9], 1, column, other, 1, column, WORLD));
  for (int i = 0; i < kRows; ++i)
    for (int of = 0; of <= ranks; ++of) CHECK(other[i][of] == (of < ranks ? element(of, i, 9) : -1));
  OK(FMI_Allgather(FMI_IN_PLACE, 0, column, matrix, 1, column, WORLD));
  for (int i = 0; i < kRows; ++i)
    for (int of = 0; of <= ranks; ++of) CHECK(matrix[i][of] == (of < ranks ? element(of, i, of) : element(rank, i, of)));
  OK(FMI_Type_free(&column));
}

/* A type that was made in the loop is there for the successor, by the number that its array has. */
static void survive(void) {
  FMI_Datatype column = FMI_DATATYPE_NULL;
  int step, sum;
  void* arrays[] = {&column, matrix};
  int bytes[] = {sizeof column, sizeof matrix};
  fill();
  while ((step = FMI_Loop(arrays, bytes, 1)) < 6) {
    if (step == 1) column = new_column();
    if (FMI_Barrier(WORLD) != FMI_SUCCESS) continue;
    if (step == 3 && rank == 1 && !was_started_again()) die();
    if (step < 2) continue;
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (FMI_Sendrecv(&matrix[0][step], 1, column, next, 0, &matrix[0][10 + step], 1, column, previous, 0, WORLD,
                     FMI_STATUS_IGNORE) != FMI_SUCCESS)
      continue;
    if (FMI_Allreduce(&step, &sum, 1, FMI_INT, FMI_SUM, WORLD) != FMI_SUCCESS) continue;
    for (int i = 0; i < kRows; ++i) CHECK(matrix[i][10 + step] == element(previous, i, step));
  }
}

static void misuse(const char* name) {
  int value[8] = {0};
  FMI_Datatype type, left;
  if (strcmp(name, "uncommitted") == 0) {
    OK(FMI_Type_contiguous(2, FMI_INT, &type));
    FMI_Send(value, 1, type, 0, 0, WORLD);
  } else if (strcmp(name, "freed") == 0) {
    OK(FMI_Type_contiguous(2, FMI_INT, &type));
    left = type;
    OK(FMI_Type_free(&type));
    FMI_Type_commit(&left);
  } else if (strcmp(name, "null") == 0) {
    FMI_Bcast(value, 1, FMI_DATATYPE_NULL, 0, WORLD);
  } else if (strcmp(name, "never") == 0) {
    FMI_Type_vector(1, 1, 1, 77, &type);
  } else if (strcmp(name, "free-basic") == 0) {
    type = FMI_INT;
    FMI_Type_free(&type);
  } else if (strcmp(name, "reduce") == 0) {
    OK(FMI_Type_contiguous(2, FMI_INT, &type));
    OK(FMI_Type_commit(&type));
    FMI_Allreduce(FMI_IN_PLACE, value, 1, type, FMI_SUM, WORLD);
  } else if (strcmp(name, "truncated") == 0) {
    OK(FMI_Type_vector(2, 1, 3, FMI_INT, &type));
    OK(FMI_Type_commit(&type));
    if (rank == 1) FMI_Send(value, 3, FMI_INT, 0, 4, WORLD);
    if (rank == 0) FMI_Recv(value, 1, type, 1, 4, WORLD, FMI_STATUS_IGNORE);
  } else if (strcmp(name, "count") == 0) {
    FMI_Type_contiguous(-1, FMI_INT, &type);
  } else if (strcmp(name, "too-large") == 0) {
    OK(FMI_Type_contiguous(0x7fffffff, FMI_DOUBLE, &type));
    FMI_Type_contiguous(0x7fffffff, type, &type);
  } else {
    fail(__FILE__, __LINE__, name);
  }
  FMI_Barrier(WORLD);
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  begin(&argc, &argv);
  if (strcmp(name, "all") == 0) {
    for (int round = 0; round < 5; ++round) {
      sizes();
      go_round();
      triangle();
      particles();
      collectives();
    }
  } else if (strcmp(name, "survive") == 0) {
    survive();
  } else {
    misuse(name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
