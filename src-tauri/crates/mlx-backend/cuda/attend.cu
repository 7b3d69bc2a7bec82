// One-token attention over ragged rows: q, out [B, HK * G, 1, D]; k, v [B, HK, capacity, D];
// shape {capacity, HK, first column of row 0, column after its last, ...}; factor {scale, cap}; sinks [HK * G].
// With CAPS scores s become cap * tanh(s / cap); with SINKS each query head has a score without a value. One block of 8
// warps for each row and key head; the warps share the row's columns, each lane holds D / 32 entries of a head.
constexpr int PER = D / 32, WARPS = 8, STEP = 4;
const int capacity = shape[0], heads = shape[1];
const int row = blockIdx.x / heads, head = blockIdx.x % heads;
const int begin = shape[2 + 2 * row], len = shape[3 + 2 * row];
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
float query[G][PER], best[G], mass[G], mixed[G][PER];
#pragma unroll
for (int g = 0; g < G; ++g) {
  best[g] = -INFINITY;
  mass[g] = 0.f;
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    query[g][i] = static_cast<float>(q[((size_t)(row * heads + head) * G + g) * D + lane * PER + i]) * factor[0];
    mixed[g][i] = 0.f;
  }
}
const T* keys = k + (size_t)(row * heads + head) * capacity * D + lane * PER;
const T* values = v + (size_t)(row * heads + head) * capacity * D + lane * PER;
for (int from = begin + warp * STEP; from < len; from += WARPS * STEP) {
  float key[STEP][PER], value[STEP][PER];
#pragma unroll
  for (int s = 0; s < STEP; ++s) {
    const size_t at = (size_t)min(from + s, len - 1) * D;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      key[s][i] = static_cast<float>(keys[at + i]);
      value[s][i] = static_cast<float>(values[at + i]);
    }
  }
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float score[STEP], top = best[g];
#pragma unroll
    for (int s = 0; s < STEP; ++s) {
      float sum = 0.f;
#pragma unroll
      for (int i = 0; i < PER; ++i) sum = fmaf(query[g][i], key[s][i], sum);
#pragma unroll
      for (int half = 16; half >= 1; half >>= 1) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, half);
      if (CAPS) sum = factor[1] * tanhf(sum / factor[1]);
      score[s] = from + s < len ? sum : -INFINITY;
      top = fmaxf(top, score[s]);
    }
    const float shrink = expf(best[g] - top);
    best[g] = top;
    mass[g] *= shrink;
#pragma unroll
    for (int i = 0; i < PER; ++i) mixed[g][i] *= shrink;
#pragma unroll
    for (int s = 0; s < STEP; ++s) {
      const float weight = expf(score[s] - top);
      mass[g] += weight;
#pragma unroll
      for (int i = 0; i < PER; ++i) mixed[g][i] = fmaf(weight, value[s][i], mixed[g][i]);
    }
  }
}
__shared__ float tops[WARPS][G], masses[WARPS][G], parts[WARPS][G][D];
#pragma unroll
for (int g = 0; g < G; ++g) {
  if (lane == 0) {
    tops[warp][g] = best[g];
    masses[warp][g] = mass[g];
  }
#pragma unroll
  for (int i = 0; i < PER; ++i) parts[warp][g][lane * PER + i] = mixed[g][i];
}
__syncthreads();
for (int at = threadIdx.x; at < G * D; at += WARPS * 32) {
  const int g = at / D, d = at % D;
  float top = -INFINITY, total = 0.f, sum = 0.f;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) top = fmaxf(top, tops[w][g]);
  if (SINKS) {
    const float sink = static_cast<float>(sinks[head * G + g]);
    top = fmaxf(top, sink);
    total = expf(sink - top);
  }
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    const float share = expf(tops[w][g] - top);
    total = fmaf(masses[w][g], share, total);
    sum = fmaf(parts[w][g][d], share, sum);
  }
  out[((size_t)(row * heads + head) * G + g) * D + d] = static_cast<T>(sum / total);
}
