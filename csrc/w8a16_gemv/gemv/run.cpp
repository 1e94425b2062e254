// What surrounds a path: choosing it, rounding what enters and writing what leaves.
#include <algorithm>

#include "gemv/gemv.h"
#include "gemv/sigmoid.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace w8a16 {
namespace {

// Rounding and subnormal modes belong to a thread, and a caller may have set those of its own only: bits would depend
// on who computes what. Within this scope every thread has the modes a process starts with.
class SameModes {
 public:
#if defined(__x86_64__)
  SameModes() : before_(_mm_getcsr()) {
    if (before_ != kStart) _mm_setcsr(kStart);
  }
  ~SameModes() {
    if (before_ != kStart) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kStart = 0x1F80;
  unsigned before_;
#endif
};

// The bits of the nearest bfloat16 number, half to even.
uint16_t bfloat16_bits(float value) {
  const uint32_t bits = to_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x0040u);  // quiet NaN
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float from_bfloat16_bits(uint16_t bits) { return from_bits(static_cast<uint32_t>(bits) << 16); }

}  // namespace

Path widest() {
  static const Path found = avx512_kernel() != nullptr ? Path::kAvx512
                            : avx2_kernel() != nullptr ? Path::kAvx2
                                                       : Path::kPlain;
  return found;
}

const Kernel* kernel_of(Path path) {
  switch (path == Path::kWidest ? widest() : path) {
    case Path::kAvx512:
      return avx512_kernel();
    case Path::kAvx2:
      return avx2_kernel();
    case Path::kPlain:
      return &plain_kernel();
    default:
      return nullptr;
  }
}

void round_rows(const Rows& from, int64_t rows, int64_t depth, int64_t padded, float* to) {
  for (int64_t m = 0; m < rows; ++m) {
    float* row = to + m * padded;
    if (from.bfloat16) {
      const uint16_t* source = static_cast<const uint16_t*>(from.data) + m * depth;
      for (int64_t k = 0; k < depth; ++k) row[k] = from_bfloat16_bits(source[k]);
    } else {
      const float* source = static_cast<const float*>(from.data) + m * depth;
      for (int64_t k = 0; k < depth; ++k) row[k] = from_bfloat16_bits(bfloat16_bits(source[k]));
    }
    std::fill(row + depth, row + padded, 0.0f);
  }
}

void run_block(const Kernel& kernel, const Matmul& mm, const Activation* gate, int64_t block, const Rows& out) {
  const SameModes modes;
  float held[kMaxRows * kBlock];
  const int64_t begin = block * kBlock;
  const int64_t end = std::min(begin + kBlock, mm.channels);
  if (gate == nullptr)
    kernel.linear(mm, begin, end, held);
  else
    kernel.gated(mm, *gate, begin, end, held);
  for (int64_t m = 0; m < mm.rows; ++m) {
    const float* row = held + m * kBlock;
    const int64_t place = m * mm.channels + begin;
    if (out.bfloat16)
      std::transform(row, row + (end - begin), static_cast<uint16_t*>(out.data) + place, bfloat16_bits);
    else
      std::copy(row, row + (end - begin), static_cast<float*>(out.data) + place);
  }
}

}  // namespace w8a16
