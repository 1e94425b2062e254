// The path for x86 with AVX-512 F, BW, DQ and VL.
#include "gemv/gemv.h"
#include "gemv/sigmoid.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace w8a16 {
namespace {

#define W8A16_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

struct Lanes {
  __m512 v;

  // Eight sums or more hide the latency of a fused step; more rows would need more addresses than there are registers.
  static constexpr int kTileRows = 4;
  static constexpr int channels(int rows) { return rows == 1 ? 8 : 4; }

  static W8A16_TARGET W8A16_INLINE Lanes zero() { return {_mm512_setzero_ps()}; }
  static W8A16_TARGET W8A16_INLINE Lanes codes(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static W8A16_TARGET W8A16_INLINE Lanes codes_tail(const int8_t* p, int64_t count) {
    const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << count) - 1), p);
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static W8A16_TARGET W8A16_INLINE Lanes floats(const float* p) { return {_mm512_loadu_ps(p)}; }
  W8A16_TARGET W8A16_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  W8A16_TARGET W8A16_INLINE void fma(const Lanes& a, const Lanes& b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
  W8A16_TARGET W8A16_INLINE float sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#include "gemv/tile.h"

}  // namespace

const Kernel* avx512_kernel() {
  static constexpr Kernel kernel{linear, gated};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return there ? &kernel : nullptr;
}

}  // namespace w8a16

#else

namespace w8a16 {
const Kernel* avx512_kernel() { return nullptr; }
}  // namespace w8a16

#endif
