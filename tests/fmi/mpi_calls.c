/* What the tests of the MPI ABI ask of it: built once, run by MPICH's mpiexec and by fmirun. `mpi_calls CASE`; rank 0 tells what
 * the calls of "all" have given, and both are to give the same. */
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

static int rank, ranks;

static void fail(int line, const char* condition) {
  fprintf(stderr, "mpi_calls.c:%d: rank %d: %s does not hold\n", line, rank, condition);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* From rank 0 alone, in this order. */
static void tell(const char* what, double value) {
  if (rank == 0) printf("%s %g\n", what, value);
}

static void messages(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int got[4] = {-1, -1, -1, -1}, count = -1, flag = 0;
  const int sent[2] = {rank, 100 + rank};
  MPI_Status status, statuses[4];
  MPI_Request requests[4];
  CHECK(MPI_Sendrecv(sent, 2, MPI_INT, next, 7, got, 4, MPI_INT, previous, 7, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
  CHECK(MPI_Get_count(&status, MPI_INT, &count) == MPI_SUCCESS);
  CHECK(got[0] == previous && got[1] == 100 + previous && count == 2);
  CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 7);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  CHECK(count == 1);
  MPI_Sendrecv(sent, 1, MPI_INT, next, 7, got, 4, MPI_INT, previous, 7, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  CHECK(count == MPI_UNDEFINED);

  /* Nobody, and nothing. */
  CHECK(MPI_Recv(got, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0);
  requests[0] = MPI_REQUEST_NULL;
  CHECK(MPI_Wait(&requests[0], &status) == MPI_SUCCESS && status.MPI_SOURCE == MPI_ANY_SOURCE);

  /* From anybody, with any tag. */
  if (rank == 0) {
    int sum = 0;
    for (int i = 1; i < ranks; ++i) {
      MPI_Recv(got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      CHECK(status.MPI_SOURCE == got[0] && status.MPI_TAG == 50 + got[0]);
      sum += got[0];
    }
    tell("from anybody", sum);
  } else {
    MPI_Send(&rank, 1, MPI_INT, 0, 50 + rank, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);

  /* Long ones, with requests that are none among them. */
  enum { kLong = 100000 };
  double *out = malloc(kLong * sizeof *out), *in = malloc(kLong * sizeof *in);
  for (int i = 0; i < kLong; ++i) out[i] = rank + i;
  MPI_Irecv(in, kLong, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, kLong, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
  requests[2] = MPI_REQUEST_NULL;
  MPI_Irecv(in, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[3]);
  CHECK(MPI_Waitall(4, requests, statuses) == MPI_SUCCESS);
  MPI_Get_count(&statuses[0], MPI_DOUBLE, &count);
  CHECK(count == kLong && statuses[0].MPI_SOURCE == previous && in[kLong - 1] == previous + kLong - 1);
  for (int i = 0; i < 4; ++i) CHECK(requests[i] == MPI_REQUEST_NULL);
  free(out);
  free(in);

  MPI_Irecv(got, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  CHECK(!flag && requests[0] != MPI_REQUEST_NULL);
  MPI_Isend(&rank, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[1]);
  while (!flag) MPI_Test(&requests[0], &flag, &status);
  CHECK(got[0] == rank && status.MPI_SOURCE == rank && requests[0] == MPI_REQUEST_NULL);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

static void collectives(void) {
  const int root = ranks - 1;
  int value = rank, result = -1, all[256];
  double real = rank + 0.5, sum = 0;
  struct {
    double value;
    int place;
  } own = {rank % 2 ? -1.0 : 1.0, rank}, least, greatest;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Reduce(&value, &result, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  CHECK(result == (rank == root ? ranks * (ranks - 1) / 2 : -1));
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &real, &real, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  tell("greatest", real);
  real = rank + 0.5;
  MPI_Allreduce(&real, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  tell("sum", sum);
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  tell("bits", value);
  MPI_Allreduce(&own, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  MPI_Allreduce(&own, &greatest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  tell("least", least.value);
  tell("least at", least.place);
  tell("greatest at", greatest.place);
  long long wide = 1LL << 40;
  MPI_Allreduce(MPI_IN_PLACE, &wide, 1, MPI_LONG_LONG_INT, MPI_SUM, MPI_COMM_WORLD);
  tell("wide", (double)wide);
  uint8_t small = 2;
  MPI_Allreduce(MPI_IN_PLACE, &small, 1, MPI_UINT8_T, MPI_PROD, MPI_COMM_WORLD);
  tell("small", small);
  value = rank == root ? 77 : 0;
  MPI_Bcast(&value, 1, MPI_INT, root, MPI_COMM_WORLD);
  tell("given", value);
  MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; rank == root && i < ranks; ++i) CHECK(all[i] == i);
  memset(all, -1, sizeof all);
  all[rank] = 3 * rank;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
  tell("gathered", all[ranks - 1]);
}

/* Sends that wait for their receives, messages that are looked at before they are received, requests of which any will do. */
static void questions(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int got[3] = {-1, -1, -1}, flag = 0, count = 0, index = -1, sum = 0;
  MPI_Status status, statuses[3];
  MPI_Request requests[3];
  MPI_Issend(&rank, 1, MPI_INT, next, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  CHECK(!flag || ranks > 1);
  MPI_Probe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 4 && count == 1);
  MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
  MPI_Iprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &flag, &status);
  CHECK(flag && status.MPI_SOURCE == previous);
  MPI_Recv(got, 1, MPI_INT, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  CHECK(got[0] == previous);
  if (ranks > 1) {
    if (rank % 2 == 0 && rank + 1 < ranks) MPI_Ssend(NULL, 0, MPI_BYTE, rank + 1, 6, MPI_COMM_WORLD);
    if (rank % 2 == 1) MPI_Recv(NULL, 0, MPI_BYTE, rank - 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  for (int i = 0; i < 3; ++i) MPI_Irecv(&got[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Testall(3, requests, &flag, statuses);
  CHECK(!flag && requests[0] != MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 2; i >= 0; --i) MPI_Send(&i, 1, MPI_INT, next, i, MPI_COMM_WORLD);
  MPI_Waitany(3, requests, &index, &status);
  CHECK(index >= 0 && index < 3 && status.MPI_TAG == index && requests[index] == MPI_REQUEST_NULL);
  while (!flag) MPI_Testall(3, requests, &flag, statuses);
  for (int i = 0; i < 3; ++i) sum += got[i];
  CHECK(sum == 3 && statuses[index].MPI_SOURCE == MPI_ANY_SOURCE);
  MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
  CHECK(index == MPI_UNDEFINED);
}

/* Rank r gives r + 1 numbers; those of others lie with a gap between them. */
static void pieces(void) {
  const int root = ranks / 2;
  int counts[64], places[64], own[64], all[2048], total = 0, sum = 0;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = i + 1;
    places[i] = total;
    total += counts[i] + 1;
  }
  for (int i = 0; i <= rank; ++i) own[i] = 100 * rank + i;
  memset(all, -1, sizeof all);
  MPI_Gatherv(own, rank + 1, MPI_INT, all, counts, places, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; rank == root && i < ranks; ++i) CHECK(all[places[i] + i] == 101 * i && all[places[i] + i + 1] == -1);
  memset(all, -1, sizeof all);
  memcpy(&all[places[rank]], own, (rank + 1) * sizeof *own);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) CHECK(all[places[i] + i] == 101 * i && all[places[i] + i + 1] == -1);

  for (int i = 0; i < total; ++i) all[i] = rank == root ? i : -1;
  MPI_Scatterv(all, counts, places, MPI_INT, own, rank + 1, MPI_INT, root, MPI_COMM_WORLD);
  CHECK(own[rank] == places[rank] + rank);
  MPI_Scatter(all, 2, MPI_INT, rank == root ? MPI_IN_PLACE : own, 2, MPI_INT, root, MPI_COMM_WORLD);
  CHECK(rank == root || own[1] == 2 * rank + 1);

  /* To rank r go r + 1 numbers. */
  for (int i = 0; i < total; ++i) all[i] = 1000 * rank + i;
  int here[64 * 64], gaps[64], same[64];
  for (int i = 0; i < ranks; ++i) {
    same[i] = rank + 1;
    gaps[i] = (rank + 1) * (ranks - 1 - i);
  }
  MPI_Alltoallv(all, counts, places, MPI_INT, here, same, gaps, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) CHECK(here[gaps[i] + rank] == 1000 * i + places[rank] + rank);
  for (int i = 0; i < ranks; ++i) all[i] = 10 * rank + i;
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) CHECK(all[i] == 10 * i + rank);
  MPI_Alltoall(all, 1, MPI_INT, here, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) CHECK(here[i] == 10 * rank + i);
  MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == rank * (rank + 1) / 2);
}

/* x -> factor * x + add: composed in the order of ranks. */
struct line {
  int factor;
  double add;
};
static MPI_Datatype line_type;

static void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  const struct line* first = in;
  struct line* second = inout;
  CHECK(*type == line_type);
  for (int i = 0; i < *count; ++i) {
    second[i].add += second[i].factor * first[i].add;
    second[i].factor *= first[i].factor;
  }
}

static void keep_second(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) {
  (void)in, (void)inout;
  CHECK(*count == 3 && *type == MPI_INT64_T);
}

static void operations(void) {
  const int lengths[2] = {1, 1}, root = ranks / 2;
  const MPI_Aint offsets[2] = {offsetof(struct line, factor), offsetof(struct line, add)};
  const MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Op composing, keeping;
  int commutes = -1;
  MPI_Type_create_struct(2, lengths, offsets, parts, &line_type);
  MPI_Type_commit(&line_type);
  MPI_Op_create(compose, 0, &composing);
  MPI_Op_commutative(composing, &commutes);
  CHECK(commutes == 0);
  MPI_Op_commutative(MPI_SUM, &commutes);
  CHECK(commutes == 1);
  struct line own[2] = {{2 + rank % 2, rank}, {-1, 0.5}}, all[2], expected[2] = {{1, 0}, {1, 0}}, until[2] = {{0, 0}, {0, 0}};
  for (int i = 0; i < ranks; ++i) {
    struct line next[2] = {{2 + i % 2, i}, {-1, 0.5}};
    int two = 2;
    compose(expected, next, &two, &line_type);
    memcpy(expected, next, sizeof next);
    if (i == rank) memcpy(until, next, sizeof next);
  }
  MPI_Allreduce(own, all, 2, line_type, composing, MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) {
    CHECK(all[i].factor == expected[i].factor && all[i].add == expected[i].add);
    tell("composed", all[i].add);
  }
  memset(all, 0, sizeof all);
  MPI_Reduce(own, all, 2, line_type, composing, root, MPI_COMM_WORLD);
  if (rank == root) CHECK(all[0].factor == expected[0].factor && all[0].add == expected[0].add);
  MPI_Scan(own, all, 2, line_type, composing, MPI_COMM_WORLD);
  CHECK(all[0].factor == until[0].factor && all[0].add == until[0].add && all[1].add == until[1].add);
  MPI_Exscan(own, all, 1, line_type, composing, MPI_COMM_WORLD);
  if (rank > 0) CHECK(all[0].factor * own[0].factor == until[0].factor);
  int counts[64], numbers_of_all[64], part[64] = {0};
  for (int i = 0; i < ranks; ++i) {
    counts[i] = i % 2;
    numbers_of_all[i] = 10 * rank + i;
  }
  MPI_Reduce_scatter(numbers_of_all, part, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(part[0] == (rank % 2 ? 10 * (ranks - 1) + rank / 2 : 0) && part[1] == 0);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, numbers_of_all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(numbers_of_all[0] == 10 * (ranks - 1) + rank);
  all[0] = until[0];
  MPI_Reduce_local(own, all, 1, line_type, composing);
  CHECK(all[0].factor == until[0].factor * own[0].factor);
  MPI_Op_free(&composing);
  MPI_Type_free(&line_type);
  CHECK(composing == MPI_OP_NULL);

  int64_t numbers[3] = {rank, rank + 1, rank + 2}, last[3];
  MPI_Op_create_c(keep_second, 0, &keeping);
  MPI_Allreduce(numbers, last, 3, MPI_INT64_T, keeping, MPI_COMM_WORLD);
  CHECK(last[0] == ranks - 1 && last[2] == ranks + 1);
  MPI_Op_free(&keeping);
}

static void persistent(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int sent[4], got[4], finished = 0, indices[8], index = -1, flag = -1, bytes = 0, sum = 0;
  MPI_Request requests[8], one;
  MPI_Status statuses[8], status;
  static char attached[100 + 4 * MPI_BSEND_OVERHEAD];
  void* room = NULL;
  MPI_Buffer_attach(attached, sizeof attached);
  MPI_Send_init(&sent[0], 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Ssend_init(&sent[1], 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Bsend_init(&sent[2], 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[2]);
  for (int i = 0; i < 3; ++i) MPI_Recv_init(&got[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[3 + i]);
  MPI_Send_init(&sent[3], 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[6]);
  MPI_Recv_init(&got[3], 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[7]);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) sent[i] = 100 * rank + 10 * round + i;
    got[3] = -1;
    MPI_Testall(8, requests, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag);
    MPI_Testany(8, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Startall(7, requests);
    MPI_Start(&requests[7]);
    for (int all = 0; all < 6; all += finished) {
      round % 2 ? MPI_Waitsome(6, requests, &finished, indices, statuses)
                : MPI_Testsome(6, requests, &finished, indices, statuses);
      CHECK(finished >= round % 2);
      for (int i = 0; i < finished; ++i) {
        if (indices[i] >= 3) CHECK(statuses[i].MPI_SOURCE == previous && statuses[i].MPI_TAG == indices[i] - 3);
      }
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    MPI_Waitsome(8, requests, &finished, indices, statuses);
    CHECK(finished == MPI_UNDEFINED && got[3] == -1);
    for (int i = 0; i < 3; ++i) {
      CHECK(got[i] == 100 * previous + 10 * round + i);
      sum += got[i];
    }
  }
  tell("persistent", sum);
  for (int i = 0; i < 8; ++i) MPI_Request_free(&requests[i]);
  CHECK(requests[5] == MPI_REQUEST_NULL);

  MPI_Irecv(&got[0], 1, MPI_INT, previous, 9, MPI_COMM_WORLD, &one);
  MPI_Rsend_init(&rank, 1, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Start(&requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Waitall(1, &one, MPI_STATUSES_IGNORE);
  MPI_Irecv(&got[1], 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &one);
  MPI_Waitany(1, &one, &index, &status);
  CHECK(got[0] == previous && index == 0 && status.MPI_SOURCE == MPI_PROC_NULL && one == MPI_REQUEST_NULL);
  got[0] = rank;
  MPI_Sendrecv_replace(got, 1, MPI_INT, next, 4, previous, 4, MPI_COMM_WORLD, &status);
  CHECK(got[0] == previous && status.MPI_TAG == 4);
  sent[0] = rank;
  MPI_Bsend(sent, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
  MPI_Ibsend(sent, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &one);
  MPI_Wait(&one, MPI_STATUS_IGNORE);
  sent[0] = -1;
  MPI_Recv(&got[0], 1, MPI_INT, previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(&got[1], 1, MPI_INT, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got[0] == previous && got[1] == previous);
  MPI_Buffer_detach(&room, &bytes);
  CHECK(room == attached && bytes == sizeof attached);
}

static void communicators(void) {
  MPI_Comm copy, half, none, grid, row, self;
  MPI_Group world, first;
  int size, at, compared, zero = 0, sizes[2] = {0, 0}, coordinates[2], low, high, rows[2] = {0, 1}, dimensions;
  const int periods[2] = {1, 0};
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_compare(MPI_COMM_WORLD, copy, &compared);
  CHECK(compared == MPI_CONGRUENT);
  MPI_Comm_compare(copy, copy, &compared);
  CHECK(compared == MPI_IDENT);
  MPI_Comm_split(copy, rank % 2, -rank, &half);
  MPI_Comm_rank(half, &at);
  MPI_Comm_size(half, &size);
  CHECK(at == size - 1 - rank / 2);
  tell("half", size);
  MPI_Comm_split(copy, rank == 0 ? MPI_UNDEFINED : 1, 0, &none);
  CHECK((none == MPI_COMM_NULL) == (rank == 0));
  MPI_Comm_size(MPI_COMM_SELF, &size);
  MPI_Allreduce(&rank, &at, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  CHECK(size == 1 && at == rank);

  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &zero, &first);
  MPI_Group_rank(first, &at);
  CHECK(at == (rank == 0 ? 0 : MPI_UNDEFINED));
  MPI_Comm_create(MPI_COMM_WORLD, first, &self);
  CHECK((self == MPI_COMM_NULL) == (rank != 0));
  const int asked[2] = {0, MPI_PROC_NULL};
  MPI_Group_translate_ranks(first, 2, asked, MPI_GROUP_EMPTY, coordinates);
  CHECK(coordinates[0] == MPI_UNDEFINED && coordinates[1] == MPI_PROC_NULL);
  MPI_Group_free(&first);
  MPI_Group_free(&world);
  CHECK(first == MPI_GROUP_NULL);

  MPI_Dims_create(ranks, 2, sizes);
  MPI_Cart_create(copy, 2, sizes, periods, 0, &grid);
  MPI_Cart_coords(grid, rank, 2, coordinates);
  MPI_Cart_rank(grid, coordinates, &at);
  CHECK(at == rank);
  MPI_Cart_shift(grid, 1, 1, &low, &high);
  CHECK(low == (coordinates[1] == 0 ? MPI_PROC_NULL : rank - 1));
  CHECK(high == (coordinates[1] == sizes[1] - 1 ? MPI_PROC_NULL : rank + 1));
  MPI_Cartdim_get(grid, &dimensions);
  MPI_Cart_sub(grid, rows, &row);
  MPI_Comm_size(row, &size);
  CHECK(dimensions == 2 && size == sizes[1]);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  if (none != MPI_COMM_NULL) MPI_Comm_free(&none);
  if (self != MPI_COMM_NULL) MPI_Comm_free(&self);
  CHECK(copy == MPI_COMM_NULL);
}

static void types(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  double matrix[4][4], column[4] = {0, 0, 0, 0};
  MPI_Datatype columns, pair, triple;
  MPI_Aint lower, extent, offsets[2];
  struct particle {
    int id;
    double place[3];
  } own = {rank, {1, 2, 3 + rank}}, other = {-1, {0, 0, 0}};
  int bytes, count;
  MPI_Status status;
  for (int i = 0; i < 16; ++i) matrix[i / 4][i % 4] = 100 * rank + i;
  MPI_Type_vector(4, 1, 4, MPI_DOUBLE, &columns);
  MPI_Type_commit(&columns);
  MPI_Type_size(columns, &bytes);
  MPI_Type_get_extent(columns, &lower, &extent);
  tell("column", bytes);
  tell("column reaches", (double)extent);
  MPI_Sendrecv(&matrix[0][1], 1, columns, next, 0, column, 4, MPI_DOUBLE, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 4; ++i) CHECK(column[i] == 100 * previous + 4 * i + 1);

  const int lengths[2] = {1, 3};
  const MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Get_address(&own, &lower);
  MPI_Get_address(&own.place, &offsets[1]);
  offsets[0] = 0;
  offsets[1] = MPI_Aint_diff(offsets[1], lower);
  MPI_Type_create_struct(2, lengths, offsets, parts, &pair);
  MPI_Type_commit(&pair);
  MPI_Type_get_extent(pair, &lower, &extent);
  CHECK(extent == sizeof own);
  MPI_Sendrecv(&own, 1, pair, next, 0, &other, 1, pair, previous, 0, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, pair, &count);
  CHECK(count == 1 && other.id == previous && other.place[2] == 3 + previous);
  MPI_Type_contiguous(3, MPI_INT, &triple);
  MPI_Type_size(triple, &bytes);
  tell("triple", bytes);
  MPI_Type_free(&triple);
  MPI_Type_free(&pair);
  MPI_Type_free(&columns);
  CHECK(columns == MPI_DATATYPE_NULL);
}

/* What programs such as LAMMPS also ask for. */
static void parts(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const int sizes[2] = {5, 7}, counts[2] = {2, 3}, begins[2] = {1, 4}, places[2] = {1, 5};
  const MPI_Aint offsets[2] = {4, 20};
  int from[5][7], to[5][7], line[8] = {0, 1, 2, 3, 4, 5, 6, 7}, got[4] = {-1, -1, -1, -1};
  int bytes, position = 0, size, at, compared, ranges[1][3] = {{ranks - 1, 0, -1}};
  char packed[100];
  MPI_Datatype box, turned, blocks, far_blocks;
  MPI_Aint lower, extent;
  MPI_Group world, reversed, made;
  MPI_Comm here;
  void* memory = NULL;
  for (int i = 0; i < 35; ++i) ((int*)from)[i] = 100 * rank + i;
  memset(to, -1, sizeof to);
  MPI_Type_create_subarray(2, sizes, counts, begins, MPI_ORDER_C, MPI_INT, &box);
  MPI_Type_create_subarray(2, sizes, counts, begins, MPI_ORDER_FORTRAN, MPI_INT, &turned);
  MPI_Type_commit(&box);
  MPI_Type_get_extent(turned, &lower, &extent);
  tell("turned from", (double)lower);
  tell("turned reaches", (double)extent);
  MPI_Type_get_true_extent(turned, &lower, &extent);
  tell("turned truly from", (double)lower);
  tell("turned truly reaches", (double)extent);
  MPI_Sendrecv(from, 1, box, next, 0, to, 1, box, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(to[1][4] == 100 * previous + 11 && to[2][6] == 100 * previous + 20 && to[1][3] == -1 && to[3][4] == -1);
  MPI_Pack_size(1, box, MPI_COMM_WORLD, &bytes);
  CHECK(bytes >= 24);
  MPI_Pack(&rank, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
  MPI_Pack(from, 1, box, packed, sizeof packed, &position, MPI_COMM_WORLD);
  bytes = position;
  MPI_Sendrecv_replace(packed, bytes, MPI_PACKED, next, 1, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  position = 0;
  memset(to, -1, sizeof to);
  MPI_Unpack(packed, bytes, &position, &at, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Unpack(packed, bytes, &position, to, 1, box, MPI_COMM_WORLD);
  CHECK(at == previous && position == bytes && to[2][5] == 100 * previous + 19);
  MPI_Type_create_indexed_block(2, 2, places, MPI_INT, &blocks);
  MPI_Type_create_hindexed_block(2, 2, offsets, MPI_INT, &far_blocks);
  MPI_Type_commit(&blocks);
  MPI_Type_commit(&far_blocks);
  MPI_Sendrecv(line, 1, blocks, rank, 2, got, 4, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got[0] == 1 && got[1] == 2 && got[2] == 5 && got[3] == 6);
  memset(got, -1, sizeof got);
  MPI_Sendrecv(line, 1, far_blocks, rank, 2, got, 4, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got[0] == 1 && got[1] == 2 && got[2] == 5 && got[3] == 6);

  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, ranges, &reversed);
  MPI_Group_rank(reversed, &at);
  CHECK(at == ranks - 1 - rank);
  MPI_Group_compare(world, reversed, &compared);
  CHECK(compared == (ranks == 1 ? MPI_IDENT : MPI_SIMILAR));
  ranges[0][1] = ranks - 1;
  MPI_Group_range_excl(world, 1, ranges, &made);
  MPI_Group_size(made, &size);
  CHECK(size == ranks - 1);
  MPI_Group_difference(world, made, &reversed);
  MPI_Group_union(reversed, world, &made);
  MPI_Group_rank(made, &at);
  tell("of all", at);
  MPI_Group_intersection(made, reversed, &made);
  MPI_Group_size(made, &size);
  tell("in both", size);

  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &here);
  MPI_Comm_size(here, &size);
  MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MIN, here);
  CHECK(size >= 1 && size <= ranks);
  MPI_Comm_size(MPI_Comm_fromint(MPI_Comm_toint(here)), &at);
  CHECK(at == size && MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  CHECK(MPI_Type_fromint(MPI_Type_toint(box)) == box && MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
  MPI_Is_thread_main(&at);
  CHECK(at);
  MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory);
  memset(memory, 1, 1000);
  MPI_Free_mem(memory);
}

/* Of what the ABI gives a number, so that a wrong one shows. */
static void sizes(void) {
  const MPI_Datatype all[] = {MPI_AINT,
                              MPI_COUNT,
                              MPI_OFFSET,
                              MPI_PACKED,
                              MPI_SHORT,
                              MPI_INT,
                              MPI_LONG,
                              MPI_LONG_LONG,
                              MPI_UNSIGNED_SHORT,
                              MPI_UNSIGNED,
                              MPI_UNSIGNED_LONG,
                              MPI_UNSIGNED_LONG_LONG,
                              MPI_FLOAT,
                              MPI_C_FLOAT_COMPLEX,
                              MPI_CXX_FLOAT_COMPLEX,
                              MPI_DOUBLE,
                              MPI_C_DOUBLE_COMPLEX,
                              MPI_CXX_DOUBLE_COMPLEX,
                              MPI_LONG_DOUBLE,
                              MPI_2INT,
                              MPI_C_BOOL,
                              MPI_CXX_BOOL,
                              MPI_WCHAR,
                              MPI_INT8_T,
                              MPI_UINT8_T,
                              MPI_CHAR,
                              MPI_SIGNED_CHAR,
                              MPI_UNSIGNED_CHAR,
                              MPI_BYTE,
                              MPI_INT16_T,
                              MPI_UINT16_T,
                              MPI_INT32_T,
                              MPI_UINT32_T,
                              MPI_INT64_T,
                              MPI_UINT64_T};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    int bytes;
    MPI_Type_size(all[i], &bytes);
    tell("size", bytes);
  }
  /* 12 and 10 in all bits; 0 and 5. */
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
    int values[2] = {rank % 2 ? 12 : 10, rank % 2 ? 0 : 5};
    MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_INT, ops[i], MPI_COMM_WORLD);
    tell("of bits", values[0]);
    tell("of one", values[1]);
  }
}

static void environment(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0, flag = 0, version, subversion, *bound = NULL;
  MPI_Errhandler handler;
  MPI_Initialized(&flag);
  CHECK(flag);
  MPI_Finalized(&flag);
  CHECK(!flag);
  MPI_Get_version(&version, &subversion);
  tell("version", version + 0.1 * subversion);
  MPI_Get_processor_name(text, &length);
  CHECK(length > 0 && (int)strlen(text) == length);
  MPI_Error_string(MPI_SUCCESS, text, &length);
  CHECK(length > 0 && (int)strlen(text) == length);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
  CHECK(flag && *bound >= 32767);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  CHECK(handler == MPI_ERRORS_RETURN);
  const double begin = MPI_Wtime();
  CHECK(MPI_Wtime() >= begin && MPI_Wtick() > 0);
  CHECK(MPI_Pcontrol(1) == MPI_SUCCESS);
  PMPI_Comm_size(MPI_COMM_WORLD, &length);
  CHECK(length == ranks);
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(provided >= MPI_THREAD_FUNNELED);
  if (strcmp(name, "all") == 0) {
    environment();
    messages();
    questions();
    collectives();
    pieces();
    operations();
    persistent();
    communicators();
    types();
    parts();
    sizes();
  } else if (strcmp(name, "missing") == 0) {
    MPI_Win window;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  } else if (strcmp(name, "no-such-type") == 0) {
    MPI_Bcast(&provided, 1, MPI_REAL2, 0, MPI_COMM_WORLD);
  } else if (strcmp(name, "no-such-rank") == 0) {
    MPI_Send(&provided, 1, MPI_INT, -2, 0, MPI_COMM_WORLD);
  } else if (strcmp(name, "dies") == 0) {
    /* Its results are not looked at, and nothing tells them from right ones. */
    int sum = -1;
    if (rank == 1 && atoi(getenv("FMI_RESPAWNS")) == 0) raise(SIGKILL);
    for (int i = 0; i < 100; ++i) {
      sum = -1;
      MPI_Allreduce(&ranks, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    tell("sum", sum);
  } else if (strcmp(name, "abort") == 0) {
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    fail(__LINE__, name);
  }
  MPI_Finalize();
  if (rank == 0) printf("ok\n");
  return 0;
}
