/* Requests that are started again and again, freed, or looked at by the dozen: `fmirun -n RANKS fmi_requests CASE`. */
#include <string.h>

#include "checks.h"

enum { kLong = 200000 };

static int next, previous;

/* In a ring, of all modes, short and long, side by side and with gaps. */
static void persistent(void) {
  FMI_Request requests[8];
  FMI_Status statuses[8];
  FMI_Datatype column;
  int sent[8], got[8], matrix[4][4], rows[4][4], flag = -1, room_bytes;
  double *out = malloc(kLong * sizeof *out), *in = malloc(kLong * sizeof *in);
  static char attached[1000];
  void* room = NULL;
  OK(FMI_Type_vector(4, 1, 4, FMI_INT, &column));
  OK(FMI_Type_commit(&column));
  OK(FMI_Buffer_attach(attached, sizeof attached));
  OK(FMI_Send_init(&sent[0], 1, FMI_INT, next, 1, WORLD, &requests[0]));
  OK(FMI_Ssend_init(&matrix[0][1], 1, column, next, 2, WORLD, &requests[1]));
  OK(FMI_Bsend_init(&sent[2], 1, FMI_INT, next, 3, WORLD, &requests[2]));
  OK(FMI_Send_init(out, kLong, FMI_DOUBLE, next, 4, WORLD, &requests[3]));
  OK(FMI_Recv_init(&got[0], 1, FMI_INT, previous, 1, WORLD, &requests[4]));
  OK(FMI_Recv_init(&rows[0][2], 1, column, FMI_ANY_SOURCE, 2, WORLD, &requests[5]));
  OK(FMI_Recv_init(&got[2], 1, FMI_INT, previous, FMI_ANY_TAG, WORLD, &requests[6]));
  OK(FMI_Recv_init(in, kLong, FMI_DOUBLE, previous, 4, WORLD, &requests[7]));
  /* Not started: complete, and nothing. */
  OK(FMI_Waitall(8, requests, statuses));
  CHECK(statuses[7].FMI_SOURCE == FMI_ANY_SOURCE && statuses[7].FMI_TAG == FMI_ANY_TAG && statuses[7].bytes == 0);
  OK(FMI_Test(&requests[4], &flag, FMI_STATUS_IGNORE));
  CHECK(flag == 1);
  FMI_Request before[8];
  memcpy(before, requests, sizeof before);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) {
      sent[i] = 100 * rank + 10 * round + i;
      for (int k = 0; k < 4; ++k) matrix[i][k] = 1000 * rank + 16 * round + 4 * i + k;
    }
    for (int i = 0; i < kLong; ++i) out[i] = rank + round + i;
    memset(rows, -1, sizeof rows);
    OK(FMI_Startall(7, &requests[1]));
    OK(FMI_Start(&requests[0]));
    /* Its copy is on the way. */
    OK(FMI_Wait(&requests[2], FMI_STATUS_IGNORE));
    const int kept = sent[2];
    sent[2] = -1;
    OK(FMI_Waitall(8, requests, statuses));
    sent[2] = kept;
    CHECK(got[0] == 100 * previous + 10 * round && statuses[4].FMI_SOURCE == previous);
    for (int i = 0; i < 4; ++i) {
      CHECK(rows[i][2] == 1000 * previous + 16 * round + 4 * i + 1 && rows[i][1] == -1 && rows[i][3] == -1);
    }
    CHECK(statuses[5].FMI_SOURCE == previous && statuses[5].bytes == 4 * sizeof(int));
    CHECK(got[2] == 100 * previous + 10 * round + 2 && statuses[6].FMI_TAG == 3);
    CHECK(in[kLong - 1] == previous + round + kLong - 1);
    CHECK(memcmp(before, requests, sizeof before) == 0);
    OK(FMI_Barrier(WORLD));
  }
  for (int i = 0; i < 8; ++i) {
    OK(FMI_Request_free(&requests[i]));
    CHECK(requests[i] == FMI_REQUEST_NULL);
  }
  OK(FMI_Buffer_detach(&room, &room_bytes));
  CHECK(room == attached && room_bytes == sizeof attached);
  free(out);
  free(in);
}

