// The path itself, over a class Lanes of kLanes floats that the including file defines, as it does W8A16_TARGET and
// the namespace this text is compiled in.
//
// Lanes has: zero(), codes(p), codes_tail(p, count), floats(p), store(p), fma(codes, floats), sum(), kTileRows and
// channels(rows).

// Sums of R channels and M rows over depth begin to end, which kept lanes carry from one stretch of depth to the next.
template <int R, int M>
W8A16_TARGET void tile(const Matmul& mm, const float* x, int64_t channel, const Stretch& k, float* kept, float* out) {
  Lanes acc[R][M];
  const int8_t* codes[R];
  for (int r = 0; r < R; ++r) {
    codes[r] = mm.codes + (channel + r) * mm.depth;
    for (int m = 0; m < M; ++m) acc[r][m] = k.begin == 0 ? Lanes::zero() : Lanes::floats(kept + (r * M + m) * kLanes);
  }
  const int64_t whole = k.begin + (k.end - k.begin) / kLanes * kLanes;
  for (int64_t at = k.begin; at < whole; at += kLanes) {
    for (int r = 0; r < R; ++r) {
      const Lanes c = Lanes::codes(codes[r] + at);
      for (int m = 0; m < M; ++m) acc[r][m].fma(c, Lanes::floats(x + m * mm.padded + at));
    }
  }
  if (whole < k.end) {
    for (int r = 0; r < R; ++r) {
      const Lanes c = Lanes::codes_tail(codes[r] + whole, k.end - whole);
      for (int m = 0; m < M; ++m) acc[r][m].fma(c, Lanes::floats(x + m * mm.padded + whole));
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int m = 0; m < M; ++m) {
      if (k.end == mm.depth)
        out[m * kBlock + r] = acc[r][m].sum();
      else
        acc[r][m].store(kept + (r * M + m) * kLanes);
    }
  }
}

template <int M>
W8A16_TARGET void channels_of(const Matmul& mm, const float* x, int64_t begin, int64_t end, float* out) {
  constexpr int R = Lanes::channels(M);
  alignas(64) float kept[kBlock * M * kLanes];
  constexpr int64_t kStep = kStretch / M / kLanes * kLanes;
  for (int64_t from = 0; from < mm.depth; from += kStep) {
    const Stretch k{from, from + kStep < mm.depth ? from + kStep : mm.depth};
    int64_t n = begin;
    for (; n + R <= end; n += R) tile<R, M>(mm, x, n, k, kept + (n - begin) * M * kLanes, out + (n - begin));
    for (; n < end; ++n) tile<1, M>(mm, x, n, k, kept + (n - begin) * M * kLanes, out + (n - begin));
  }
}

// Takes the most rows that a tile holds, then what is left of them.
template <int M>
W8A16_TARGET void rows_of(const Matmul& mm, int64_t row, int64_t begin, int64_t end, float* out) {
  if constexpr (M > 0) {
    const int64_t left = mm.rows - row;
    if (left >= M) {
      channels_of<M>(mm, mm.x + row * mm.padded, begin, end, out + row * kBlock);
      if (left > M) rows_of<M>(mm, row + M, begin, end, out);
    } else {
      rows_of<M - 1>(mm, row, begin, end, out);
    }
  }
}

W8A16_TARGET void linear(const Matmul& mm, int64_t begin, int64_t end, float* out) {
  rows_of<Lanes::kTileRows>(mm, 0, begin, end, out);
  const int64_t count = end - begin;
  for (int64_t m = 0; m < mm.rows; ++m) {
    float* row = out + m * kBlock;
    for (int64_t n = 0; n < count; ++n) row[n] *= mm.scale[begin + n];
    if (mm.bias != nullptr)
      for (int64_t n = 0; n < count; ++n) row[n] += mm.bias[begin + n];
  }
}

template <Activation kind>
W8A16_TARGET void gate_block(const float* up, int64_t rows, int64_t count, float* gate) {
  for (int64_t m = 0; m < rows; ++m) {
    float* g = gate + m * kBlock;
    const float* u = up + m * kBlock;
    for (int64_t n = 0; n < count; ++n) g[n] = activate<kind>(g[n]) * u[n];
  }
}

W8A16_TARGET void gated(const Matmul& mm, Activation kind, int64_t begin, int64_t end, float* out) {
  float up[kMaxRows * kBlock];
  linear(mm, begin, end, out);
  linear(mm, mm.channels + begin, mm.channels + end, up);
  if (kind == Activation::kGeluTanh)
    gate_block<Activation::kGeluTanh>(up, mm.rows, end - begin, out);
  else
    gate_block<Activation::kSilu>(up, mm.rows, end - begin, out);
}
