// The product of kernel.h as an operation of MLX's graph, on its CPU stream.

#include <algorithm>
#include <cstdint>
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

const braid::Kernels& braid::best_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return v4::kernels;
  if (__builtin_cpu_supports("x86-64-v3")) return v3::kernels;
#endif
  return baseline::kernels;
}

namespace {

namespace mx = mlx::core;

// A few thousand cycles for one row: more than taking them costs.
constexpr int kLeastOutputs = 16;

// Space at a cache line: a vector that crosses a line costs two loads. Kept between calls; MLX runs a stream's tasks
// on one thread.
float* room_for(std::size_t count) {
  thread_local std::vector<float> room;
  constexpr std::size_t kLine = 64 / sizeof(float);
  if (room.size() < count + kLine) room.resize(count + kLine);
  return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(room.data()) + 63) / 64 * 64);
}

void run(const braid::Product& product) {
  static const braid::Kernels& kernels = braid::best_kernels();
  auto& pool = braid::Pool::shared();
  float* panels = room_for(static_cast<std::size_t>(product.rows) * product.inputs);
  const int panel_count = (product.rows + braid::kPanelRows - 1) / braid::kPanelRows;
  const auto arrange = [&](int first, int last) {
    for (int panel = first; panel < last; ++panel) kernels.arrange(product, panels, panel * braid::kPanelRows);
  };
  if (panel_count == 1) {
    arrange(0, 1);
  } else {
    pool.run(panel_count, 1, arrange);
  }
  pool.run(product.outputs, kLeastOutputs,
           [&](int first, int last) { kernels.multiply(product, panels, first, last); });
}

// Inputs: x, weights, scales, offsets, then the norm's weights and the residual as far as there are any.
class QuantizedProduct : public mx::Primitive {
 public:
  QuantizedProduct(mx::Stream stream, braid::Form form, float eps, int group, int bits)
      : Primitive(stream), form_(form), eps_(eps), group_(group), bits_(bits) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const bool is_normed = form_ == braid::Form::kNormed;
    const std::size_t residual = is_normed ? 5 : 4;
    const int columns = inputs[2].shape(-1) * group_;
    const braid::Product product{
        .x = inputs[0].data<float>(),
        .norm = is_normed ? inputs[4].data<float>() : nullptr,
        .residual = residual < inputs.size() ? inputs[residual].data<float>() : nullptr,
        .weights = inputs[1].data<std::uint32_t>(),
        .scales = inputs[2].data<float>(),
        .offsets = inputs[3].data<float>(),
        .y = out.data<float>(),
        .form = form_,
        .eps = eps_,
        .rows = static_cast<int>(out.size() / out.shape(-1)),
        .inputs = columns,
        .outputs = out.shape(-1),
        .group = group_,
        .bits = bits_,
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
  braid::Form form_;
  float eps_;
  int group_;
  int bits_;
};

const mx::array& array_of(mlx_array handle) { return *static_cast<const mx::array*>(handle.ctx); }

void require(bool fits) {
  if (!fits) throw std::invalid_argument("shapes or dtypes do not fit the packed CPU product");
}

void check(const std::vector<mx::array>& inputs, braid::Form form, int group, int bits) {
  const int columns = inputs[0].shape(-1) / (form == braid::Form::kGated ? 2 : 1);
  require((bits == 4 || bits == 8) && group % 32 == 0 && columns % group == 0);
  require(inputs[1].dtype() == mx::uint32 && inputs[1].shape(-1) == columns * bits / 32);
  require(inputs[2].shape(-1) == columns / group && inputs[3].shape() == inputs[2].shape());
  require(form != braid::Form::kNormed || inputs[4].shape() == mx::Shape{columns});
  for (std::size_t i = 0; i < inputs.size(); ++i) require(i == 1 || inputs[i].dtype() == mx::float32);
}

}  // namespace

// The product of kernel.h over the last axis of x. `norm` belongs to form 1 alone; `residual` may be null. Returns 0,
// or 1 with MLX's error handler told.
extern "C" int braid_quantized_matmul(mlx_array* result, mlx_array x, mlx_array weights, mlx_array scales,
                                      mlx_array offsets, mlx_array norm, mlx_array residual, int form, float eps,
                                      int group, int bits, mlx_stream stream) {
  try {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    const auto kind = static_cast<braid::Form>(form);
    std::vector<mx::array> inputs{mx::contiguous(array_of(x), false, on), array_of(weights), array_of(scales),
                                  array_of(offsets)};
    auto shape = array_of(x).shape();
    shape.back() = inputs[1].shape(0);
    if (kind == braid::Form::kNormed) inputs.push_back(array_of(norm));
    if (residual.ctx != nullptr) {
      require(array_of(residual).shape() == shape);
      inputs.push_back(mx::contiguous(array_of(residual), false, on));
    }
    check(inputs, kind, group, bits);
    auto product = std::make_shared<QuantizedProduct>(on, kind, eps, group, bits);
    mlx_array_set_(*result, mx::array(shape, mx::float32, product, inputs));
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}
