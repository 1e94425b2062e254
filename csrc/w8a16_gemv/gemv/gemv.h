// int8 weights times a few rows: what the op hands to a path, and what each path is.
#pragma once

#include <cstdint>

namespace w8a16 {

// Every path sums a dot product in this many lanes and adds the lanes in one order: all paths give the same bits, and
// no bit depends on how channels are dealt out to threads or how many rows are beside a row.
constexpr int64_t kLanes = 16;
constexpr int64_t kMaxRows = 8;
constexpr int64_t kBlock = 32;  // channels per unit of work

// Numbers of x that a stretch of depth spans: they are read again for every few channels, from a first-level cache.
constexpr int64_t kStretch = 4096;
struct Stretch {
  int64_t begin, end;
};

enum class Activation { kGeluTanh, kSilu };
enum class Path : int64_t { kWidest = 0, kPlain = 1, kAvx2 = 2, kAvx512 = 3 };

// One matmul: rows x depth times channels x depth. For a gated one, channels are those of the gate, and those of the
// second factor follow at codes + channels * depth and scale + channels.
struct Matmul {
  const float* x;  // [rows, padded], bfloat16 numbers, zero from depth on
  int64_t padded;  // depth rounded up to kLanes
  const int8_t* codes;
  const float* scale;
  const float* bias;  // may be null
  int64_t rows, depth, channels;
};

// out[row * kBlock + channel - begin], for channels begin to end, at most kBlock of them
struct Kernel {
  void (*linear)(const Matmul&, int64_t begin, int64_t end, float* out);
  void (*gated)(const Matmul&, Activation, int64_t begin, int64_t end, float* out);
};

const Kernel& plain_kernel();
const Kernel* avx2_kernel();    // null where this CPU or this build has no such path
const Kernel* avx512_kernel();  // as avx2_kernel

// The widest path of this CPU for kWidest; null for one that it lacks.
const Kernel* kernel_of(Path);
Path widest();

// Numbers that leave: float32, or bfloat16 as their 16 bits.
struct Rows {
  void* data;
  bool bfloat16;
};

// Rows [rows, depth] as float32 that hold bfloat16 numbers, rounded half to even; NaN stays NaN.
void round_rows(const Rows& from, int64_t rows, int64_t depth, int64_t padded, float* to);

// One block of channels, computed and written to its place in out [rows, channels].
void run_block(const Kernel&, const Matmul&, const Activation* gate, int64_t block, const Rows& out);

}  // namespace w8a16
