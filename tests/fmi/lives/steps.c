/* A program of FMI that a number makes: `fmirun -n RANKS fmi_steps NUMBER STEPS PAUSE [careless | jumping]`.
 *
 * What a step does (messages, collective calls, communicators and types made and freed) follows from the number, the step and the
 * ranks alone, and all that is received goes into the rank's cells. So the sum over all cells, which rank 0 prints as "result
 * SUM", is the same however often ranks die. A step pauses for PAUSE microseconds. With `careless` no result of a call is looked
 * at: after a failure the program computes with undefined numbers until FMI_Loop. With `jumping` it neither does, nor computes
 * with such numbers: broken calls jump back to FMI_Loop.
 *
 * Each rank writes what a checker wants to know: "at RANK STEP" when FMI_Loop has taken a checkpoint, "back RANK STEP" when it
 * has come back or begun, and "end RANK" before FMI_Finalize. Some programs have loops within some of their steps, of which
 * "turn RANK STEP TURN" and "turn-back RANK STEP TURN" say the same. The program itself sees whether the arrays are those of
 * the step and of the turn.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <kedge/fmi_jump.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "../checks.h"

enum { kSlots = 5, kElementsMax = 30000, kRanksMax = 16 };

/* Beside the cells, in the checkpoint. */
static struct {
  int64_t next; /* the step that it is the begin of */
  int turn;     /* and the turn of its loop */
  FMI_Comm comms[kSlots];
  int is_used[kSlots];
  FMI_Datatype column; /* made in the loop: -1 where it is not */
} kept;

static uint64_t *cells, *out, *in;
static int cell_count, is_careless;
static uint64_t seed;
static int64_t interval;
static int has_come_back; /* in this step */

static uint64_t mixed(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* The same for all ranks. */
static uint64_t drawn(int64_t step, int call, int what) {
  return mixed(mixed(mixed(seed) + (uint64_t)step) + (uint64_t)call * 64 + (uint64_t)what);
}

/* One write, so that lines of ranks stay whole. */
static void say(const char* format, ...) {
  char line[100];
  va_list words;
  va_start(words, format);
  const int length = vsnprintf(line, sizeof line, format, words);
  va_end(words);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) FMI_Abort(WORLD, 4);
}

static void take(uint64_t number) {
  uint64_t* cell = &cells[number % (uint64_t)cell_count];
  *cell = mixed(*cell ^ number);
}

static void take_all(const uint64_t* numbers, int count) {
  uint64_t sum = (uint64_t)count;
  for (int i = 0; i < count; ++i) sum = sum * UINT64_C(0x100000001b3) + numbers[i];
  take(sum);
}

static void fill(int count, uint64_t number) {
  for (int i = 0; i < count; ++i) out[i] = cells[i % cell_count] + mixed(number + (uint64_t)i);
}

/* From what goes with a ring to what its receiver fetches. */
static int some_elements(uint64_t number) {
  static const int counts[] = {0, 1, 7, 500, 4096, 4097, 9000, kElementsMax};
  return counts[number % 8];
}

static int pass_on(FMI_Comm comm, int own, int size, uint64_t number, int tag) {
  const int count = some_elements(number >> 8), by = 1 + (int)((number >> 16) % (uint64_t)size);
  FMI_Status status = {0};
  fill(count, number);
  const int code = FMI_Sendrecv(out, count, FMI_UNSIGNED_LONG, (own + by) % size, tag, in, count, FMI_UNSIGNED_LONG,
                                (own + size - by % size) % size, tag, comm, &status);
  if (code == FMI_SUCCESS) CHECK(status.FMI_TAG == tag && status.bytes == (size_t)count * sizeof *in);
  take_all(in, count);
  return code;
}

/* To and from the neighbours in the job, by requests of before the loop. */
static FMI_Request halo[4];
static uint64_t halo_out, halo_in[2];

static void make_halo(void) {
  const int before = (rank + ranks - 1) % ranks, behind = (rank + 1) % ranks;
  FMI_Recv_init(&halo_in[0], 1, FMI_UNSIGNED_LONG, before, 100000, WORLD, &halo[0]);
  FMI_Recv_init(&halo_in[1], 1, FMI_UNSIGNED_LONG, behind, 100001, WORLD, &halo[1]);
  FMI_Ssend_init(&halo_out, 1, FMI_UNSIGNED_LONG, before, 100001, WORLD, &halo[2]);
  FMI_Send_init(&halo_out, 1, FMI_UNSIGNED_LONG, behind, 100000, WORLD, &halo[3]);
}

