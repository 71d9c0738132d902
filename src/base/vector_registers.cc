#include "base/vector_registers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kedge {

#if defined(__x86_64__)

namespace {

__attribute__((target("avx"))) void ZeroUpperHalves() {
  _mm256_zeroupper();
}

}  // namespace

void ReleaseUpperHalves() {
  static const bool has_avx = __builtin_cpu_supports("avx") != 0;
  if (has_avx) ZeroUpperHalves();
}

#else

void ReleaseUpperHalves() {}

#endif

}  // namespace kedge
