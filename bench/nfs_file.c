#include "nfs_file.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef KEDGE_WITH_NFS

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
/* needs the one before it */
#include <nfsc/libnfs.h>

enum { kUnderWay = 8 };

struct transfer {
  struct nfs_context* nfs;
  struct nfsfh* file;
  const char* from; /* null: it reads */
  char* into;
  size_t bytes;
  size_t part_bytes;
  size_t begun;
  size_t done;
};

struct part {
  struct transfer* of;
  size_t at;
  size_t bytes;
};

static void fail(struct nfs_context* nfs, const char* what) {
  fprintf(stderr, "buffer_probe: NFS: %s: %s\n", what, nfs_get_error(nfs));
  exit(1);
}

static struct nfs_url* parse(struct nfs_context* nfs, const char* url) {
  struct nfs_url* const parsed = nfs_parse_url_full(nfs, url);
  if (parsed == NULL) fail(nfs, url);
  return parsed;
}

struct nfs_context* nfs_file_connect(const char* url) {
  struct nfs_context* const nfs = nfs_init_context();
  if (nfs == NULL) {
    fputs("buffer_probe: NFS: no memory\n", stderr);
    exit(1);
  }
  struct nfs_url* const parsed = parse(nfs, url);
  if (nfs_mount(nfs, parsed->server, parsed->path) != 0) fail(nfs, "mount");
  nfs_destroy_url(parsed);
  return nfs;
}

void nfs_file_disconnect(struct nfs_context* nfs) {
  if (nfs != NULL) nfs_destroy_context(nfs);
}

static void begin_parts(struct transfer* transfer);

static void on_part(int moved, struct nfs_context* nfs, void* data, void* private_data) {
  struct part* const part = private_data;
  struct transfer* const transfer = part->of;
  if (moved < 0 || (size_t)moved != part->bytes) fail(nfs, transfer->from != NULL ? "write" : "read");
  if (transfer->into != NULL) memcpy(transfer->into + part->at, data, part->bytes);
  transfer->done += part->bytes;
  free(part);
  begin_parts(transfer);
}

static void begin_parts(struct transfer* transfer) {
  while (transfer->begun < transfer->bytes && transfer->begun - transfer->done < kUnderWay * transfer->part_bytes) {
    struct part* const part = malloc(sizeof *part);
    if (part == NULL) fail(transfer->nfs, strerror(errno));
    const size_t left = transfer->bytes - transfer->begun;
    *part = (struct part){transfer, transfer->begun, left < transfer->part_bytes ? left : transfer->part_bytes};
    transfer->begun += part->bytes;
    const int code =
        transfer->from != NULL
            ? nfs_pwrite_async(transfer->nfs, transfer->file, part->at, part->bytes, transfer->from + part->at, on_part, part)
            : nfs_pread_async(transfer->nfs, transfer->file, part->at, part->bytes, on_part, part);
    if (code != 0) fail(transfer->nfs, "begin");
  }
}

static void run(struct transfer transfer) {
  const size_t part_bytes = transfer.from != NULL ? nfs_get_writemax(transfer.nfs) : nfs_get_readmax(transfer.nfs);
  transfer.part_bytes = part_bytes == 0 ? 1 << 20 : part_bytes;
  begin_parts(&transfer);
  while (transfer.done < transfer.bytes) {
    struct pollfd waiting = {.fd = nfs_get_fd(transfer.nfs), .events = (short)nfs_which_events(transfer.nfs)};
    if (poll(&waiting, 1, -1) < 0 || nfs_service(transfer.nfs, waiting.revents) < 0) fail(transfer.nfs, "connection");
  }
}

void nfs_file_write(struct nfs_context* nfs, const char* url, const char* data, size_t bytes) {
  struct nfs_url* const parsed = parse(nfs, url);
  struct nfsfh* file = NULL;
  if (nfs_creat(nfs, parsed->file, 0600, &file) != 0) fail(nfs, "create");
  run((struct transfer){.nfs = nfs, .file = file, .from = data, .bytes = bytes});
  if (nfs_fsync(nfs, file) != 0 || nfs_close(nfs, file) != 0) fail(nfs, "sync");
  nfs_destroy_url(parsed);
}

void nfs_file_read(struct nfs_context* nfs, const char* url, char* data, size_t bytes) {
  struct nfs_url* const parsed = parse(nfs, url);
  struct nfsfh* file = NULL;
  if (nfs_open(nfs, parsed->file, O_RDONLY, &file) != 0) fail(nfs, "open");
  run((struct transfer){.nfs = nfs, .file = file, .into = data, .bytes = bytes});
  nfs_close(nfs, file);
  nfs_destroy_url(parsed);
}

#else

struct nfs_context* nfs_file_connect(const char* url) {
  fprintf(stderr, "buffer_probe: %s: this was built without libnfs (libnfs-dev)\n", url);
  exit(1);
}
void nfs_file_disconnect(struct nfs_context* nfs) {
  (void)nfs;
}
void nfs_file_write(struct nfs_context* nfs, const char* url, const char* data, size_t bytes) {
  (void)nfs, (void)url, (void)data, (void)bytes;
}
void nfs_file_read(struct nfs_context* nfs, const char* url, char* data, size_t bytes) {
  (void)nfs, (void)url, (void)data, (void)bytes;
}

#endif
