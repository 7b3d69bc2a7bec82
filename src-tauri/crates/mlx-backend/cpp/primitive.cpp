// The product of kernel.h as an operation of MLX's graph, on its CPU stream.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernel.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/c/private/array.h"
#include "mlx/c/stream.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"
#include "pool.h"

namespace {

namespace mx = mlx::core;

// Small enough that the threads end together, large enough that taking a task costs nothing beside it.
constexpr int kTasksPerThread = 6;
constexpr int kLeastOutputsPerTask = 16;

using Multiply = void (*)(const braid::Product&, int, int);

Multiply best_kernel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return braid::multiply_v4;
  if (__builtin_cpu_supports("x86-64-v3")) return braid::multiply_v3;
#endif
  return braid::multiply_baseline;
}

// A copy of x at a cache line: MLX's allocations begin 16 bytes into one, and every vector that crosses a line costs
// two loads. Kept between calls; MLX runs a stream's tasks on one thread.
const float* aligned(const float* x, std::size_t count) {
  thread_local std::vector<float> room;
  constexpr std::size_t kLine = 64 / sizeof(float);
  if (room.size() < count + kLine) room.resize(count + kLine);
  auto address = reinterpret_cast<std::uintptr_t>(room.data());
  float* line = reinterpret_cast<float*>((address + 63) / 64 * 64);
  std::memcpy(line, x, count * sizeof(float));
  return line;
}

void run(braid::Product product) {
  static const Multiply multiply = best_kernel();
  product.x = aligned(product.x, static_cast<std::size_t>(product.rows) * product.inputs);
  auto& pool = braid::Pool::shared();
  const int share = product.outputs / (pool.width() * kTasksPerThread);
  const int outputs_per_task = std::max(kLeastOutputsPerTask, share / 2 * 2);
  const int tasks = (product.outputs + outputs_per_task - 1) / outputs_per_task;
  pool.run(tasks, [&product, outputs_per_task](int task) {
    const int first = task * outputs_per_task;
    multiply(product, first, std::min(first + outputs_per_task, product.outputs));
  });
}

class QuantizedProduct : public mx::Primitive {
 public:
  QuantizedProduct(mx::Stream stream, int group, int bits) : Primitive(stream), group_(group), bits_(bits) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const int columns = inputs[0].shape(-1);
    const braid::Product product{
        inputs[0].data<float>(),
        inputs[1].data<std::uint32_t>(),
        inputs[2].data<float>(),
        inputs[3].data<float>(),
        out.data<float>(),
        static_cast<int>(inputs[0].size() / columns),
        columns,
        inputs[1].shape(0),
        group_,
        bits_,
    };
    auto& encoder = mx::cpu::get_command_encoder(stream());
    for (const auto& input : inputs) encoder.set_input_array(input);
    encoder.set_output_array(out);
    encoder.dispatch([product]() { run(product); });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the packed CPU product was asked to run on a GPU");
  }

  const char* name() const override { return "BraidQuantizedProduct"; }

 private:
  int group_;
  int bits_;
};

const mx::array& array_of(mlx_array handle) { return *static_cast<const mx::array*>(handle.ctx); }

void check(const mx::array& x, const std::vector<mx::array>& packed, int group, int bits) {
  const int columns = x.shape(-1);
  const bool fits = (bits == 4 || bits == 8) && group % 32 == 0 && columns % group == 0 &&
                    packed[0].shape(-1) == columns * bits / 32 && packed[1].shape(-1) == columns / group;
  const bool is_f32 = x.dtype() == mx::float32 && packed[0].dtype() == mx::uint32 &&
                      packed[1].dtype() == mx::float32 && packed[2].dtype() == mx::float32;
  if (!fits || !is_f32) throw std::invalid_argument("shapes or dtypes do not fit the packed CPU product");
}

}  // namespace

// x [..., inputs] f32 times packed weights transposed, as kernel.h has them. 0, or 1 with MLX's error handler told.
extern "C" int braid_quantized_matmul(mlx_array* result, mlx_array x, mlx_array weights, mlx_array scales,
                                      mlx_array offsets, int group, int bits, mlx_stream stream) {
  try {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    const std::vector<mx::array> packed{array_of(weights), array_of(scales), array_of(offsets)};
    check(array_of(x), packed, group, bits);
    std::vector<mx::array> inputs{mx::contiguous(array_of(x), false, on)};
    inputs.insert(inputs.end(), packed.begin(), packed.end());
    auto shape = array_of(x).shape();
    shape.back() = packed[0].shape(0);
    auto product = std::make_shared<QuantizedProduct>(on, group, bits);
    mlx_array_set_(*result, mx::array(shape, mx::float32, product, inputs));
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}
