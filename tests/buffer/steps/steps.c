/* Every function of kedge/bb.h, on the burst buffer "fast", which the configuration says how to reach. */
#include <kedge/bb.h>
#include <string.h>

#include "steps.h"

enum { kBytes = 40 * 1000 * 1000 + 3 };

struct listed {
  int count;
  char last[64];
  uint64_t bytes;
};

static int note(void* user, const kedge_bb_entry* entry) {
  struct listed* listed = user;
  ++listed->count;
  strncpy(listed->last, entry->path, sizeof listed->last - 1);
  listed->bytes = entry->bytes;
  return entry->modified_ns > 0 ? 0 : 1;
}
static int stop(void* user, const kedge_bb_entry* entry) {
  (void)user, (void)entry;
  return 1;
}

static void write_in_pieces(kedge_bb* buffer, const char* path, const unsigned char* data) {
  kedge_bb_file* file;
  EXPECT(kedge_bb_open(buffer, path, KEDGE_BB_WRITE, &file) == KEDGE_OK);
  const size_t pieces[] = {1, 0, 70000, 33 << 20, 5, kBytes - (33 << 20) - 70006};
  size_t at = 0;
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; ++i) {
    uint64_t position = 0, size = 0;
    EXPECT(kedge_bb_write(file, data + at, pieces[i]) == KEDGE_OK);
    at += pieces[i];
    EXPECT(kedge_bb_tell(file, &position, &size) == KEDGE_OK && position == at && size == at);
  }
  EXPECT(at == kBytes);
  size_t read;
  EXPECT(kedge_bb_read(file, &read, 1, &read) == KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT(strstr(kedge_bb_error_message(), "reading") != NULL);
  EXPECT(kedge_bb_seek(file, 0) == KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT(kedge_bb_close(file, 1) == KEDGE_OK);
  EXPECT(kedge_bb_error_message()[0] == '\0');
}

static void read_at_places(kedge_bb* buffer, const char* path, const unsigned char* data, unsigned char* room) {
  kedge_bb_file* file;
  size_t read;
  EXPECT(kedge_bb_open(buffer, path, KEDGE_BB_READ, &file) == KEDGE_OK);
  EXPECT(kedge_bb_read(file, room, kBytes + 1, &read) == KEDGE_OK && read == kBytes && memcmp(room, data, read) == 0);
  EXPECT(kedge_bb_read(file, room, 1, &read) == KEDGE_OK && read == 0);
  const uint64_t places[] = {7, 0, kBytes - 1, 1 << 20, (1 << 20) - 1, kBytes, 30000000, 29999999, 30000001};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    const size_t expected = kBytes - places[i] < 1500000 ? (size_t)(kBytes - places[i]) : 1500000;
    uint64_t position = 0, size = 0;
    EXPECT(kedge_bb_seek(file, places[i]) == KEDGE_OK);
    EXPECT(kedge_bb_read(file, room, 1500000, &read) == KEDGE_OK && read == expected);
    EXPECT(memcmp(room, data + places[i], read) == 0);
    EXPECT(kedge_bb_tell(file, &position, &size) == KEDGE_OK && position == places[i] + read && size == kBytes);
  }
  EXPECT(kedge_bb_seek(file, kBytes + 1) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_write(file, data, 1) == KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT(kedge_bb_close(file, 0) == KEDGE_OK);
}

int main(void) {
  kedge_bb* buffer;
  kedge_bb_file* file;
  kedge_bb_options options = KEDGE_BB_OPTIONS_INIT;
  EXPECT(kedge_bb_connect(NULL, NULL, &buffer) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_connect("nowhere", NULL, &buffer) == KEDGE_ERROR_NOT_FOUND);
  options.secret = "/nonexistent/secret";
  EXPECT(kedge_bb_connect("fast", &options, &buffer) == KEDGE_ERROR_NOT_FOUND);
  options.struct_size = 1;
  EXPECT(kedge_bb_connect("fast", &options, &buffer) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_connect("fast", NULL, &buffer) == KEDGE_OK);

  unsigned char* data = malloc(kBytes);
  unsigned char* room = malloc(kBytes + 1);
  EXPECT(data != NULL && room != NULL);
  for (size_t i = 0; i < kBytes; ++i) data[i] = (unsigned char)(i * 2654435761u >> 11);
  write_in_pieces(buffer, "c/whole", data);
  read_at_places(buffer, "c/whole", data, room);

  /* One that is discarded never appears; the former one stays. */
  size_t read;
  EXPECT(kedge_bb_open(buffer, "c/whole", KEDGE_BB_WRITE, &file) == KEDGE_OK);
  EXPECT(kedge_bb_write(file, data, 100) == KEDGE_OK);
  kedge_bb_discard(file);
  kedge_bb_discard(NULL);
  EXPECT(kedge_bb_open(buffer, "c/whole", KEDGE_BB_READ, &file) == KEDGE_OK);
  EXPECT(kedge_bb_read(file, room, kBytes, &read) == KEDGE_OK && read == kBytes);
  EXPECT(kedge_bb_close(file, 0) == KEDGE_OK);

  EXPECT(kedge_bb_open(buffer, "c/../x", KEDGE_BB_WRITE, &file) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_open(buffer, "c/none", KEDGE_BB_READ, &file) == KEDGE_ERROR_NOT_FOUND);
  EXPECT(kedge_bb_open(buffer, "c/whole", (kedge_bb_mode)3, &file) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_open(buffer, "c/empty", KEDGE_BB_WRITE, &file) == KEDGE_OK);
  EXPECT(kedge_bb_close(file, 0) == KEDGE_OK);

  struct listed listed = {0};
  EXPECT(kedge_bb_list(buffer, "c/", note, &listed) == KEDGE_OK);
  EXPECT(listed.count == 2 && strcmp(listed.last, "c/whole") == 0 && listed.bytes == kBytes);
  EXPECT(kedge_bb_list(buffer, NULL, stop, NULL) == KEDGE_ERROR_FAILED_PRECONDITION);
  kedge_bb_room space = KEDGE_BB_ROOM_INIT;
  EXPECT(kedge_bb_get_room(buffer, &space) == KEDGE_OK);
  EXPECT(space.own > kBytes && space.used >= space.own && space.quota == 0 && space.disk_free > 0);

  EXPECT(kedge_bb_rename(buffer, "c/empty", "c/deeper/empty") == KEDGE_OK);
  EXPECT(kedge_bb_rename(buffer, "c/empty", "c/other") == KEDGE_ERROR_NOT_FOUND);
  EXPECT(kedge_bb_rename(buffer, "c/deeper/empty", "../x") == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_open(buffer, "c/deeper/empty", KEDGE_BB_READ, &file) == KEDGE_OK && kedge_bb_close(file, 0) == KEDGE_OK);

  /* A file keeps its connection, and its bytes. */
  EXPECT(kedge_bb_open(buffer, "c/whole", KEDGE_BB_READ, &file) == KEDGE_OK);
  EXPECT(kedge_bb_remove(buffer, "c/whole") == KEDGE_OK);
  EXPECT(kedge_bb_remove(buffer, "c/whole") == KEDGE_ERROR_NOT_FOUND);
  kedge_bb_disconnect(buffer);
  EXPECT(kedge_bb_read(file, room, kBytes, &read) == KEDGE_OK && read == kBytes && memcmp(room, data, kBytes) == 0);
  EXPECT(kedge_bb_close(file, 0) == KEDGE_OK);
  EXPECT(kedge_bb_close(NULL, 0) == KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT(kedge_bb_report_error(KEDGE_ERROR_IO, "mine") == KEDGE_ERROR_IO && strcmp(kedge_bb_error_message(), "mine") == 0);
  EXPECT(kedge_bb_error_errno() == 0);
  free(data);
  free(room);
  return 0;
}
