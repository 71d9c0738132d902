// For programs that open a network: libfabric's verbs provider looks for two symbols of the kernel whenever the library is first
// used, whichever provider is asked for, and reads /proc/kallsyms through for each (vrb_os_mem_support). The kernel writes that
// text anew for every reader: 0.1 to 0.2 s of processor time in each agent and each command. Where the file cannot be opened the
// provider takes it that this kernel cannot register memory of devices, of which Kedge registers none. A program's fopen comes
// before the C library's; so does this one, in whatever links it.
#include <cerrno>
#include <cstdio>
#include <cstring>

extern "C" __attribute__((visibility("default"))) FILE* fopen(const char* path, const char* mode) {
  if (std::strcmp(path, "/proc/kallsyms") != 0) return fopen64(path, mode);
  errno = ENOENT;
  return nullptr;
}
