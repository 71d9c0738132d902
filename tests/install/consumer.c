/* Takes a checkpoint with an installed Kedge, and restores it. */
#include <kedge/kedge.h>
#include <stdio.h>
#include <string.h>

struct pair {
  int first, second;
};
extern struct pair pairs[2];
extern float _Complex waves[2];
extern unsigned char bytes[2];
_Static_assert(KEDGE_TYPE_OF(pairs) == KEDGE_TYPE_BYTES && KEDGE_TYPE_OF(waves) == KEDGE_TYPE_COMPLEX64, "");
_Static_assert(KEDGE_TYPE_OF(bytes) == KEDGE_TYPE_UINT8 && KEDGE_TYPE_OF(&pairs[0].first) == KEDGE_TYPE_INT32, "");

static int failed(int status, const char* what) {
  if (status != KEDGE_OK) fprintf(stderr, "%s: %s\n", what, kedge_error_message());
  return status != KEDGE_OK;
}

int main(void) {
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.job = "consumer";
  kedge_context* context = NULL;
  if (failed(kedge_init(&options, NULL, &context), "init")) return 1;
  double data[1000];
  for (int i = 0; i < 1000; ++i) data[i] = i;
  int64_t restored = -1;
  int wrong = failed(KEDGE_PROTECT(context, 0, data, 1000), "protect") ||
              failed(kedge_checkpoint(context, "state", 7, 0), "checkpoint") ||
              failed(kedge_wait(context, "state", 7, KEDGE_LEVEL_STORE, 60), "wait");
  memset(data, 0, sizeof data);
  wrong = wrong || failed(kedge_restart(context, "state", -1, &restored), "restart");
  for (int i = 0; i < 1000; ++i) wrong = wrong || data[i] != i;
  wrong = failed(kedge_finalize(context, 1), "finalize") || wrong;
  printf("Kedge %s restored version %d\n", kedge_version_string(), (int)restored);
  return wrong;
}
