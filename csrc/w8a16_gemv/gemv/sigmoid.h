// x * sigmoid(z) from IEEE additions, multiplications and one division: any vector width gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "gemv/gemv.h"

#define W8A16_INLINE inline __attribute__((always_inline))

namespace w8a16 {

W8A16_INLINE float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

W8A16_INLINE uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// exp(x) for x up to 0, within 2 units in the last place; 0 below the range of float32, NaN for NaN.
W8A16_INLINE float exp_of(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504f + kMagic;
  const float n = shifted - kMagic;
  float r = x - n * 0.693145751953125f;  // ln 2 in two parts, the first exact when multiplied by n
  r = r - n * 1.42860677e-6f;
  float p = 1.9875691500e-4f;  // the polynomial of Cephes' expf
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors: n runs down to -150, further than one exponent reaches.
  const int32_t whole = static_cast<int32_t>(to_bits(shifted) - to_bits(kMagic));
  const int32_t half = whole >> 1;
  const float first = from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float second = from_bits(static_cast<uint32_t>(whole - half + 127) << 23);
  return p * first * second;
}

// gelu_tanh(x) is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3); silu(x) is x * sigmoid(x).
template <Activation kind>
W8A16_INLINE float activate(float x) {
  const float z = kind == Activation::kSilu ? x : 1.5957691216f * (x + 0.044715f * x * x * x);
  const float e = exp_of(z > 0.0f ? -z : z);
  return x * (z > 0.0f ? 1.0f : e) / (1.0f + e);
}

}  // namespace w8a16
