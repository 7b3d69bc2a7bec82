// The scans of scan.h, compiled once per instruction set with BRAID_SCANS naming the function that returns them.
//
// Loops over fixed blocks without branches, so that the compiler makes vectors of them. MLX's own operations take
// 16 ns an element for a logsumexp on the CPU, and the noise two logarithms an element; here a logarithm is taken
// only where a cheap bound cannot rule the id out.

#include "scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace braid {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr int kLanes = 16;
constexpr int kBlock = 256;

// The second when the first is NaN, as the instruction does.
inline float larger(float a, float b) { return a > b ? a : b; }

float largest(const float* x, int count) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kNone);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = larger(x[i + lane], lanes[lane]);
  }
  float most = *std::max_element(lanes, lanes + kLanes);
  for (; i < count; ++i) most = larger(x[i], most);
  return most;
}

// e^z for z <= 0, to about 1e-7 of itself; 0 or next to it below -87.
inline float exp_of_negative(float z) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  z = larger(z, -87.0f);
  const float shifted = z * 1.442695041f + kRound;
  const float whole = shifted - kRound;
  const float r = (z - whole * 0.693145752f) - whole * 1.42860677e-6f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const auto exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

float log_mass(const float* x, int count, float temperature) {
  const float most = largest(x, count);
  if (most == kNone) return kNone;
  const float factor = 1.0f / temperature;
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += exp_of_negative((x[i + lane] - most) * factor);
  }
  double sum = 0.0;
  for (float lane : lanes) sum += lane;
  for (; i < count; ++i) sum += exp_of_negative((x[i] - most) * factor);
  return most / temperature + static_cast<float>(std::log(sum));
}

// Sorts by descending value, then by ascending id.
inline std::uint64_t sort_key(float value, std::uint32_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);  // -0 becomes 0, its equal
  const std::uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<std::uint64_t>(~ascending) << 32 | id;
}

// Chunks of a row, at least twice as many as the shortlist is wide, or single elements.
int chunk_length(int count, int width) {
  int length = 64;
  while (length > 1 && count / length < 2 * width) length /= 2;
  return length;
}

void shortlist(const float* x, int count, int width, float* values, std::uint32_t* ids) {
  thread_local std::vector<float> maxima, ranked;
  thread_local std::vector<std::uint64_t> keys;
  const int length = chunk_length(count, width);
  const int chunks = (count + length - 1) / length;
  maxima.resize(chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int first = chunk * length;
    maxima[chunk] = largest(x + first, std::min(length, count - first));
  }
  // At least `width` elements reach the width-th largest chunk maximum, so nothing below it is in the shortlist.
  float least = kNone;
  if (width <= chunks) {
    ranked = maxima;
    std::nth_element(ranked.begin(), ranked.begin() + (width - 1), ranked.end(), std::greater<float>());
    least = ranked[width - 1];
  }
  keys.clear();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (maxima[chunk] < least) continue;
    const int end = std::min((chunk + 1) * length, count);
    for (int i = chunk * length; i < end; ++i) {
      if (x[i] >= least) keys.push_back(sort_key(x[i], static_cast<std::uint32_t>(i)));
    }
  }
  const int found = std::min(width, static_cast<int>(keys.size()));
  if (found < static_cast<int>(keys.size())) std::nth_element(keys.begin(), keys.begin() + found, keys.end());
  std::sort(keys.begin(), keys.begin() + found);
  for (int rank = 0; rank < width; ++rank) {
    ids[rank] = rank < found ? static_cast<std::uint32_t>(keys[rank]) : 0;
    values[rank] = rank < found ? x[ids[rank]] : kNone;
  }
}

inline std::uint32_t rotate_left(std::uint32_t a, int bits) { return a << bits | a >> (32 - bits); }

// As engine::sampling::noise, from the id's part on.
inline std::uint32_t hash(std::uint32_t base, std::uint32_t mixed) {
  std::uint32_t h = rotate_left(base ^ mixed, 13) * 5u + 0xE6546B64u;
  h ^= 16u;
  h = (h ^ h >> 16) * 0x85EBCA6Bu;
  h = (h ^ h >> 13) * 0xC2B2AE35u;
  return h ^ h >> 16;
}

inline float gumbel(std::uint32_t h) {
  const float uniform = std::min((static_cast<float>(h) + 0.5f) * 0x1p-32f, 1.0f - 0x1p-24f);
  return -std::log(-std::log1p(-uniform));
}

// Not below gumbel(h): h is at least 2^e, so its uniform at least 2^(e - 32), and noise at most minus the ln of that.
// e is read off the exponent of h's upper bits, which fit a float.
inline float gumbel_bound(std::uint32_t h) {
  const auto upper = static_cast<float>(static_cast<std::int32_t>(h >> 8));
  const std::int32_t exponent = (std::bit_cast<std::int32_t>(upper) >> 23) - 127;
  return static_cast<float>(24 - exponent) * 0.6931472f + 0.001f;
}

std::uint32_t draw(const float* x, const std::uint32_t* mixed, int count, const Draw& draw) {
  const float temperature = draw.temperature, floor = draw.floor, ceiling = draw.ceiling;
  float scaled[kBlock], bounds[kBlock];
  float best = kNone;
  std::uint32_t token = 0;
  for (int first = 0; first < count; first += kBlock) {
    const int size = std::min(kBlock, count - first);
    for (int i = 0; i < size; ++i) {
      const float s = x[first + i] / temperature;
      const float bound = s + gumbel_bound(hash(draw.base, mixed[first + i]));
      scaled[i] = s;
      bounds[i] = (s >= floor) & (s <= ceiling) ? bound : kNone;
    }
    if (!(largest(bounds, size) > best)) continue;
    for (int i = 0; i < size; ++i) {
      if (!(bounds[i] > best)) continue;
      const float score = scaled[i] + gumbel(hash(draw.base, mixed[first + i]));
      if (score > best) {
        best = score;
        token = static_cast<std::uint32_t>(first + i);
      }
    }
  }
  return token;
}

inline float kept(float x, std::uint32_t word, int bit) { return word >> bit & 1u ? x : kNone; }

void mask(const float* x, const std::uint32_t* words, int count, float* out) {
  constexpr int kBits = 32;
  const int whole = count / kBits;
  for (int word = 0; word < whole; ++word) {
    const std::uint32_t bits = words[word];
    float block[kBits];
    for (int bit = 0; bit < kBits; ++bit) block[bit] = kept(x[word * kBits + bit], bits, bit);
    std::copy_n(block, kBits, out + word * kBits);
  }
  for (int i = whole * kBits; i < count; ++i) out[i] = kept(x[i], words[whole], i % kBits);
}

}  // namespace

Scans BRAID_SCANS() { return {log_mass, shortlist, draw, mask}; }

}  // namespace braid
