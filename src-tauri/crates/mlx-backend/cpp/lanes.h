// Vectors of floats in the width of the instruction set that this is compiled for.
//
// Intrinsics, because GCC 12 expands packed weights through memory when they are written as generic vectors: ten
// times slower, measured on the 4-bit product.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace braid {
namespace {

constexpr int kUnit = 32;  // weights that share an expansion: 4 words at 4 bits, 8 at 8 bits

// expand<kBits>(words, part): weights [part * kLanes, (part + 1) * kLanes) of a unit, lowest bits first, as floats.

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using Lanes = __m512;

inline Lanes splat(float value) { return _mm512_set1_ps(value); }
inline Lanes load(const float* from) { return _mm512_loadu_ps(from); }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline float total(Lanes a) { return _mm512_reduce_add_ps(a); }

template <int kBits>
inline Lanes expand(const std::uint32_t* words, int part) {
  if constexpr (kBits == 8) {
    const auto* bytes = reinterpret_cast<const __m128i*>(words) + part;
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes)));
  } else {
    const __m512i all = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    const __m512i from = part == 0 ? _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
                                   : _mm512_setr_epi32(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i shifted = _mm512_srlv_epi32(_mm512_permutexvar_epi32(from, all), shifts);
    return _mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(15)));
  }
}

#elif defined(__AVX2__)

constexpr int kLanes = 8;
using Lanes = __m256;

inline Lanes splat(float value) { return _mm256_set1_ps(value); }
inline Lanes load(const float* from) { return _mm256_loadu_ps(from); }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }

inline float total(Lanes a) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

template <int kBits>
inline Lanes expand(const std::uint32_t* words, int part) {
  if constexpr (kBits == 8) {
    const auto* bytes = reinterpret_cast<const __m128i*>(words + 2 * part);
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes)));
  } else {
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i shifted = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(words[part])), shifts);
    return _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(15)));
  }
}

#else

constexpr int kLanes = 4;
typedef float Lanes __attribute__((vector_size(16)));

inline Lanes splat(float value) { return Lanes{value, value, value, value}; }
inline Lanes load(const float* from) { return Lanes{from[0], from[1], from[2], from[3]}; }
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return a * b + c; }
inline float total(Lanes a) { return (a[0] + a[2]) + (a[1] + a[3]); }

template <int kBits>
inline Lanes expand(const std::uint32_t* words, int part) {
  const int first_bit = part * kLanes * kBits;
  const std::uint32_t word = words[first_bit / 32] >> (first_bit % 32);
  constexpr std::uint32_t mask = (1u << kBits) - 1;
  return Lanes{static_cast<float>(word & mask), static_cast<float>(word >> kBits & mask),
               static_cast<float>(word >> 2 * kBits & mask), static_cast<float>(word >> 3 * kBits & mask)};
}

#endif

}  // namespace
}  // namespace braid
