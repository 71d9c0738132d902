/* A search tree whose nodes point to each other, in memory that Kedge brings back where it was (kedge_alloc): nothing is
 * protected, and after a restart the pointers are right.
 *
 *   mpirun -np 2 tree STEPS      each step counts 2000 words, and each tenth takes a checkpoint
 *
 * Kill it in the middle, and start it again: it goes on from its last checkpoint, and ends with the same checksum.
 */
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_IN_STEP 2000

struct node {
  struct node *left, *right;
  const char* word; /* a block of its own */
  uint64_t count;
};

/* What the program finds again by its name; all else it reaches from here. */
struct tree {
  struct node* root;
  uint64_t nodes;
  uint64_t random;
  int64_t step;
};

static kedge_context* kedge;

static void check(int status) {
  if (status == KEDGE_OK) return;
  fprintf(stderr, "tree: %s\n", kedge_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void* make(size_t bytes) {
  void* block = NULL;
  check(kedge_alloc(kedge, NULL, bytes, 1, NULL, &block));
  return block;
}

/* Short ones come more often. */
static void next_word(uint64_t* random, char word[16]) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  const int letters = 1 + (int)(*random >> 60) % 8;
  for (int i = 0; i < letters; ++i) word[i] = (char)('a' + (*random >> (20 + 5 * i)) % 26);
  word[letters] = '\0';
}

static void count_word(struct tree* tree, const char* word) {
  struct node** place = &tree->root;
  while (*place != NULL) {
    const int order = strcmp(word, (*place)->word);
    if (order == 0) {
      ++(*place)->count;
      return;
    }
    place = order < 0 ? &(*place)->left : &(*place)->right;
  }
  struct node* const made = make(sizeof *made);
  char* const copy = make(strlen(word) + 1);
  strcpy(copy, word);
  made->left = made->right = NULL;
  made->word = copy;
  made->count = 1;
  *place = made;
  ++tree->nodes;
}

/* Of all words with their counts, in order. */
static uint64_t checksum(const struct node* node, uint64_t sum) {
  if (node == NULL) return sum;
  sum = checksum(node->left, sum);
  for (const char* letter = node->word; *letter != '\0'; ++letter) sum = (sum ^ (unsigned char)*letter) * 0x100000001b3u;
  sum = (sum ^ node->count) * 0x100000001b3u;
  return checksum(node->right, sum);
}

/* The tree of the last checkpoint, or a new one. */
static struct tree* begin(int rank) {
  void* found = NULL;
  const int status = kedge_restart(kedge, "tree", -1, NULL);
  if (status == KEDGE_OK) {
    check(kedge_find(kedge, "tree", &found, NULL, NULL));
    struct tree* const tree = found;
    if (rank == 0) printf("continuing from step %" PRId64 " with %" PRIu64 " words\n", tree->step, tree->nodes);
    return tree;
  }
  if (status != KEDGE_ERROR_NOT_FOUND) check(status);
  check(kedge_alloc(kedge, "tree", 1, sizeof(struct tree), NULL, &found));
  struct tree* const tree = found; /* all zero */
  tree->random = (uint64_t)rank + 1;
  return tree;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int64_t steps = argc == 2 ? atoll(argv[1]) : 0;
  if (steps < 1) {
    fprintf(stderr, "usage: tree STEPS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(kedge_mpi_init(MPI_COMM_WORLD, NULL, &kedge));
  struct tree* const tree = begin(rank);
  while (tree->step < steps) {
    ++tree->step;
    char word[16];
    for (int i = 0; i < WORDS_IN_STEP; ++i) {
      next_word(&tree->random, word);
      count_word(tree, word);
    }
    if (tree->step % 10 != 0) continue;
    check(kedge_checkpoint(kedge, "tree", tree->step, 0));
    if (rank == 0) printf("checkpoint %" PRId64 "\n", tree->step), fflush(stdout);
  }
  printf("rank %d: %" PRIu64 " words, checksum %016" PRIX64 "\n", rank, tree->nodes, checksum(tree->root, 0xcbf29ce484222325u));
  check(kedge_finalize(kedge, 1));
  return MPI_Finalize();
}
