// Product of a few rows with 4-bit weights: out[M, N] = x[M, K] · Wᵀ (+ residual[M, N]).
// weights [N, K / 8], eight to a word, lowest bits first; scales, offsets [N, K / GROUP]; dims {K, N, M}, M <= ROWS.
// Launched with W warps a block, which share the columns of C outputs. ROWS and C are powers of two, ROWS * C <= 32.
constexpr int VALUES = 16;
const int K = dims[0], N = dims[1], M = dims[2];
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
const int first = blockIdx.x * C;
float sums[ROWS * C];
#pragma unroll
for (int i = 0; i < ROWS * C; ++i) sums[i] = 0.f;
for (int k = (warp * 32 + lane) * VALUES; k < K; k += W * 32 * VALUES) {
  uint2 packed[C];
  float scale[C], offset[C];
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int n = min(first + c, N - 1);
    packed[c] = *reinterpret_cast<const uint2*>(weights + (size_t)n * (K / 8) + k / 8);
    const size_t group = (size_t)n * (K / GROUP) + k / GROUP;
    scale[c] = static_cast<float>(scales[group]);
    offset[c] = static_cast<float>(offsets[group]);
  }
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    float w[C][8];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const unsigned word = part == 0 ? packed[c].x : packed[c].y;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        // 2^23 + q is the float whose lowest bits are q.
        const float q = __uint_as_float(0x4B000000u | ((word >> (4 * i)) & 15u)) - 8388608.f;
        w[c][i] = fmaf(q, scale[c], offset[c]);
      }
    }
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
      const uint4 raw = *reinterpret_cast<const uint4*>(x + (size_t)min(m, M - 1) * K + k + 8 * part);
      const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float low = __uint_as_float(words[i] << 16), high = __uint_as_float(words[i] & 0xFFFF0000u);
#pragma unroll
        for (int c = 0; c < C; ++c) {
          sums[m * C + c] = fmaf(w[c][2 * i], low, sums[m * C + c]);
          sums[m * C + c] = fmaf(w[c][2 * i + 1], high, sums[m * C + c]);
        }
      }
    }
  }
}
// Lanes take over halves of the sums until each holds the total of one.
constexpr int TOTAL = ROWS * C;
#pragma unroll
for (int half = 16; half >= 1; half >>= 1) {
  if (half >= TOTAL) {
#pragma unroll
    for (int i = 0; i < TOTAL; ++i) sums[i] += __shfl_xor_sync(0xFFFFFFFFu, sums[i], half);
  } else {
    const bool upper = lane & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float send = upper ? sums[i] : sums[i + half];
      const float keep = upper ? sums[i + half] : sums[i];
      sums[i] = keep + __shfl_xor_sync(0xFFFFFFFFu, send, half);
    }
  }
}
__shared__ float shared[W][32];
if (W > 1) {
  shared[warp][lane] = sums[0];
  __syncthreads();
}
if (warp == 0 && lane < TOTAL) {
  float total = sums[0];
  if (W > 1) {
#pragma unroll
    for (int other = 1; other < W; ++other) total += shared[other][lane];
  }
  const int m = lane / C, n = first + lane % C;
  if (m < M && n < N) {
    const size_t at = (size_t)m * N + n;
    // Rounded before the sum, as two operations would.
    const T product = static_cast<T>(total);
    out[at] = ADDS ? static_cast<T>(static_cast<float>(product) + static_cast<float>(residual[at])) : product;
  }
}
