// The path for any CPU.
#include "gemv/gemv.h"
#include "gemv/sigmoid.h"

namespace w8a16 {
namespace {

#define W8A16_TARGET

// A code times a bfloat16 number is exact in float32: multiplying and adding rounds once, as a fused step does.
struct Lanes {
  float v[kLanes];

  static constexpr int kTileRows = 2;
  static constexpr int channels(int) { return 1; }

  static W8A16_INLINE Lanes zero() { return {}; }
  static W8A16_INLINE Lanes codes(const int8_t* p) {
    Lanes out;
    for (int i = 0; i < kLanes; ++i) out.v[i] = static_cast<float>(p[i]);
    return out;
  }
  static W8A16_INLINE Lanes codes_tail(const int8_t* p, int64_t count) {
    Lanes out{};
    for (int64_t i = 0; i < count; ++i) out.v[i] = static_cast<float>(p[i]);
    return out;
  }
  static W8A16_INLINE Lanes floats(const float* p) {
    Lanes out;
    std::memcpy(out.v, p, sizeof out.v);
    return out;
  }
  W8A16_INLINE void store(float* p) const { std::memcpy(p, v, sizeof v); }
  W8A16_INLINE void fma(const Lanes& a, const Lanes& b) {
    for (int i = 0; i < kLanes; ++i) v[i] += a.v[i] * b.v[i];
  }
  W8A16_INLINE float sum() const {
    float left[kLanes];
    std::memcpy(left, v, sizeof left);
    for (int64_t width = kLanes / 2; width > 0; width /= 2)
      for (int64_t i = 0; i < width; ++i) left[i] += left[i + width];
    return left[0];
  }
};

#include "gemv/tile.h"

}  // namespace

const Kernel& plain_kernel() {
  static constexpr Kernel kernel{linear, gated};
  return kernel;
}

}  // namespace w8a16
