// Matrix product on the CPU for few rows, of quantised and of f32 weights, and the kernels of each instruction set.
#pragma once

#include <cstdint>

#include "attention.h"

namespace braid {

// What a product does to its input first.
enum class Form {
  kPlain,   // x: rows x inputs
  kNormed,  // x: rows x inputs, through an RMS norm with weights `norm`
  kGated,   // x: rows x 2 * inputs, gate before up; the input is silu(gate) * up
  kGelu,    // the same with the tanh form of gelu(gate) * up
};

inline bool is_gated(Form form) { return form == Form::kGated || form == Form::kGelu; }

// y[m][n] = residual[m][n] + sum over k of input[m][k] * w[n][k].
//
// All floats are f32. weights: outputs x (inputs * bits / 32), packed as MLX packs them, lowest bits first.
// scales, offsets: outputs x (inputs / group); w = scale * q + offset. inputs is a multiple of 32. With 32 bits, weights
// are outputs x inputs f32, scales and offsets are null, and group is 32.
struct Product {
  const float* x;
  const float* norm;      // inputs; for Form::kNormed
  const float* residual;  // rows x outputs, or null
  const std::uint32_t* weights;
  const float* scales;
  const float* offsets;
  float* y;
  Form form;
  float eps;
  int rows;
  int inputs;
  int outputs;
  int group;
  int bits;
};

// Rows that share an expansion of the weights.
constexpr int kPanelRows = 8;

// One build of the kernels per instruction set; each sums in the same order whatever the number of rows, so that a
// row of a batch gets the bits it gets alone.
struct Kernels {
  // Writes the input of up to kPanelRows rows from `row` on, a multiple of it, in the order that multiply reads.
  // panels: rows x inputs floats at a cache line.
  void (*arrange)(const Product& product, float* panels, int row);
  // Computes outputs [first, last) of every row from an arranged input.
  void (*multiply)(const Product& product, const float* panels, int first, int last);
  void (*turn)(const Turn& turn);
  // One of rows x kv_heads tasks.
  void (*attend)(const Attention& attention, int task);
};

namespace baseline {
extern const Kernels kernels;
}
namespace v3 {
extern const Kernels kernels;
}
namespace v4 {
extern const Kernels kernels;
}

// Those of the widest instruction set that the processor has.
const Kernels& best_kernels();

}  // namespace braid
