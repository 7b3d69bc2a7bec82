// Vectors of floats in the width of the instruction set that this is compiled for.
//
// Intrinsics, because GCC 12 expands packed weights through memory when they are written as generic vectors: ten
// times slower, measured on the 4-bit product. Plain arithmetic is written with operators, which all have.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace braid {
namespace {

constexpr int kUnit = 32;  // weights that are expanded together: 4 words at 4 bits, 8 at 8 bits, 32 at 32 bits

// Each instruction set has
//   Group<kBits>: expands weights that share a scale. weights(words, part) gives lanes [part * kLanes,
//     (part + 1) * kLanes) of a unit in the order of `order`;
//   order<kBits>(unit): puts the lanes of a unit of the input into the order that Group expands weights in.

#if defined(__AVX512F__)

constexpr int kLanes = 16;
constexpr int kOutputsAtOnce = 2;
using Lanes = __m512;

inline Lanes splat(float value) { return _mm512_set1_ps(value); }
inline Lanes load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Lanes a) { _mm512_storeu_ps(to, a); }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes clamp(Lanes a, float low, float high) {
  return _mm512_min_ps(_mm512_max_ps(a, splat(low)), splat(high));
}
inline Lanes nearest(Lanes a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Lanes times_power_of_two(Lanes a, Lanes n) { return _mm512_scalef_ps(a, n); }
inline float total(Lanes a) { return _mm512_reduce_add_ps(a); }

// Lane i is total(a[i]), added up in the same order.
inline Lanes totals(const Lanes (&a)[kLanes]) {
  Lanes halves[8], quarters[4], eighths[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const Lanes one = a[2 * i], two = a[2 * i + 1];
    halves[i] = _mm512_shuffle_f32x4(one, two, 0x44) + _mm512_shuffle_f32x4(one, two, 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Lanes one = halves[2 * i], two = halves[2 * i + 1];
    quarters[i] = _mm512_shuffle_f32x4(one, two, 0x88) + _mm512_shuffle_f32x4(one, two, 0xdd);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const Lanes one = quarters[2 * i], two = quarters[2 * i + 1];
    eighths[i] = _mm512_unpacklo_ps(one, two) + _mm512_unpackhi_ps(one, two);
  }
  const Lanes sums = _mm512_shuffle_ps(eighths[0], eighths[1], 0x44) + _mm512_shuffle_ps(eighths[0], eighths[1], 0xee);
  // Lane 4 * i + j holds sum 4 * j + i.
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
}

// Makes the compiler load once what several operations use: it would rather give each of them the memory operand.
inline void hold(Lanes& a) { asm("" : "+v"(a)); }

template <int kBits>
struct Group {
  Group(float scale, float offset) : scale(splat(scale)), offset(splat(offset)) {}
  Lanes weights(const std::uint32_t* words, int part) const {
    const auto* bytes = reinterpret_cast<const __m128i*>(words) + part;
    const Lanes whole = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes)));
    return multiply_add(whole, scale, offset);
  }
  Lanes scale, offset;
};

// Sixteen weights are all that four bits can say: they are computed once per group and looked up by the permutation,
// which ignores the higher bits of its indices.
template <>
struct Group<4> {
  Group(float scale, float offset)
      : table(multiply_add(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), splat(scale),
                           splat(offset))) {}
  Lanes weights(const std::uint32_t* words, int part) const {
    const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    const __m512i shifts = part == 0 ? _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)
                                     : _mm512_setr_epi32(16, 16, 16, 16, 20, 20, 20, 20, 24, 24, 24, 24, 28, 28, 28, 28);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(all, shifts), table);
  }
  Lanes table;
};

template <int kBits>
inline void order(Lanes (&unit)[2]) {
  if constexpr (kBits == 4) {
    // Lane 4 * n + w of part p is nibble n + 4 * p of word w.
    const __m512i low = _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    const Lanes first = _mm512_permutex2var_ps(unit[0], low, unit[1]);
    unit[1] = _mm512_permutex2var_ps(unit[0], high, unit[1]);
    unit[0] = first;
  }
}

#elif defined(__AVX2__)

constexpr int kLanes = 8;
constexpr int kOutputsAtOnce = 1;
using Lanes = __m256;

