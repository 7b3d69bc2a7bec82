// What happens between the products of an attention layer: the contract between the kernels and their callers.
#pragma once

#include <cstdint>

namespace braid {

// Distances in floats between neighbours along the first three axes of an array; the last axis is contiguous.
struct Strides {
  std::int64_t row;
  std::int64_t head;
  std::int64_t column;
};

// y = x * cos + swapped halves of x * sin, over the first `turned` elements of the last axis, and x in the rest of it;
// x: rows x heads x tokens x width. cos, sin: rows x tokens x turned, the first half of sin negated. y: as x, contiguous.
struct Turn {
  const float* x;
  const float* cos;
  const float* sin;
  float* y;
  Strides from;
  int rows;
  int heads;
  int tokens;
  int width;
  int turned;
};

// One query token per row, over the columns from spans[2 * row] to spans[2 * row + 1] of the row, both included:
// softmax(q k^T * scale) v. q: rows x kv_heads * group x 1 x width; keys, values: rows x kv_heads x capacity x width.
// y: rows x kv_heads * group x width, contiguous. width is a multiple of 16.
// softcap: scores s become softcap * tanh(s / softcap); 0 leaves them. sinks: kv_heads * group scores that take their
// part of a head's softmax and add nothing; null for none.
struct Attention {
  const float* q;
  const float* keys;
  const float* values;
  const std::int32_t* spans;
  const float* sinks;
  float* y;
  Strides of_q;
  Strides of_keys;
  Strides of_values;
  float scale;
  float softcap;
  int kv_heads;
  int group;
  int width;
};

}  // namespace braid
