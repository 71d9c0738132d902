// The application of the heap's scenario tests: a ring of nodes that point to each other, to texts of many sizes and to an array
// that grows, all of it memory of kedge_alloc. What a step does follows from a state that lies there, too: a run that was killed
// and restarted ends as one that was not.
//
//   heap_app key=value...   steps=10 operations=200 (in a step) pause_ms=0 wait=0|1 drain=0|1 parts=0|1 salt=0
//
// It prints "at ADDRESS" (of its program), "restored V", "captured V" for each checkpoint, "digest D" at the end, and "finished".
// Exit code 3: the restored memory is wrong; 4: a call of Kedge failed.
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#ifdef HEAP_APP_MPI
#include "kedge/kedge_mpi.h"
#else
#include "kedge/kedge.h"
#endif

namespace {

std::map<std::string, int64_t> options = {{"steps", 10}, {"operations", 200}, {"pause_ms", 0}, {"wait", 0},
                                          {"drain", 1},  {"parts", 0},        {"salt", 0}};

void Check(int code, const char* call) {
  if (code == KEDGE_OK) return;
  std::printf("failed %s: %s: %s\n", call, kedge_status_name(code), kedge_error_message());
  std::fflush(stdout);
  std::exit(4);
}

void Say(const char* what, int64_t number) {
  std::printf("%s %" PRId64 "\n", what, number);
  std::fflush(stdout);
}

struct Node {
  Node* next;
  Node* before;
  unsigned char* text;
  uint64_t bytes;
  uint64_t seed;
};

struct Root {
  uint64_t random;
  int64_t step;
  Node ring;  // the first and the last node's neighbour
  double* field;
  uint64_t cells;
};

unsigned char Letter(uint64_t seed, uint64_t at) {
  const uint64_t mixed = (seed + at) * 0x9e3779b97f4a7c15ULL;
  return static_cast<unsigned char>(mixed >> 56);
}

class Application {
 public:
  explicit Application(kedge_context* context) : context_(context) {}

  int64_t Restart(int rank) {
    int64_t version = -1;
    const int code = kedge_restart(context_, "ring", -1, &version);
    void* found = nullptr;
    if (code == KEDGE_ERROR_NOT_FOUND) {
      Check(kedge_alloc(context_, "root", 1, sizeof(Root), nullptr, &found), "alloc");
      root_ = new (found) Root{};
      root_->random = static_cast<uint64_t>(options["salt"]) * 1000 + static_cast<uint64_t>(rank) + 1;
      root_->ring.next = root_->ring.before = &root_->ring;
      Grow();
      return -1;
    }
    Check(code, "restart");
    Check(kedge_find(context_, "root", &found, nullptr, nullptr), "find");
    root_ = static_cast<Root*>(found);
    if (root_->step != version) Wrong("the step");
    Digest();
    Say("restored", version);
    return version;
  }

  void Step(int64_t step) {
    for (int64_t i = 0; i < options["operations"]; ++i) Operate();
    if (Random() % 8 == 0) Grow();
    for (uint64_t i = 0; i < root_->cells; i += 1 + Random() % 64) root_->field[i] += static_cast<double>(step) / 3;
    root_->step = step;
  }

  // Follows every pointer.
  uint64_t Digest() {
    uint64_t digest = root_->random;
    const auto add = [&](uint64_t value) { digest = (digest ^ value) * 0x100000001b3ULL; };
    for (const Node* node = root_->ring.next; node != &root_->ring; node = node->next) {
      if (node->next->before != node) Wrong("a pointer");
      for (uint64_t i = 0; i < node->bytes; ++i) {
        if (node->text[i] != Letter(node->seed, i)) Wrong("a text");
      }
      add(node->seed);
      add(node->bytes);
    }
    for (uint64_t i = 0; i < root_->cells; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &root_->field[i], sizeof bits);
      add(bits);
    }
    return digest;
  }

 private:
  [[noreturn]] static void Wrong(const char* what) {
    std::printf("WRONG: %s\n", what);
    std::fflush(stdout);
    std::exit(3);
  }

  uint64_t Random() {
    root_->random = root_->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return root_->random >> 33;
  }