inline Lanes splat(float value) { return _mm256_set1_ps(value); }
inline Lanes load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Lanes a) { _mm256_storeu_ps(to, a); }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
inline void hold(Lanes&) {}
inline Lanes clamp(Lanes a, float low, float high) {
  return _mm256_min_ps(_mm256_max_ps(a, splat(low)), splat(high));
}
inline Lanes nearest(Lanes a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Lanes times_power_of_two(Lanes a, Lanes n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return a * _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

inline float total(Lanes a) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

inline Lanes totals(const Lanes (&a)[kLanes]) {
  float each[kLanes];
  for (int i = 0; i < kLanes; ++i) each[i] = total(a[i]);
  return load(each);
}

template <int kBits>
struct Group {
  Group(float scale, float offset) : scale(splat(scale)), offset(splat(offset)) {}
  Lanes weights(const std::uint32_t* words, int part) const {
    __m256i whole;
    if constexpr (kBits == 8) {
      whole = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words + 2 * part)));
    } else {
      const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
      const __m256i shifted = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(words[part])), shifts);
      whole = _mm256_and_si256(shifted, _mm256_set1_epi32(15));
    }
    return multiply_add(_mm256_cvtepi32_ps(whole), scale, offset);
  }
  Lanes scale, offset;
};

template <int kBits>
inline void order(Lanes (&)[kUnit / kLanes]) {}

#else

constexpr int kLanes = 4;
constexpr int kOutputsAtOnce = 1;
typedef float Lanes __attribute__((vector_size(16)));

inline Lanes splat(float value) { return Lanes{value, value, value, value}; }
inline Lanes load(const float* from) { return Lanes{from[0], from[1], from[2], from[3]}; }
inline void store(float* to, Lanes a) {
  for (int i = 0; i < kLanes; ++i) to[i] = a[i];
}
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return a * b + c; }
inline void hold(Lanes&) {}
template <class F>
inline Lanes each(Lanes a, F change) {
  return Lanes{change(a[0]), change(a[1]), change(a[2]), change(a[3])};
}
inline Lanes clamp(Lanes a, float low, float high) {
  return each(a, [=](float x) { return x < low ? low : x > high ? high : x; });
}
inline Lanes nearest(Lanes a) {
  return each(a, [](float x) { return std::nearbyintf(x); });
}
inline Lanes times_power_of_two(Lanes a, Lanes n) {
  return a * each(n, [](float x) { return std::ldexp(1.0f, static_cast<int>(x)); });
}
inline float total(Lanes a) { return (a[0] + a[2]) + (a[1] + a[3]); }

inline Lanes totals(const Lanes (&a)[kLanes]) {
  float each[kLanes];
  for (int i = 0; i < kLanes; ++i) each[i] = total(a[i]);
  return load(each);
}

template <int kBits>
struct Group {
  Group(float scale, float offset) : scale(splat(scale)), offset(splat(offset)) {}
  Lanes weights(const std::uint32_t* words, int part) const {
    const int first_bit = part * kLanes * kBits;
    const std::uint32_t word = words[first_bit / 32] >> (first_bit % 32);
    constexpr std::uint32_t mask = (1u << kBits) - 1;
    const Lanes whole{static_cast<float>(word & mask), static_cast<float>(word >> kBits & mask),
                      static_cast<float>(word >> 2 * kBits & mask), static_cast<float>(word >> 3 * kBits & mask)};
    return multiply_add(whole, scale, offset);
  }
  Lanes scale, offset;
};

template <int kBits>
inline void order(Lanes (&)[kUnit / kLanes]) {}

#endif

// f32 weights are ready as they are.
template <>
struct Group<32> {
  Group(float, float) {}
  Lanes weights(const std::uint32_t* words, int part) const {
    return load(reinterpret_cast<const float*>(words) + part * kLanes);
  }
};

// e^x within two units in the last place: a Taylor series on [-ln2/2, ln2/2] times a power of two. NaN becomes a
// number, so callers use x once more.
inline Lanes exponential(Lanes x) {
  x = clamp(x, -87.0f, 88.0f);
  const Lanes n = nearest(x * splat(1.44269504f));
  // ln 2 in two parts, the first short enough for n * part to be exact.
  Lanes r = multiply_add(n, splat(-0.693359375f), x);
  r = multiply_add(n, splat(2.12194440e-4f), r);
  Lanes sum = splat(1.0f / 5040);
  for (float factorial : {720.0f, 120.0f, 24.0f, 6.0f, 2.0f, 1.0f, 1.0f}) {
    sum = multiply_add(sum, r, splat(1.0f / factorial));
  }
  return times_power_of_two(sum, n);
}

}  // namespace
}  // namespace braid
