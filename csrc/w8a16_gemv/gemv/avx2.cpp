// The path for x86 with AVX2 and FMA.
#include "gemv/gemv.h"
#include "gemv/sigmoid.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace w8a16 {
namespace {

#define W8A16_TARGET __attribute__((target("avx2,fma")))

struct Lanes {
  __m256 low, high;

  // Sixteen registers: up to six pairs of sums beside the codes.
  static constexpr int kTileRows = 4;
  static constexpr int channels(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

  static W8A16_TARGET W8A16_INLINE Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static W8A16_TARGET W8A16_INLINE Lanes widened(__m128i bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
  }
  static W8A16_TARGET W8A16_INLINE Lanes codes(const int8_t* p) {
    return widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // A full load could leave the tensor, and its last page.
  static W8A16_TARGET W8A16_INLINE Lanes codes_tail(const int8_t* p, int64_t count) {
    int8_t held[kLanes] = {};
    std::memcpy(held, p, static_cast<size_t>(count));
    return codes(held);
  }
  static W8A16_TARGET W8A16_INLINE Lanes floats(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  W8A16_TARGET W8A16_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  W8A16_TARGET W8A16_INLINE void fma(const Lanes& a, const Lanes& b) {
    low = _mm256_fmadd_ps(a.low, b.low, low);
    high = _mm256_fmadd_ps(a.high, b.high, high);
  }
  W8A16_TARGET W8A16_INLINE float sum() const {
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#include "gemv/tile.h"

}  // namespace

const Kernel* avx2_kernel() {
  static constexpr Kernel kernel{linear, gated};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernel : nullptr;
}

}  // namespace w8a16

#else

namespace w8a16 {
const Kernel* avx2_kernel() { return nullptr; }
}  // namespace w8a16

#endif