  // Mostly small, now and then large.
  uint64_t RandomBytes() {
    const uint64_t kind = Random() % 32;
    return Random() % (kind == 0 ? 100000 : kind < 4 ? 10000 : 300);
  }

  void* Allocate(size_t bytes) {
    void* block = nullptr;
    Check(kedge_alloc(context_, nullptr, bytes, 1, nullptr, &block), "alloc");
    return block;
  }

  void Resize(Node* node) {
    const uint64_t bytes = RandomBytes();
    void* resized = nullptr;
    Check(kedge_realloc(context_, node->text, bytes, &resized), "realloc");
    node->text = static_cast<unsigned char*>(resized);
    for (uint64_t i = node->bytes; i < bytes; ++i) node->text[i] = Letter(node->seed, i);
    node->bytes = bytes;
  }

  void Operate() {
    Node* node = root_->ring.next;
    for (uint64_t steps = Random() % 16; steps > 0; --steps) node = node->next;
    const uint64_t kind = Random() % 8;
    if (kind == 0 && node != &root_->ring) {
      Resize(node);
    } else if (kind < 4 && node != &root_->ring) {
      node->before->next = node->next;
      node->next->before = node->before;
      Check(kedge_free(context_, node->text), "free");
      Check(kedge_free(context_, node), "free");
    } else {
      Node* const made = new (Allocate(sizeof(Node))) Node{node->next, node, nullptr, 0, Random()};
      made->next->before = made->before->next = made;
      Resize(made);
    }
  }

  void Grow() {
    const uint64_t cells = root_->cells + 4096;
    void* resized = root_->field;
    if (resized == nullptr) {
      kedge_region_info info{};
      info.struct_size = sizeof info;
      info.type = KEDGE_TYPE_FLOAT64;
      info.dimensions = 1;
      info.shape[0] = static_cast<int64_t>(cells);
      Check(kedge_alloc(context_, "field", cells, sizeof(double), &info, &resized), "alloc");
    } else {
      Check(kedge_realloc(context_, root_->field, cells * sizeof(double), &resized), "realloc");
    }
    root_->field = static_cast<double*>(resized);
    for (uint64_t i = root_->cells; i < cells; ++i) root_->field[i] = static_cast<double>(i);
    root_->cells = cells;
  }

  kedge_context* context_;
  Root* root_ = nullptr;
};

void Checkpoint(kedge_context* context, int64_t step) {
  if (options["parts"] == 0) return Check(kedge_checkpoint(context, "ring", step, 0), "checkpoint");
  Check(kedge_checkpoint_begin(context, "ring", step, 0), "begin");
  Check(kedge_checkpoint_part(context, KEDGE_REST, nullptr, 0), "part");
  Check(kedge_checkpoint_end(context, 1), "end");
}

}  // namespace

int main(int argc, char** argv) {
  kedge_context* context = nullptr;
  int rank = 0;
#ifdef HEAP_APP_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    options[argument.substr(0, argument.find('='))] = std::atoll(argument.c_str() + argument.find('=') + 1);
  }
#ifdef HEAP_APP_MPI
  Check(kedge_mpi_init(MPI_COMM_WORLD, nullptr, &context), "mpi_init");
#else
  Check(kedge_init(nullptr, nullptr, &context), "init");
#endif
  std::printf("at %p\n", reinterpret_cast<void*>(main));
  Application application(context);
  for (int64_t step = application.Restart(rank) + 1; step <= options["steps"]; ++step) {
    application.Step(step);
    Checkpoint(context, step);
    Say("captured", step);
    if (options["wait"] != 0) Check(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_LAST, -1), "wait");
    if (options["pause_ms"] > 0) usleep(static_cast<useconds_t>(options["pause_ms"]) * 1000);
  }
  std::printf("digest %d %016" PRIx64 "\n", rank, application.Digest());
  Check(kedge_finalize(context, options["drain"] != 0 ? 1 : 0), "finalize");
  std::printf("finished\n");
  std::fflush(stdout);
#ifdef HEAP_APP_MPI
  MPI_Finalize();
#endif
  return 0;
}
