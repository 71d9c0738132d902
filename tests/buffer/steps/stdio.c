/* Knows nothing of burst buffers: stdio, and descriptors, on the path that it is given. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

static const char* kedge_bb_error_message(void) {
  return strerror(errno);
}

#include "steps.h"

static void streams(const char* path) {
  char line[64];
  FILE* file = fopen(path, "w");
  EXPECT(file != NULL);
  for (int i = 0; i < 100000; ++i) EXPECT(fprintf(file, "line %d\n", i) > 0);
  EXPECT(ftell(file) == 1088890 && fclose(file) == 0);
  struct stat found;
  EXPECT(stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 1088890 && found.st_mtim.tv_sec > 0);
  file = fopen(path, "r");
  EXPECT(file != NULL && fgets(line, sizeof line, file) != NULL && strcmp(line, "line 0\n") == 0);
  EXPECT(fseek(file, -11, SEEK_END) == 0 && fgets(line, sizeof line, file) != NULL && strcmp(line, "line 99999\n") == 0);
  EXPECT(fgets(line, sizeof line, file) == NULL && feof(file));
  rewind(file);
  EXPECT(fscanf(file, "%60s", line) == 1 && strcmp(line, "line") == 0 && fclose(file) == 0);
  EXPECT(fopen(path, "r+") == NULL && errno == ENOTSUP);
  EXPECT(fopen(path, "a") == NULL && errno == ENOTSUP);
  EXPECT(fopen(path, "wx") == NULL && errno == EEXIST);
}

static void descriptors(const char* path) {
  char data[] = "0123456789", room[32];
  EXPECT(open(path, O_WRONLY) < 0 && errno == ENOTSUP);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  EXPECT(file >= 0);
  struct iovec parts[2] = {{data, 3}, {data + 3, 7}};
  EXPECT(writev(file, parts, 2) == 10 && pwrite(file, data, 10, 10) == 10);
  EXPECT(lseek(file, 0, SEEK_END) == 20 && lseek(file, 0, SEEK_CUR) == 20);
  EXPECT(pwrite(file, data, 1, 0) < 0 && errno == ENOTSUP);
  EXPECT(lseek(file, 5, SEEK_SET) == 5 && write(file, data, 1) < 0 && errno == ENOTSUP && lseek(file, 0, SEEK_END) == 20);
  EXPECT(ftruncate(file, 20) == 0 && ftruncate(file, 5) < 0 && errno == ENOTSUP);
  const int copies[] = {dup(file), dup2(file, 90), fcntl(file, F_DUPFD_CLOEXEC, 100)};
  EXPECT(copies[0] >= 0 && copies[1] == 90 && copies[2] >= 100 && fcntl(file, F_GETFL) == O_WRONLY);
  EXPECT(write(copies[0], data, 5) == 5 && write(copies[1], data + 5, 5) == 5 && lseek(copies[2], 0, SEEK_CUR) == 30);
  EXPECT(close(file) == 0 && close(copies[1]) == 0 && close(copies[2]) == 0);
  file = copies[0];
  EXPECT(read(file, room, 1) < 0);
  EXPECT(fsync(file) == 0 && fsync(file) == 0);
  EXPECT(write(file, data, 1) < 0 && errno == ENOTSUP);
  EXPECT(close(file) == 0 && close(file) < 0 && errno == EBADF);

  file = open(path, O_RDONLY);
  struct stat found;
  EXPECT(file >= 0 && fstat(file, &found) == 0 && found.st_size == 30 && found.st_mtim.tv_sec > 0);
  EXPECT(pread(file, room, 32, 25) == 5 && memcmp(room, "56789", 5) == 0);
  EXPECT(read(file, room, 4) == 4 && memcmp(room, "0123", 4) == 0 && lseek(file, 0, SEEK_CUR) == 4);
  parts[0] = (struct iovec){room, 2}, parts[1] = (struct iovec){room + 2, 2};
  EXPECT(readv(file, parts, 2) == 4 && memcmp(room, "4567", 4) == 0);
  EXPECT(write(file, data, 1) < 0 && errno == EBADF);
  char* mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  EXPECT(mapped != MAP_FAILED && memcmp(mapped, "012345678901234567890123456789", 31) == 0);
  EXPECT(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED && errno == ENOTSUP);
  /* Another file with that descriptor is nothing of ours. */
  EXPECT(close(file) == 0 && memcmp(mapped, "0123", 4) == 0 && munmap(mapped, 4096) == 0);
  const int other = open("/dev/zero", O_RDONLY);
  EXPECT(other == file && read(other, room, 4) == 4 && room[0] == 0 && close(other) == 0);
}