/* What is freed while it is under way comes all the same. */
static void freed(void) {
  FMI_Datatype column;
  FMI_Request request;
  double* out = malloc(kLong * sizeof *out);
  int matrix[3][2] = {{rank, -1}, {rank + 1, -1}, {rank + 2, -1}}, got[3][2];
  OK(FMI_Type_vector(3, 1, 2, FMI_INT, &column));
  OK(FMI_Type_commit(&column));
  for (int i = 0; i < kLong; ++i) out[i] = rank * 2.0 + i;
  OK(FMI_Isend(out, kLong, FMI_DOUBLE, next, 1, WORLD, &request));
  OK(FMI_Request_free(&request));
  OK(FMI_Send_init(matrix, 1, column, next, 2, WORLD, &request));
  OK(FMI_Start(&request));
  OK(FMI_Request_free(&request));
  /* A receive of a type with gaps; what comes after it tells that it is there. */
  memset(got, 7, sizeof got);
  OK(FMI_Irecv(got, 1, column, previous, 2, WORLD, &request));
  OK(FMI_Request_free(&request));
  OK(FMI_Send(&rank, 1, FMI_INT, next, 3, WORLD));
  int its = -1;
  OK(FMI_Recv(&its, 1, FMI_INT, previous, 3, WORLD, FMI_STATUS_IGNORE));
  for (int i = 0; i < 3; ++i) CHECK(got[i][0] == previous + i && got[i][1] == 0x07070707);
  double* in = malloc(kLong * sizeof *in);
  OK(FMI_Recv(in, kLong, FMI_DOUBLE, previous, 1, WORLD, FMI_STATUS_IGNORE));
  CHECK(in[0] == previous * 2.0 && in[kLong - 1] == previous * 2.0 + kLong - 1);
  OK(FMI_Barrier(WORLD));
  free(in);
  free(out);
}

/* The first of them that are complete, and how many. */
static void some(void) {
  enum { kCount = 6 };
  FMI_Request requests[kCount], nobody[3] = {FMI_REQUEST_NULL, FMI_REQUEST_NULL, FMI_REQUEST_NULL};
  FMI_Status statuses[kCount], status;
  int got[kCount], indices[kCount], finished = 7, index = 7, flag = 7, seen[kCount] = {0}, all = 0;
  OK(FMI_Waitsome(3, nobody, &finished, indices, statuses));
  CHECK(finished == FMI_UNDEFINED);
  finished = 7;
  OK(FMI_Testsome(3, nobody, &finished, indices, statuses));
  CHECK(finished == FMI_UNDEFINED);
  OK(FMI_Testany(3, nobody, &index, &flag, &status));
  CHECK(index == FMI_UNDEFINED && flag == 1 && status.FMI_SOURCE == FMI_ANY_SOURCE);

  for (int i = 0; i < kCount; ++i) OK(FMI_Irecv(&got[i], 1, FMI_INT, rank, i, WORLD, &requests[i]));
  OK(FMI_Testsome(kCount, requests, &finished, indices, statuses));
  CHECK(finished == 0);
  OK(FMI_Testany(kCount, requests, &index, &flag, &status));
  CHECK(index == FMI_UNDEFINED && flag == 0);
  const int two[] = {3, 1};
  for (int i = 0; i < 2; ++i) OK(FMI_Send(&two[i], 1, FMI_INT, rank, two[i], WORLD));
  while (all < 2) {
    OK(FMI_Waitsome(kCount, requests, &finished, indices, statuses));
    CHECK(finished >= 1);
    for (int i = 0; i < finished; ++i, ++all) {
      CHECK((indices[i] == 1 || indices[i] == 3) && statuses[i].FMI_TAG == indices[i] && got[indices[i]] == indices[i]);
      CHECK(requests[indices[i]] == FMI_REQUEST_NULL && !seen[indices[i]]++);
    }
  }
  index = 4;
  OK(FMI_Send(&index, 1, FMI_INT, rank, 4, WORLD));
  for (flag = 0; !flag;) OK(FMI_Testany(kCount, requests, &index, &flag, &status));
  CHECK(index == 4 && status.FMI_TAG == 4 && got[4] == 4);
  for (int i = 0; i < kCount; ++i) {
    if (requests[i] != FMI_REQUEST_NULL) OK(FMI_Send(&i, 1, FMI_INT, rank, i, WORLD));
  }
  for (all = 0; all < 3; all += finished) OK(FMI_Testsome(kCount, requests, &finished, indices, FMI_STATUSES_IGNORE));
  CHECK(all == 3 && got[0] == 0 && got[2] == 2 && got[5] == 5);

  /* Persistent ones that are not started are none; nobody's messages are complete. */
  OK(FMI_Recv_init(&got[0], 1, FMI_INT, rank, 0, WORLD, &nobody[0]));
  OK(FMI_Waitany(3, nobody, &index, &status));
  CHECK(index == FMI_UNDEFINED);
  OK(FMI_Irecv(&got[1], 1, FMI_INT, FMI_PROC_NULL, 0, WORLD, &nobody[2]));
  CHECK(nobody[2] != FMI_REQUEST_NULL);
  OK(FMI_Waitany(3, nobody, &index, &status));
  CHECK(index == 2 && nobody[2] == FMI_REQUEST_NULL && status.FMI_SOURCE == FMI_PROC_NULL && status.FMI_TAG == FMI_ANY_TAG);
  OK(FMI_Send_init(&got[1], 1, FMI_INT, FMI_PROC_NULL, 0, WORLD, &nobody[1]));
  OK(FMI_Start(&nobody[1]));
  OK(FMI_Testany(3, nobody, &index, &flag, &status));
  CHECK(index == 1 && flag == 1 && nobody[1] != FMI_REQUEST_NULL);
  OK(FMI_Start(&nobody[0]));
  OK(FMI_Start(&nobody[1]));
  OK(FMI_Waitsome(3, nobody, &finished, indices, statuses));
  CHECK(finished == 1 && indices[0] == 1);
  index = 77;
  OK(FMI_Send(&index, 1, FMI_INT, rank, 0, WORLD));
  OK(FMI_Waitany(3, nobody, &index, &status));
  CHECK(index == 0 && got[0] == 77);
  OK(FMI_Request_free(&nobody[0]));
  OK(FMI_Request_free(&nobody[1]));
}

