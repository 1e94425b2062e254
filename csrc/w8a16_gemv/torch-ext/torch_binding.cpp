// The ops. Weights are int8 codes [N, K] with one float32 scale [N]; x is [..., K], rounded to bfloat16 as it enters.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "gemv/gemv.h"
#include "registration.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using w8a16::kBlock;
using w8a16::kLanes;
using w8a16::kMaxRows;

// Codes that one thread takes at least: below that, waking another costs more than it saves.
constexpr int64_t kGrain = 1 << 16;
constexpr int64_t kCacheLine = 64;

// A forked process has none of the threads of the pool that its parent may have started, and would wait for them.
std::atomic<bool> forked{false};
const int watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });

template <class Body>
void over_blocks(int64_t blocks, int64_t codes_each, const Body& body) {
  if (forked)
    body(0, blocks);
  else
    torch::stable::parallel_for(0, blocks, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, codes_each)), body);
}

// Memory for the rounded rows of one call, kept by the calling thread for its next.
float* scratch(int64_t count) {
  thread_local std::vector<char> held;
  const size_t needed = static_cast<size_t>(count) * sizeof(float) + kCacheLine;
  if (held.size() < needed) held.resize(needed);
  const auto address = reinterpret_cast<uintptr_t>(held.data());
  return reinterpret_cast<float*>((address + kCacheLine - 1) / kCacheLine * kCacheLine);
}

void check_weights(const Tensor& codes, const Tensor& scale, int64_t halves) {
  STD_TORCH_CHECK(codes.is_cpu() && scale.is_cpu(), "codes and scale must be on cpu");
  STD_TORCH_CHECK(codes.scalar_type() == ScalarType::Char && codes.dim() == 2 && codes.numel() > 0,
                  "codes must be int8 [N, K] with N and K from 1");
  STD_TORCH_CHECK(scale.scalar_type() == ScalarType::Float && scale.dim() == 1 && scale.size(0) == codes.size(0),
                  "scale must be float32 [", codes.size(0), "], one number per row of codes");
  STD_TORCH_CHECK(codes.is_contiguous() && scale.is_contiguous(), "codes and scale must be contiguous");
  STD_TORCH_CHECK(codes.size(0) % halves == 0, "codes hold gate and up, got an odd number of rows: ", codes.size(0));
}

void check_bias(const Tensor& bias, int64_t channels) {
  STD_TORCH_CHECK(bias.is_cpu() && bias.scalar_type() == ScalarType::Float && bias.is_contiguous(),
                  "bias must be contiguous float32 on cpu");
  STD_TORCH_CHECK(bias.dim() == 1 && bias.size(0) == channels, "bias must be [", channels, "]");
}

int64_t rows_of(const Tensor& x, int64_t depth) {
  const ScalarType type = x.scalar_type();
  STD_TORCH_CHECK(x.is_cpu() && (type == ScalarType::Float || type == ScalarType::BFloat16),
                  "x must be float32 or bfloat16 on cpu");
  STD_TORCH_CHECK(x.dim() > 0 && x.size(-1) == depth, "x must be [..., ", depth, "], the K of codes");
  const int64_t rows = x.numel() / depth;
  STD_TORCH_CHECK(rows <= kMaxRows, "x has ", rows, " rows, the kernel takes up to ", kMaxRows,
                  ": call the original module for more");
  return rows;
}

const w8a16::Kernel& kernel_of(int64_t path) {
  const w8a16::Kernel* found = w8a16::kernel_of(static_cast<w8a16::Path>(path));
  STD_TORCH_CHECK(found != nullptr, "path ", path, " is none of this CPU: 0 takes its widest, ",
                  static_cast<int64_t>(w8a16::widest()));
  return *found;
}

Tensor run(const Tensor& x, const Tensor& codes, const Tensor& scale, const float* bias,
           const w8a16::Activation* gate, const w8a16::Kernel& kernel) {
  const int64_t depth = codes.size(1), channels = codes.size(0) / (gate == nullptr ? 1 : 2);
  const int64_t rows = rows_of(x, depth);
  const auto sizes = x.sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  shape.back() = channels;
  Tensor out = torch::stable::new_empty(x, shape, x.scalar_type());
  if (rows == 0) return out;
  const Tensor dense = x.is_contiguous() ? x : torch::stable::contiguous(x);
  const bool narrow = x.scalar_type() == ScalarType::BFloat16;
  const int64_t padded = (depth + kLanes - 1) / kLanes * kLanes;
  float* rounded = scratch(rows * padded);
  w8a16::round_rows({const_cast<void*>(dense.const_data_ptr()), narrow}, rows, depth, padded, rounded);
  const w8a16::Matmul mm{rounded, padded, codes.const_data_ptr<int8_t>(), scale.const_data_ptr<float>(),
                         bias,    rows,   depth,                          channels};
  const w8a16::Rows to{out.mutable_data_ptr(), narrow};
  over_blocks((channels + kBlock - 1) / kBlock, kBlock * depth * (gate == nullptr ? 1 : 2),
              [&](int64_t begin, int64_t end) {
                for (int64_t block = begin; block < end; ++block) w8a16::run_block(kernel, mm, gate, block, to);
              });
  return out;
}

Tensor linear(const Tensor& x, const Tensor& codes, const Tensor& scale, const std::optional<Tensor>& bias,
              int64_t path) {
  check_weights(codes, scale, 1);
  if (bias.has_value()) check_bias(*bias, codes.size(0));
  return run(x, codes, scale, bias.has_value() ? bias->const_data_ptr<float>() : nullptr, nullptr, kernel_of(path));
}

template <w8a16::Activation kind>
Tensor gated(const Tensor& x, const Tensor& codes, const Tensor& scale, int64_t path) {
  check_weights(codes, scale, 2);
  const w8a16::Activation gate = kind;
  return run(x, codes, scale, nullptr, &gate, kernel_of(path));
}

int64_t widest() { return static_cast<int64_t>(w8a16::widest()); }

}  // namespace

// A macro between them expands the name of the build before it becomes part of others.
#define W8A16_LIBRARY(name, library) STABLE_TORCH_LIBRARY(name, library)
#define W8A16_LIBRARY_IMPL(name, key, library) STABLE_TORCH_LIBRARY_IMPL(name, key, library)

W8A16_LIBRARY(TORCH_EXTENSION_NAME, library) {
  library.def("linear(Tensor x, Tensor codes, Tensor scale, Tensor? bias=None, int path=0) -> Tensor");
  library.def("gelu_tanh_gated(Tensor x, Tensor codes, Tensor scale, int path=0) -> Tensor");
  library.def("silu_gated(Tensor x, Tensor codes, Tensor scale, int path=0) -> Tensor");
  library.def("widest() -> int");
}

W8A16_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, library) {
  library.impl("linear", TORCH_BOX(&linear));
  library.impl("gelu_tanh_gated", TORCH_BOX(&gated<w8a16::Activation::kGeluTanh>));
  library.impl("silu_gated", TORCH_BOX(&gated<w8a16::Activation::kSilu>));
}

W8A16_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, library) {
  library.impl("widest", TORCH_BOX(&widest));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
