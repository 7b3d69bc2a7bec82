// The kernels of attention.h, compiled once per instruction set with BRAID_SET naming it.

#include "attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lanes.h"

namespace braid {
namespace {

// Columns whose keys or values stay in the nearest cache while every query head of their group passes over them.
constexpr int kBlock = 64;
// Accumulators of a weighted sum of values.
constexpr int kChunk = 4;

float dot(const float* a, const float* b, int width) {
  Lanes sum = splat(0);
  for (int i = 0; i < width; i += kLanes) sum = multiply_add(load(a + i), load(b + i), sum);
  return total(sum);
}

// scores[i] = scale * (q . keys[i]) for i in [0, count), as many at a time as there are lanes.
void score(float* scores, const float* q, const float* keys, std::int64_t step, int count, int width, float scale) {
  int column = 0;
  for (; column + kLanes <= count; column += kLanes, keys += kLanes * step) {
    Lanes sums[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) sums[i] = splat(0);
    for (int at = 0; at < width; at += kLanes) {
      const Lanes from = load(q + at);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) sums[i] = multiply_add(from, load(keys + i * step + at), sums[i]);
    }
    store(scores + column, totals(sums) * splat(scale));
  }
  for (; column < count; ++column, keys += step) scores[column] = dot(q, keys, width) * scale;
}

// scores[0, count) become cap * tanh(scores / cap); room up to the next multiple of kLanes is written too.
void soften(float* scores, int count, float cap) {
  const Lanes one = splat(1);
  for (int i = 0; i < count; i += kLanes) {
    const Lanes score = load(scores + i);
    const Lanes tanh = one - splat(2) / (exponential(score * splat(2 / cap)) + one);
    // The second product keeps a NaN, which the exponential's bounds would swallow.
    store(scores + i, multiply_add(score, splat(0), tanh * splat(cap)));
  }
}

// scores[0, count) become their softmax, with `sink`, if any, as one more score; room up to the next multiple of kLanes
// is written too.
void softmax(float* scores, int count, const float* sink) {
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  float top = *std::max_element(scores, scores + count);
  if (sink) top = std::max(top, *sink);
  std::fill(scores + count, scores + padded, top);
  // 0, or NaN when a score is NaN or infinite: it must reach the row's logits, where the sampler looks for it.
  Lanes zero = splat(0);
  for (int i = 0; i < padded; i += kLanes) {
    const Lanes score = load(scores + i);
    zero = multiply_add(score, splat(0), zero);
    store(scores + i, exponential(score - splat(top)));
  }
  std::fill(scores + count, scores + padded, 0.0f);
  Lanes sum = zero;
  for (int i = 0; i < padded; i += kLanes) sum = sum + load(scores + i);
  const Lanes all = splat(sink ? total(sum) + std::exp(*sink - top) : total(sum));
  for (int i = 0; i < padded; i += kLanes) store(scores + i, load(scores + i) / all);
}

// y[0, kParts lanes) += sum over columns of weights[column] * values[column].
template <int kParts>
void add_weighted(float* y, const float* weights, const float* values, std::int64_t step, int columns) {
  Lanes sums[kParts];
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) sums[part] = load(y + part * kLanes);
  for (int column = 0; column < columns; ++column, values += step) {
    const Lanes weight = splat(weights[column]);
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      sums[part] = multiply_add(weight, load(values + part * kLanes), sums[part]);
    }
  }
#pragma GCC unroll 4
  for (int part = 0; part < kParts; ++part) store(y + part * kLanes, sums[part]);
}

}  // namespace

namespace BRAID_SET {

void turn(const Turn& t) {
  const int half = t.turned / 2;
  float* y = t.y;
  for (int row = 0; row < t.rows; ++row) {
    for (int head = 0; head < t.heads; ++head) {
      for (int token = 0; token < t.tokens; ++token, y += t.width) {
        const float* x = t.x + row * t.from.row + head * t.from.head + token * t.from.column;
        const std::int64_t table = (static_cast<std::int64_t>(row) * t.tokens + token) * t.turned;
        const float* cos = t.cos + table;
        const float* sin = t.sin + table;
        for (int i = 0; i < half; ++i) {
          y[i] = x[i] * cos[i] + x[i + half] * sin[i];
          y[i + half] = x[i + half] * cos[i + half] + x[i] * sin[i + half];
        }
        std::copy(x + t.turned, x + t.width, y + t.turned);
      }
    }
  }
}

// The query heads of one key head in one row: task = row * kv_heads + key head.
void attend(const Attention& a, int task) {
  const int row = task / a.kv_heads;
  const int kv_head = task % a.kv_heads;
  const int start = a.spans[2 * row];
  const int columns = a.spans[2 * row + 1] + 1 - start;
  const float* q = a.q + row * a.of_q.row + kv_head * a.group * a.of_q.head;
  const float* keys = a.keys + row * a.of_keys.row + kv_head * a.of_keys.head + start * a.of_keys.column;
  const float* values =
      a.values + row * a.of_values.row + kv_head * a.of_values.head + start * a.of_values.column;
  float* y = a.y + static_cast<std::int64_t>(task) * a.group * a.width;
  const int padded = (columns + kLanes - 1) / kLanes * kLanes;
  thread_local std::vector<float> scores;
  if (scores.size() < static_cast<std::size_t>(padded) * a.group) scores.resize(padded * a.group);
  for (int first = 0; first < columns; first += kBlock) {
    const int last = std::min(first + kBlock, columns);
    for (int g = 0; g < a.group; ++g) {
      score(scores.data() + g * padded + first, q + g * a.of_q.head, keys + first * a.of_keys.column,
            a.of_keys.column, last - first, a.width, a.scale);
    }
  }
  for (int g = 0; g < a.group; ++g) {
    float* of_head = scores.data() + g * padded;
    if (a.softcap > 0) soften(of_head, columns, a.softcap);
    softmax(of_head, columns, a.sinks ? a.sinks + kv_head * a.group + g : nullptr);
  }
  std::fill(y, y + a.group * a.width, 0.0f);
  for (int first = 0; first < columns; first += kBlock) {
    const int count = std::min(kBlock, columns - first);
    const float* block = values + first * a.of_values.column;
    for (int g = 0; g < a.group; ++g) {
      const float* weights = scores.data() + g * padded + first;
      float* to = y + g * a.width;
      int at = 0;
      for (; at + kChunk * kLanes <= a.width; at += kChunk * kLanes) {
        add_weighted<kChunk>(to + at, weights, block + at, a.of_values.column, count);
      }
      for (; at < a.width; at += kLanes) add_weighted<1>(to + at, weights, block + at, a.of_values.column, count);
    }
  }
}

}  // namespace BRAID_SET
}  // namespace braid
