// Quantised matrix product on the CPU for few rows: the contract between the kernel and its callers.
#pragma once

#include <cstdint>

namespace braid {

// y[m * outputs + n] = sum over k of x[m * inputs + k] * w[n][k], for n in [first, last).
//
// x: rows x inputs, f32. weights: outputs x (inputs * bits / 32), packed as MLX packs them, lowest bits first.
// scales, offsets: outputs x (inputs / group), f32; w = scale * q + offset. inputs is a multiple of 32.
struct Product {
  const float* x;
  const std::uint32_t* weights;
  const float* scales;
  const float* offsets;
  float* y;
  int rows;
  int inputs;
  int outputs;
  int group;
  int bits;
};

// One build of the kernel per instruction set; each sums in the same order whatever the number of rows, so that a
// row of a batch gets the bits it gets alone.
void multiply_baseline(const Product& product, int first, int last);
void multiply_v3(const Product& product, int first, int last);
void multiply_v4(const Product& product, int first, int last);

}  // namespace braid