/* Parts at a place, and files to files: a file of ours to one of the kernel's, and back. */
static void parts_and_copies(const char* path) {
  char data[] = "0123456789", room[32];
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  struct iovec parts[2] = {{data, 3}, {data + 3, 7}};
  EXPECT(file >= 0 && pwritev(file, parts, 2, 0) == 10 && lseek(file, 0, SEEK_CUR) == 0);
  EXPECT(pwritev(file, parts, 2, 3) < 0 && errno == ENOTSUP && pwritev(file, parts, 2, -1) < 0 && errno == EINVAL);
  EXPECT(pwritev2(file, parts, 2, 10, 0) == 10 && lseek(file, 0, SEEK_END) == 20 && pwritev2(file, parts, 2, -1, 0) == 10);
  EXPECT(pwritev2(file, parts, 2, 30, RWF_DSYNC) < 0 && errno == ENOTSUP && close(file) == 0);
  file = open(path, O_RDONLY);
  parts[0] = (struct iovec){room, 4}, parts[1] = (struct iovec){room + 4, 4};
  EXPECT(preadv(file, parts, 2, 5) == 8 && memcmp(room, "56789012", 8) == 0 && lseek(file, 0, SEEK_CUR) == 0);
  EXPECT(preadv(file, parts, 2, 28) == 2 && preadv(file, parts, 2, -1) < 0 && errno == EINVAL);
  EXPECT(preadv2(file, parts, 2, -1, 0) == 8 && memcmp(room, "01234567", 8) == 0 && lseek(file, 0, SEEK_CUR) == 8);
  EXPECT(preadv2(file, parts, 2, 0, RWF_NOWAIT) < 0 && errno == ENOTSUP);

  const int other = memfd_create("other", 0);
  off_t at = 27;
  off64_t from = 2, to = 1;
  EXPECT(other >= 0 && sendfile(other, file, &at, 100) == 3 && at == 30 && lseek(file, 0, SEEK_CUR) == 8);
  EXPECT(sendfile(other, file, NULL, 2) == 2 && lseek(file, 0, SEEK_CUR) == 10 && sendfile(other, file, &at, 1) == 0);
  EXPECT(pread(other, room, 32, 0) == 5 && memcmp(room, "78989", 5) == 0);
  EXPECT(copy_file_range(file, &from, other, &to, 2, 0) == 2 && from == 4 && to == 3);
  EXPECT(pread(other, room, 32, 0) == 5 && memcmp(room, "72389", 5) == 0 && close(file) == 0);
  file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  EXPECT(lseek(other, 0, SEEK_SET) == 0 && copy_file_range(other, NULL, file, NULL, 3, 0) == 3);
  EXPECT(sendfile(file, other, NULL, 100) == 2 && copy_file_range(other, NULL, file, NULL, 100, 0) == 0);
  from = 0, to = 1;
  EXPECT(copy_file_range(other, &from, file, &to, 1, 0) < 0 && errno == ENOTSUP && from == 0);
  EXPECT(close(file) == 0 && close(other) == 0);
  file = open(path, O_RDONLY);
  EXPECT(read(file, room, 32) == 5 && memcmp(room, "72389", 5) == 0 && close(file) == 0);
}

#define EXPECT_REFUSED(call)  \
  do {                        \
    errno = 0;                \
    EXPECT((call) == -1);     \
    EXPECT(errno == ENOTSUP); \
  } while (0)

/* What the kernel would say of a file that it does not know. All that belongs to one kind is said in one way (test_preload.py).
 */
