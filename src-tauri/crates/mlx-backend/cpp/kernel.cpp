// The product of kernel.h, compiled once per instruction set with BRAID_SET naming it.
//
// Weights stay packed on their way from memory, a quarter or an eighth of their f32 size, and are expanded in
// registers once for up to eight rows of x. A BLAS would first copy an f32 matrix into its own layout, which costs
// more than the product itself when x has few rows.

#include "kernel.h"

#include <algorithm>

#include "lanes.h"

namespace braid {
namespace {

constexpr int kParts = kUnit / kLanes;

// How far ahead of their use weights are asked for: a tile is done sooner than memory answers. Measured on SmolLM2's
// shapes from 0 to 8 KiB: a third less time for one row, a sixth for eight.
constexpr int kAheadBytes = 4096;
constexpr int kAheadTiles = 8;

// The input lies in panels of up to eight rows; within a panel, unit by unit, all rows of a unit side by side: one
// stream to read, whatever the number of rows.
template <int kBits>
void arrange_row(const Product& p, int row, float* to, int step) {
  const std::int64_t width = is_gated(p.form) ? 2 * p.inputs : p.inputs;
  const float* x = p.x + row * width;
  Lanes scale = splat(1);
  if (p.form == Form::kNormed) {
    Lanes squares = splat(0);
    for (int i = 0; i < p.inputs; i += kLanes) squares = multiply_add(load(x + i), load(x + i), squares);
    scale = splat(1 / std::sqrt(total(squares) / static_cast<float>(p.inputs) + p.eps));
  }
  for (int first = 0; first < p.inputs; first += kUnit, to += step) {
    Lanes unit[kParts];
    for (int part = 0; part < kParts; ++part) {
      const int at = first + part * kLanes;
      const Lanes value = load(x + at);
      switch (p.form) {
        case Form::kPlain:
          unit[part] = value;
          break;
        case Form::kNormed:
          unit[part] = value * scale * load(p.norm + at);
          break;
        case Form::kGated:
          unit[part] = value / (splat(1) + exponential(splat(0) - value)) * load(x + p.inputs + at);
          break;
        case Form::kGelu: {
          // gelu(x) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3).
          const Lanes inner = multiply_add(value * value * value, splat(0.044715f), value) * splat(1.5957691f);
          unit[part] = value / (splat(1) + exponential(splat(0) - inner)) * load(x + p.inputs + at);
          break;
        }
      }
    }
    order<kBits>(unit);
    for (int part = 0; part < kParts; ++part) store(to + part * kLanes, unit[part]);
  }
}

void arrange(const Product& p, float* panels, int row) {
  const int rows = std::min(kPanelRows, p.rows - row);
  float* panel = panels + static_cast<std::int64_t>(row) * p.inputs;
  for (int r = 0; r < rows; ++r) {
    // Only four-bit weights are expanded in another order than they are stored in.
    (p.bits == 4 ? arrange_row<4> : arrange_row<8>)(p, row + r, panel + r * kUnit, rows * kUnit);
  }
}

// kRows rows of x times kOutputs rows of weights. x: the panel of the rows.
template <int kBits, int kRows, int kOutputs>
inline __attribute__((always_inline)) void tile(const Product& p, const float* x, int row, int output) {
  const int units_per_group = p.group / kUnit;
  const int words_per_output = p.inputs * kBits / 32;
  const int groups = p.inputs / p.group;
  const std::uint32_t* words = p.weights + static_cast<std::int64_t>(output) * words_per_output;
  constexpr bool kScaled = kBits != 32;
  const float* scales = kScaled ? p.scales + static_cast<std::int64_t>(output) * groups : nullptr;
  const float* offsets = kScaled ? p.offsets + static_cast<std::int64_t>(output) * groups : nullptr;
  for (int ahead = 0; kScaled && ahead < kOutputs * groups; ahead += 16) {
    __builtin_prefetch(scales + kAheadTiles * kOutputs * groups + ahead);
    __builtin_prefetch(offsets + kAheadTiles * kOutputs * groups + ahead);
  }
  Lanes sums[kRows][kOutputs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int o = 0; o < kOutputs; ++o) sums[r][o] = splat(0);
  }
  for (int group = 0; group < groups; ++group) {
    const auto expand = [&](int o) {
      if constexpr (!kScaled) return Group<kBits>(1, 0);
      return Group<kBits>(scales[o * groups + group], offsets[o * groups + group]);
    };
    const Group<kBits> expanders[2] = {expand(0), expand(kOutputs - 1)};
    for (int unit = 0; unit < units_per_group; ++unit, words += kBits, x += kRows * kUnit) {
#pragma GCC unroll 2
      for (int o = 0; o < kOutputs; ++o) {
        const std::uint32_t* ahead = words + o * words_per_output + kAheadBytes / 4;
        __builtin_prefetch(ahead);
        if constexpr (kBits == 32) __builtin_prefetch(ahead + 16);
      }
#pragma GCC unroll 8
      for (int part = 0; part < kParts; ++part) {
        Lanes weights[kOutputs];
#pragma GCC unroll 2
        for (int o = 0; o < kOutputs; ++o) weights[o] = expanders[o].weights(words + o * words_per_output, part);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          Lanes from = load(x + r * kUnit + part * kLanes);
          if (kOutputs > 1) hold(from);
#pragma GCC unroll 2
          for (int o = 0; o < kOutputs; ++o) sums[r][o] = multiply_add(from, weights[o], sums[r][o]);
        }
      }
    }
  }
  float results[kRows][kOutputs];
  if constexpr (kRows * kOutputs == kLanes) {
    Lanes all[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) all[i] = sums[i / kOutputs][i % kOutputs];
    store(results[0], totals(all));
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kOutputs; ++i) {
      results[i / kOutputs][i % kOutputs] = total(sums[i / kOutputs][i % kOutputs]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t at = static_cast<std::int64_t>(row + r) * p.outputs + output;
    for (int o = 0; o < kOutputs; ++o) {
      p.y[at + o] = p.residual ? p.residual[at + o] + results[r][o] : results[r][o];
    }
  }
}

template <int kBits, int kRows>
void outputs_of(const Product& p, const float* panel, int row, int first, int last) {
  int output = first;
  for (; output + kOutputsAtOnce <= last; output += kOutputsAtOnce) {
    tile<kBits, kRows, kOutputsAtOnce>(p, panel, row, output);
  }
  for (; output < last; ++output) tile<kBits, kRows, 1>(p, panel, row, output);
}

template <int kBits>
void all_rows(const Product& p, const float* panel, int first, int last) {
  int row = 0;
  for (; row + kPanelRows <= p.rows; row += kPanelRows) {
    outputs_of<kBits, kPanelRows>(p, panel, row, first, last);
    panel += kPanelRows * static_cast<std::int64_t>(p.inputs);
  }
  switch (p.rows - row) {
    case 1: return outputs_of<kBits, 1>(p, panel, row, first, last);
    case 2: return outputs_of<kBits, 2>(p, panel, row, first, last);
    case 3: return outputs_of<kBits, 3>(p, panel, row, first, last);
    case 4: return outputs_of<kBits, 4>(p, panel, row, first, last);
    case 5: return outputs_of<kBits, 5>(p, panel, row, first, last);
    case 6: return outputs_of<kBits, 6>(p, panel, row, first, last);
    case 7: return outputs_of<kBits, 7>(p, panel, row, first, last);
    default: return;
  }
}

void multiply(const Product& product, const float* panel, int first, int last) {
  switch (product.bits) {
    case 4: return all_rows<4>(product, panel, first, last);
    case 8: return all_rows<8>(product, panel, first, last);
    default: return all_rows<32>(product, panel, first, last);
  }
}

}  // namespace

namespace BRAID_SET {

// In attention.cpp.
void turn(const Turn& turn);
void attend(const Attention& attention, int task);

extern const Kernels kernels{arrange, multiply, turn, attend};

}  // namespace BRAID_SET

}  // namespace braid