static int exchange_halo(uint64_t number) {
  int finished = 0, indices[4], code;
  halo_out = cells[number % (uint64_t)cell_count];
  code = FMI_Startall(4, halo);
  do {
    const int waited = FMI_Waitsome(4, halo, &finished, indices, FMI_STATUSES_IGNORE);
    if (waited != FMI_SUCCESS) code = waited;
  } while (finished != FMI_UNDEFINED);
  take_all(halo_in, 2);
  return code;
}

/* From each to each; who comes first is not known. */
static int meet_all(FMI_Comm comm, int own, int size, uint64_t number, int tag) {
  const int count = number % 5 == 0 ? kElementsMax / kRanksMax : 3;
  FMI_Request requests[2 * kRanksMax];
  FMI_Status statuses[2 * kRanksMax] = {{0}};
  fill(count, number);
  for (int i = 0; i < size; ++i) {
    FMI_Irecv(in + i * count, count, FMI_UNSIGNED_LONG, FMI_ANY_SOURCE, tag, comm, &requests[i]);
    FMI_Isend(out, count, FMI_UNSIGNED_LONG, (own + i) % size, tag, comm, &requests[size + i]);
  }
  const int code = FMI_Waitall(2 * size, requests, statuses);
  uint64_t sum = 0;
  for (int i = 0; i < size; ++i) {
    uint64_t one = (uint64_t)statuses[i].FMI_SOURCE;
    for (int k = 0; k < count; ++k) one = mixed(one ^ in[i * count + k]);
    sum += one;
  }
  take(sum);
  return code;
}

/* A column of a matrix of 50 rows, of a type that lives longer than the step; received side by side. */
static int pass_column(FMI_Comm comm, int own, int size, uint64_t number, int tag) {
  enum { kRows = 50, kWide = 8 };
  if (kept.column < 0) {
    FMI_Type_vector(kRows, 1, kWide, FMI_UNSIGNED_LONG, &kept.column);
    FMI_Type_commit(&kept.column);
  }
  FMI_Request receiving;
  int flag = 0, code;
  fill(kRows * kWide, number);
  code = FMI_Irecv(in, kRows, FMI_UNSIGNED_LONG, (own + size - 1) % size, tag, comm, &receiving);
  if (code == FMI_SUCCESS) code = FMI_Send(out, 1, kept.column, (own + 1) % size, tag, comm);
  while (code == FMI_SUCCESS && !flag) code = FMI_Test(&receiving, &flag, FMI_STATUS_IGNORE);
  take_all(in, kRows);
  if (number % 3 == 0) FMI_Type_free(&kept.column);
  return code;
}

static int combine(FMI_Comm comm, int own, int size, uint64_t number) {
  const int count = (int)((number >> 8) % 40), root = (int)((number >> 16) % (uint64_t)size);
  double reals[40], sums[40] = {0};
  int code;
  fill(count, number);
  memset(in, 0, (size_t)count * sizeof *in);
  if (number % 3 == 0) {
    code = FMI_Reduce(out, in, count, FMI_UNSIGNED_LONG, FMI_SUM, root, comm);
    if (own == root) take_all(in, count);
    return code;
  }
  if (number % 3 == 1) {
    code = FMI_Allreduce(out, in, count, FMI_UNSIGNED_LONG, number % 2 ? FMI_MAX : FMI_MIN, comm);
    take_all(in, count);
    return code;
  }
  /* Its last bits depend on the order of the sums. */
  for (int i = 0; i < count; ++i) reals[i] = (double)out[i] / 3e18;
  code = FMI_Allreduce(reals, sums, count, FMI_DOUBLE, FMI_SUM, comm);
  for (int i = 0; i < count; ++i) {
    uint64_t bits;
    memcpy(&bits, &sums[i], sizeof bits);
    take(bits);
  }
  return code;
}

/* x -> factor * x + add, composed: the order of ranks counts. */
static FMI_Datatype line_type;
static FMI_Op composing;

static void compose(void* left, void* right, int* count, FMI_Datatype* type) {
  uint64_t *first = left, *second = right;
  CHECK(*type == line_type);
  for (int i = 0; i < 2 * *count; i += 2) {
    second[i + 1] += second[i] * first[i + 1];
    second[i] *= first[i];
  }
}

static int combine_in_order(FMI_Comm comm, int own, int size, uint64_t number) {
  const int count = (int)((number >> 8) % 40), root = (int)((number >> 16) % (uint64_t)size);
  int counts[kRanksMax], code, got = 2 * count;
  fill(2 * count * size, number);
  memset(in, 0, (size_t)(2 * count * size) * sizeof *in);
  switch (number % 5) {
    case 0: code = FMI_Allreduce(out, in, count, line_type, composing, comm); break;
    case 1: code = FMI_Exscan(out, in, count, line_type, composing, comm); break;
    case 2: code = FMI_Reduce_scatter_block(out, in, count, line_type, composing, comm); break;
    case 3:
      code = FMI_Reduce(out, in, count, line_type, composing, root, comm);
      if (own != root) got = 0;
      break;
    default:
      for (int i = 0; i < size; ++i) counts[i] = (int)(mixed(number + (uint64_t)i) % (uint64_t)(count + 1));
      got = 2 * counts[own];
      code = FMI_Reduce_scatter(out, in, counts, line_type, composing, comm);
  }
  take_all(in, got);
  return code;
}