static void refusals(const char* path) {
  const struct timespec exact[2] = {{1, 0}, {1, 0}};
  const struct timeval times[2] = {{1, 0}, {1, 0}};
  const struct utimbuf both = {1, 1};
  struct statvfs room;
  struct statfs system;
  const int file = open(path, O_RDONLY);
  EXPECT(file >= 0);
  EXPECT_REFUSED(chmod(path, 0600));
  EXPECT_REFUSED(fchmod(file, 0600));
  EXPECT_REFUSED(fchmodat(AT_FDCWD, path, 0600, 0));
  EXPECT_REFUSED(chown(path, 0, 0));
  EXPECT_REFUSED(lchown(path, 0, 0));
  EXPECT_REFUSED(fchown(file, 0, 0));
  EXPECT_REFUSED(fchownat(AT_FDCWD, path, 0, 0, 0));
  EXPECT_REFUSED(fchownat(file, "", 0, 0, AT_EMPTY_PATH));
  EXPECT_REFUSED(utime(path, &both));
  EXPECT_REFUSED(utimes(path, times));
  EXPECT_REFUSED(lutimes(path, times));
  EXPECT_REFUSED(futimes(file, times));
  EXPECT_REFUSED(futimesat(AT_FDCWD, path, times));
  EXPECT_REFUSED(futimens(file, exact));
  EXPECT_REFUSED(utimensat(AT_FDCWD, path, exact, 0));
  EXPECT_REFUSED(utimensat(file, "", exact, AT_EMPTY_PATH));
  EXPECT_REFUSED(link(path, "/tmp/elsewhere"));
  EXPECT_REFUSED(link("/dev/null", path));
  EXPECT_REFUSED(symlink(path, "/tmp/elsewhere"));
  EXPECT_REFUSED(symlink("/dev/null", path));
  EXPECT_REFUSED(linkat(AT_FDCWD, path, AT_FDCWD, "/tmp/elsewhere", 0));
  EXPECT_REFUSED(linkat(file, "", AT_FDCWD, "/tmp/elsewhere", AT_EMPTY_PATH));
  EXPECT_REFUSED(symlinkat("/dev/null", AT_FDCWD, path));
  errno = 0;
  EXPECT(realpath(path, NULL) == NULL && errno == ENOTSUP);
  errno = 0;
  EXPECT(canonicalize_file_name(path) == NULL && errno == ENOTSUP);
  EXPECT_REFUSED(statvfs(path, &room));
  EXPECT_REFUSED(fstatvfs(file, &room));
  EXPECT_REFUSED(statfs(path, &system));
  EXPECT_REFUSED(fstatfs(file, &system));
  EXPECT(close(file) == 0);
  /* Others' files are as ever. */
  char* real = realpath("/dev/../dev/null", NULL);
  EXPECT(real != NULL && strcmp(real, "/dev/null") == 0 && statvfs("/dev", &room) == 0 && statfs("/dev", &system) == 0);
  free(real);
  const int other = memfd_create("other", 0);
  EXPECT(fchmod(other, 0640) == 0 && futimens(other, exact) == 0 && fstatvfs(other, &room) == 0 && fstatfs(other, &system) == 0);
  struct stat found;
  EXPECT(fstat(other, &found) == 0 && (found.st_mode & 0777) == 0640 && found.st_mtim.tv_sec == 1 && close(other) == 0);
}

static void names(const char* path) {
  char other[512], folder[512];
  snprintf(other, sizeof other, "%s.renamed", path);
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = '\0';
  struct stat found, again;
  EXPECT(access(path, R_OK) == 0 && access(path, X_OK) < 0 && errno == EACCES);
  EXPECT(stat(folder, &found) == 0 && S_ISDIR(found.st_mode) && mkdir(folder, 0700) == 0);
  EXPECT(open(folder, O_WRONLY | O_CREAT, 0600) < 0 && errno == EISDIR);
  EXPECT(stat(path, &found) == 0 && lstat(path, &again) == 0 && found.st_ino == again.st_ino && found.st_dev == again.st_dev);
  EXPECT(rename(path, other) == 0 && stat(path, &found) < 0 && errno == ENOENT);
  EXPECT(stat(other, &found) == 0 && found.st_ino != again.st_ino);
  EXPECT(rename(other, "/tmp/elsewhere") < 0 && errno == EXDEV);
  EXPECT(unlink(other) == 0 && unlink(other) < 0 && errno == ENOENT && open(other, O_RDONLY) < 0 && errno == ENOENT);
  EXPECT(open("bb:/nowhere/x", O_RDONLY) < 0 && errno == EHOSTUNREACH);
}

/* A child has nothing of its parent's, and does no harm. */
static void child(const char* path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  EXPECT(file >= 0 && write(file, "parent", 6) == 6);
  const pid_t forked = fork();
  if (forked == 0) {
    const int is_refused = write(file, "child", 5) < 0 && open(path, O_RDONLY) < 0 && errno == ENOTSUP;
    exit(is_refused ? 7 : 1);
  }
  int status;
  EXPECT(waitpid(forked, &status, 0) == forked && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  EXPECT(close(file) == 0);
  struct stat found;
  EXPECT(stat(path, &found) == 0 && found.st_size == 6);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  streams(argv[1]);
  descriptors(argv[1]);
  parts_and_copies(argv[1]);
  refusals(argv[1]);
  names(argv[1]);
  child(argv[1]);
  /* Left open: the end of the program closes both. */
  char path[512];
  snprintf(path, sizeof path, "%s.stream", argv[1]);
  FILE* file = fopen(path, "w");
  EXPECT(file != NULL && fputs("left open", file) >= 0);
  snprintf(path, sizeof path, "%s.descriptor", argv[1]);
  const int descriptor = open(path, O_WRONLY | O_CREAT, 0600);
  EXPECT(descriptor >= 0 && write(descriptor, "left open", 9) == 9);
  return 0;
}
