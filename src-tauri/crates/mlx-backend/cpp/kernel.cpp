// The product of kernel.h, compiled once per instruction set with BRAID_MULTIPLY naming the function.
//
// Weights stay packed on their way from memory, a quarter or an eighth of their f32 size, and are expanded in
// registers once for up to eight rows of x. A BLAS would first copy an f32 matrix into its own layout, which costs
// more than the product itself when x has few rows.

#include "kernel.h"
#include "lanes.h"

namespace braid {
namespace {

// kRows rows of x times kOutputs rows of weights.
template <int kBits, int kRows, int kOutputs>
inline __attribute__((always_inline)) void tile(const Product& p, int row, int output) {
  const std::int64_t inputs = p.inputs;
  const int units_per_group = p.group / kUnit;
  const int words_per_output = p.inputs * kBits / 32;
  const int groups = p.inputs / p.group;
  const std::uint32_t* packed = p.weights + static_cast<std::int64_t>(output) * words_per_output;
  const float* scales = p.scales + static_cast<std::int64_t>(output) * groups;
  const float* offsets = p.offsets + static_cast<std::int64_t>(output) * groups;
  const float* x = p.x + row * inputs;
  Lanes sums[kRows][kOutputs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int o = 0; o < kOutputs; ++o) sums[r][o] = splat(0);
  }
  int unit = 0;
  for (int group = 0; group < groups; ++group) {
    Lanes scale[kOutputs], offset[kOutputs];
#pragma GCC unroll 2
    for (int o = 0; o < kOutputs; ++o) {
      scale[o] = splat(scales[o * groups + group]);
      offset[o] = splat(offsets[o * groups + group]);
    }
    for (int within = 0; within < units_per_group; ++within, ++unit) {
#pragma GCC unroll 8
      for (int part = 0; part < kUnit / kLanes; ++part) {
        Lanes weights[kOutputs];
#pragma GCC unroll 2
        for (int o = 0; o < kOutputs; ++o) {
          const Lanes whole = expand<kBits>(packed + o * words_per_output + unit * kBits, part);
          weights[o] = multiply_add(whole, scale[o], offset[o]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Lanes from = load(x + r * inputs + unit * kUnit + part * kLanes);
#pragma GCC unroll 2
          for (int o = 0; o < kOutputs; ++o) sums[r][o] = multiply_add(from, weights[o], sums[r][o]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) {
      p.y[static_cast<std::int64_t>(row + r) * p.outputs + output + o] = total(sums[r][o]);
    }
  }
}

template <int kBits, int kRows>
void outputs_of(const Product& p, int row, int first, int last) {
  int output = first;
  for (; output + 2 <= last; output += 2) tile<kBits, kRows, 2>(p, row, output);
  if (output < last) tile<kBits, kRows, 1>(p, row, output);
}

template <int kBits>
void all_rows(const Product& p, int first, int last) {
  int row = 0;
  for (; row + 8 <= p.rows; row += 8) outputs_of<kBits, 8>(p, row, first, last);
  switch (p.rows - row) {
    case 1: return outputs_of<kBits, 1>(p, row, first, last);
    case 2: return outputs_of<kBits, 2>(p, row, first, last);
    case 3: return outputs_of<kBits, 3>(p, row, first, last);
    case 4: return outputs_of<kBits, 4>(p, row, first, last);
    case 5: return outputs_of<kBits, 5>(p, row, first, last);
    case 6: return outputs_of<kBits, 6>(p, row, first, last);
    case 7: return outputs_of<kBits, 7>(p, row, first, last);
    default: return;
  }
}

}  // namespace

void BRAID_MULTIPLY(const Product& product, int first, int last) {
  if (product.bits == 4) {
    all_rows<4>(product, first, last);
  } else {
    all_rows<8>(product, first, last);
  }
}

}  // namespace braid