static void replace(void) {
  static double field[kLong];
  int matrix[3][2] = {{rank, -1}, {rank + 1, -1}, {rank + 2, -1}}, number = rank;
  FMI_Datatype column;
  FMI_Status status;
  OK(FMI_Type_vector(3, 1, 2, FMI_INT, &column));
  OK(FMI_Type_commit(&column));
  for (int i = 0; i < kLong; ++i) field[i] = rank + i;
  OK(FMI_Sendrecv_replace(&number, 1, FMI_INT, next, 1, previous, 1, WORLD, &status));
  CHECK(number == previous && status.FMI_SOURCE == previous && status.bytes == sizeof number);
  OK(FMI_Sendrecv_replace(field, kLong, FMI_DOUBLE, next, 1, FMI_ANY_SOURCE, 1, WORLD, &status));
  for (int i = 0; i < kLong; ++i) CHECK(field[i] == previous + i);
  OK(FMI_Sendrecv_replace(matrix, 1, column, next, 1, previous, 1, WORLD, &status));
  for (int i = 0; i < 3; ++i) CHECK(matrix[i][0] == previous + i && matrix[i][1] == -1);
  OK(FMI_Sendrecv_replace(&number, 1, FMI_INT, FMI_PROC_NULL, 1, FMI_PROC_NULL, 1, WORLD, &status));
  CHECK(number == previous && status.FMI_SOURCE == FMI_PROC_NULL);

  OK(FMI_Bsend(field, kLong, FMI_DOUBLE, next, 2, WORLD));
  FMI_Request request;
  OK(FMI_Ibsend(&number, 1, FMI_INT, next, 3, WORLD, &request));
  OK(FMI_Wait(&request, FMI_STATUS_IGNORE));
  const double first = field[0];
  memset(field, 0, sizeof field);
  number = -1;
  OK(FMI_Recv(field, kLong, FMI_DOUBLE, previous, 2, WORLD, FMI_STATUS_IGNORE));
  CHECK(field[0] == (previous + ranks - 1) % ranks && field[kLong - 1] == field[0] + kLong - 1 && first == previous);
  OK(FMI_Recv(&number, 1, FMI_INT, previous, 3, WORLD, FMI_STATUS_IGNORE));
  CHECK(number == (previous + ranks - 1) % ranks);
}

/* Halos by persistent requests of before the loop, one of them over a communicator that ranks make together. Rank 1 dies twice.
 */