static int collect(FMI_Comm comm, int own, int size, uint64_t number) {
  const int root = (int)((number >> 16) % (uint64_t)size);
  int count = some_elements(number >> 8), code;
  fill(count, number);
  if (number % 3 == 0) {
    code = FMI_Bcast(own == root ? out : in, count, FMI_UNSIGNED_LONG, root, comm);
    take_all(own == root ? out : in, count);
    return code;
  }
  count /= kRanksMax;
  if (number % 3 == 1) {
    code = FMI_Gather(out, count, FMI_UNSIGNED_LONG, in, count, FMI_UNSIGNED_LONG, root, comm);
    if (own == root) take_all(in, count * size);
    return code;
  }
  code = FMI_Allgather(out, count, FMI_UNSIGNED_LONG, in, count, FMI_UNSIGNED_LONG, comm);
  take_all(in, count * size);
  return code;
}

/* The place is freed where it is used; where not, it gets one that is made of `parent`. */
static int change(FMI_Comm parent, int own, int size, uint64_t number) {
  const int slot = (int)((number >> 24) % kSlots);
  if (kept.is_used[slot]) {
    kept.is_used[slot] = 0;
    return kept.comms[slot] != FMI_COMM_NULL ? FMI_Comm_free(&kept.comms[slot]) : FMI_SUCCESS;
  }
  kept.is_used[slot] = 1;
  kept.comms[slot] = FMI_COMM_NULL;
  if (parent == FMI_COMM_NULL) return FMI_SUCCESS;
  FMI_Comm* made = &kept.comms[slot];
  if (number % 4 == 0) return FMI_Comm_dup(parent, made);
  if (number % 4 == 1) return FMI_Comm_split(parent, (int)(mixed(number + (uint64_t)own) % 3), -own, made);
  if (number % 4 == 2) {
    int places[] = {size}, periods[] = {1};
    return FMI_Cart_create(parent, 1, places, periods, 0, made);
  }
  FMI_Group group, odd;
  int first = 0;
  if (FMI_Comm_group(parent, &group) != FMI_SUCCESS || FMI_Group_excl(group, size > 1, &first, &odd) != FMI_SUCCESS) {
    kept.is_used[slot] = 0;
    return FMI_ERR_PROC_FAILED;
  }
  const int code = FMI_Comm_create(parent, odd, made);
  FMI_Group_free(&group);
  FMI_Group_free(&odd);
  return code;
}

static int do_call(int64_t step, int call) {
  const uint64_t number = drawn(step, call, 1);
  const int slot = (int)(drawn(step, call, 2) % (kSlots + 2));
  const int tag = (int)step * 64 + call; /* who is further sends what is not meant yet */
  FMI_Comm comm = slot >= kSlots ? WORLD : kept.is_used[slot] ? kept.comms[slot] : WORLD;
  const int kind = (int)(drawn(step, call, 3) % 10);
  int own = 0, size = 0;
  if (comm != FMI_COMM_NULL) {
    if (FMI_Comm_rank(comm, &own) != FMI_SUCCESS || FMI_Comm_size(comm, &size) != FMI_SUCCESS) return FMI_ERR_PROC_FAILED;
    take(mixed((uint64_t)own * 1000 + (uint64_t)size));
  }
  if (kind == 9) return exchange_halo(number);
  if (kind == 0) return change(comm, own, size, number);
  if (comm == FMI_COMM_NULL) return FMI_SUCCESS;
  switch (kind) {
    case 1:
    case 2: return pass_on(comm, own, size, number, tag);
    case 3: return meet_all(comm, own, size, number, tag);
    case 4: return pass_column(comm, own, size, number, tag);
    case 5: return combine(comm, own, size, number);
    case 8: return combine_in_order(comm, own, size, number);
    case 6: return FMI_Barrier(comm);
    default: return collect(comm, own, size, number);
  }
}

/* Of the loop in this step; 0 where there is none. */
static int turns_in(int64_t step) {
  if (seed % 4 != 1 || drawn(step, 0, 4) % 3 != 0) return 0;
  return 1 + (int)(drawn(step, 0, 5) % (drawn(step, 0, 6) % 2 ? 8 : 56));
}

