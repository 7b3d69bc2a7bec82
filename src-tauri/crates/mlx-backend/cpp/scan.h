// One row of logits, read once or twice: what the sampler needs of it. The contract between kernels and callers.
#pragma once

#include <cstdint>

namespace braid {

// Everything about a row of `count` floats that holds neither NaN nor positive infinity. Rows that do are flagged
// elsewhere; for them each function returns something in range, and that is all.
struct Scans {
  // ln of the sum of exp(x[i] / temperature).
  float (*log_mass)(const float* x, int count, float temperature);

  // The `width` largest values with their ids, descending, the lowest id first among equals; width <= count.
  void (*shortlist)(const float* x, int count, int width, float* values, std::uint32_t* ids);

  // The id with the largest x[id] / temperature + noise among those with floor <= x[id] / temperature <= ceiling;
  // 0 if there is none. `mixed`: the id's part of the noise hash.
  std::uint32_t (*draw)(const float* x, const std::uint32_t* mixed, int count, const struct Draw& draw);

  // out[i] = x[i] where bit i % 32 of words[i / 32] is set, else negative infinity.
  void (*mask)(const float* x, const std::uint32_t* words, int count, float* out);
};

struct Draw {
  float temperature;
  float floor;
  float ceiling;
  std::uint32_t base;
};

// One build per instruction set.
Scans scans_baseline();
Scans scans_v3();
Scans scans_v4();

}  // namespace braid