static void survive(void) {
  enum { kSteps = 12 };
  FMI_Comm backwards;
  FMI_Request requests[4], late = FMI_REQUEST_NULL;
  int64_t state = 1 + rank, from_next = 0, from_previous = 0;
  void* arrays[] = {&state};
  int sizes[] = {sizeof state}, step;
  const int may_fail = was_started_again();
  int code = FMI_Comm_split(WORLD, 0, -rank, &backwards);
  CHECK(code == (may_fail ? FMI_ERR_PROC_FAILED : FMI_SUCCESS));
  OK(FMI_Send_init(&state, 1, FMI_LONG, next, 1, WORLD, &requests[0]));
  OK(FMI_Recv_init(&from_previous, 1, FMI_LONG, previous, 1, WORLD, &requests[1]));
  code = FMI_Ssend_init(&state, 1, FMI_LONG, ranks - 1 - previous, 2, backwards, &requests[2]);
  CHECK(code == (may_fail ? FMI_ERR_PROC_FAILED : FMI_SUCCESS));
  FMI_Recv_init(&from_next, 1, FMI_LONG, ranks - 1 - next, 2, backwards, &requests[3]);
  while ((step = FMI_Loop(arrays, sizes, 1)) < kSteps) {
    if (step == 2 && late == FMI_REQUEST_NULL) OK(FMI_Recv_init(&from_next, 1, FMI_LONG, next, 9, WORLD, &late));
    if ((step == 4 || step == 7) && rank == 1 && atoi(getenv("FMI_RESPAWNS")) == step / 3 - 1) die();
    code = FMI_Startall(4, requests);
    if (step == 7 && rank == 1 && atoi(getenv("FMI_RESPAWNS")) == 2) die();
    if (FMI_Waitall(4, requests, FMI_STATUSES_IGNORE) != FMI_SUCCESS || code != FMI_SUCCESS) continue;
    state = 3 * state + 5 * from_previous + 7 * from_next;
    if (FMI_Barrier(WORLD) != FMI_SUCCESS) continue;
  }
  int64_t expected[16], old[16];
  for (int i = 0; i < ranks; ++i) expected[i] = 1 + i;
  for (int i = 0; i < kSteps; ++i) {
    memcpy(old, expected, sizeof old);
    for (int k = 0; k < ranks; ++k) {
      expected[k] = 3 * old[k] + 5 * old[(k + ranks - 1) % ranks] + 7 * old[(k + 1) % ranks];
    }
  }
  CHECK(state == expected[rank]);
  if (rank != 1) OK(FMI_Request_free(&late));
}

static void misuse(const char* name) {
  int number = 0;
  FMI_Request request;
  FMI_Recv_init(&number, 1, FMI_INT, FMI_ANY_SOURCE, 0, WORLD, &request);
  if (strcmp(name, "started-twice") == 0) {
    FMI_Start(&request);
    FMI_Start(&request);
  } else if (strcmp(name, "freed") == 0) {
    FMI_Request copy = request;
    FMI_Request_free(&request);
    FMI_Start(&copy);
  } else if (strcmp(name, "not-persistent") == 0) {
    FMI_Irecv(&number, 1, FMI_INT, FMI_ANY_SOURCE, 0, WORLD, &request);
    FMI_Start(&request);
  } else if (strcmp(name, "null") == 0) {
    request = FMI_REQUEST_NULL;
    FMI_Request_free(&request);
  } else if (strcmp(name, "no-such-rank") == 0) {
    FMI_Send_init(&number, 1, FMI_INT, ranks, 0, WORLD, &request);
  } else if (strcmp(name, "never-given") == 0) {
    request += 5;
    FMI_Wait(&request, FMI_STATUS_IGNORE);
  } else if (strcmp(name, "too-long") == 0) {
    const int two[] = {1, 2};
    FMI_Start(&request);
    FMI_Request_free(&request);
    FMI_Send(two, 2, FMI_INT, rank, 0, WORLD);
    FMI_Barrier(WORLD);
  } else {
    fail(__FILE__, __LINE__, name);
  }
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  begin(&argc, &argv);
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  if (strcmp(name, "all") == 0) {
    persistent();
    for (int round = 0; round < 5; ++round) {
      freed();
      some();
      replace();
    }
  } else if (strcmp(name, "unreceived") == 0) {
    /* What is sent last, and freed, is there before its sender has left. */
    static double field[kLong];
    if (rank == 0) {
      FMI_Request request;
      for (int i = 0; i < kLong; ++i) field[i] = i;
      for (int i = 0; i < 100; ++i) OK(FMI_Bsend(field, 4000, FMI_DOUBLE, 1, 1, WORLD));
      OK(FMI_Isend(field, kLong, FMI_DOUBLE, 1, 2, WORLD, &request));
      OK(FMI_Request_free(&request));
    } else if (rank == 1) {
      sleep(1);
      for (int i = 0; i < 100; ++i) OK(FMI_Recv(field, 4000, FMI_DOUBLE, 0, 1, WORLD, FMI_STATUS_IGNORE));
      OK(FMI_Recv(field, kLong, FMI_DOUBLE, 0, 2, WORLD, FMI_STATUS_IGNORE));
      CHECK(field[kLong - 1] == kLong - 1);
    }
  } else if (strcmp(name, "survive") == 0) {
    survive();
  } else {
    misuse(name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