static int do_turns(int64_t step) {
  void* arrays[] = {cells, &kept};
  int sizes[] = {cell_count * (int)sizeof *cells, sizeof kept};
  const int turns = turns_in(step);
  int turn, is_first = 1;
  kept.turn = 0;
  while (turns > 0 && (turn = FMI_Inner_loop("turns", arrays, sizes, 2)) < turns) {
    if (turn == FMI_OUTER_LOOP) return FMI_ERR_PROC_FAILED;
    if (is_first && has_come_back) say("turn-back %d %" PRId64 " %d\n", rank, step, turn);
    if (kept.turn != turn || kept.next != step) {
      say("wrong: rank %d has the arrays of turn %d of step %" PRId64 " in turn %d of step %" PRId64 "\n", rank, kept.turn,
          kept.next, turn, step);
      FMI_Abort(WORLD, 5);
    }
    if (step % interval == 0 && turn > 0 && turn % interval == 0) say("turn %d %" PRId64 " %d\n", rank, step, turn);
    is_first = 0;
    if (do_call(step, 8 + turn) != FMI_SUCCESS && !is_careless) return FMI_ERR_PROC_FAILED;
    kept.turn = turn + 1;
  }
  return FMI_SUCCESS;
}

static void do_step(int64_t step, int pause_microseconds) {
  const int calls = 1 + (int)(drawn(step, 0, 0) % 4);
  const struct timespec pause = {.tv_nsec = pause_microseconds * 1000L};
  if (pause_microseconds > 0) nanosleep(&pause, NULL);
  take((uint64_t)step);
  for (int call = 0; call < calls; ++call) {
    if (do_call(step, call) != FMI_SUCCESS && !is_careless) return;
  }
  if (do_turns(step) == FMI_SUCCESS) kept.next = step + 1;
}

static void make_cells(void) {
  static const int counts[] = {3, 1000, 40000, 150000};
  cell_count = counts[seed % 4];
  cells = malloc((size_t)cell_count * sizeof *cells);
  out = malloc((size_t)kElementsMax * 2 * sizeof *out);
  in = malloc((size_t)kElementsMax * 2 * sizeof *in);
  for (int i = 0; i < cell_count; ++i) cells[i] = mixed(seed ^ (uint64_t)(rank * 1000003 + i));
  memset(in, 0, (size_t)kElementsMax * 2 * sizeof *in);
}

/* Before the loop; a rank that is started again makes the same calls. */
static void make_handles(void) {
  FMI_Type_contiguous(2, FMI_UNSIGNED_LONG, &line_type);
  FMI_Type_commit(&line_type);
  FMI_Op_create(compose, 0, &composing);
  kept.column = -1;
  for (int slot = 0; slot < kSlots; ++slot) kept.comms[slot] = FMI_COMM_NULL;
  kept.is_used[0] = kept.is_used[1] = 1;
  FMI_Comm_dup(WORLD, &kept.comms[0]);
  FMI_Comm_split(seed % 2 ? WORLD : kept.comms[0], rank % 2, -rank, &kept.comms[1]);
}

static int print_result(void) {
  unsigned long sum = 0, all = 0;
  for (int i = 0; i < cell_count; ++i) sum += mixed(cells[i] ^ (uint64_t)(rank * 1000003 + i));
  const int code = FMI_Reduce(&sum, &all, 1, FMI_UNSIGNED_LONG, FMI_SUM, 0, WORLD);
  if (code == FMI_SUCCESS && rank == 0) say("result %016lx\n", all);
  return code;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  CHECK((argc == 4 || argc == 5) && ranks <= kRanksMax);
  seed = strtoull(argv[1], NULL, 10);
  const int64_t steps = atoll(argv[2]);
  interval = atoll(getenv("FMI_INTERVAL"));
  const int pause_microseconds = atoi(argv[3]);
  is_careless = argc == 5;
  const int is_jumping = argc == 5 && strcmp(argv[4], "jumping") == 0;
  make_cells();
  make_handles();
  make_halo();
  void* arrays[] = {cells, &kept};
  int sizes[] = {cell_count * (int)sizeof *cells, sizeof kept};
  static int64_t step, before = -2; /* jumps leave them as they are */
  do {
    /* The macro, or the function. */
    step = is_jumping ? FMI_Loop(arrays, sizes, 2) : (FMI_Loop)(arrays, sizes, 2);
    has_come_back = step != before + 1;
    if (has_come_back) say("back %d %" PRId64 "\n", rank, step);
    if (kept.next != step) {
      say("wrong: rank %d has the arrays of step %" PRId64 " in step %" PRId64 "\n", rank, kept.next, step);
      FMI_Abort(WORLD, 5);
    }
    if (step % interval == 0) say("at %d %" PRId64 "\n", rank, step);
    before = step;
    if (step < steps) do_step(step, pause_microseconds);
  } while (step < steps || print_result() != FMI_SUCCESS);
  say("end %d\n", rank);
  return FMI_Finalize();
}
