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

constexpr int kDenseBits = 32;

// Inputs: x, weights, scales and offsets of packed weights, then the norm's weights and the residual as far as there
// are any.
class CpuProduct : public mx::Primitive {
 public:
  CpuProduct(mx::Stream stream, braid::Form form, float eps, int group, int bits)
      : Primitive(stream), form_(form), eps_(eps), group_(group), bits_(bits) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const bool is_normed = form_ == braid::Form::kNormed;
    const bool is_packed = bits_ != kDenseBits;
    const std::size_t norm = is_packed ? 4 : 2;
    const std::size_t residual = norm + is_normed;
    for (const auto& input : inputs) {
      if (!input.flags().row_contiguous) throw std::runtime_error("the CPU product needs rows in order");
    }
    const braid::Product product{
        .x = inputs[0].data<float>(),
        .norm = is_normed ? inputs[norm].data<float>() : nullptr,
        .residual = residual < inputs.size() ? inputs[residual].data<float>() : nullptr,
        .weights = reinterpret_cast<const std::uint32_t*>(inputs[1].data<std::uint8_t>()),
        .scales = is_packed ? inputs[2].data<float>() : nullptr,
        .offsets = is_packed ? inputs[3].data<float>() : nullptr,
        .y = out.data<float>(),
        .form = form_,
        .eps = eps_,
        .rows = static_cast<int>(out.size() / out.shape(-1)),
        .inputs = inputs[0].shape(-1) / (braid::is_gated(form_) ? 2 : 1),
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
    throw std::runtime_error("the CPU product was asked to run on a GPU");
  }

  const char* name() const override { return "BraidCpuProduct"; }

 private:
  braid::Form form_;
  float eps_;
  int group_;
  int bits_;
};

const mx::array& array_of(mlx_array handle) { return *static_cast<const mx::array*>(handle.ctx); }

void require(bool fits) {
  if (!fits) throw std::invalid_argument("shapes or dtypes do not fit the CPU product");
}

struct Arguments {
  mlx_array x;
  mlx_array weights;
  mlx_array norm;
  mlx_array residual;
  int form;
  float eps;
};

// Throws when shapes or dtypes do not fit. `packing`: scales and offsets, or none for f32 weights.
mx::array product_of(const Arguments& arguments, const std::vector<mx::array>& packing, int group, int bits,
                     const mx::Stream& on) {
  const auto form = static_cast<braid::Form>(arguments.form);
  std::vector<mx::array> inputs{mx::contiguous(array_of(arguments.x), false, on), array_of(arguments.weights)};
  inputs.insert(inputs.end(), packing.begin(), packing.end());
  auto shape = inputs[0].shape();
  const int columns = shape.back() / (braid::is_gated(form) ? 2 : 1);
  shape.back() = inputs[1].shape(0);
  require(columns % 32 == 0 && inputs[1].ndim() == 2 && inputs[1].shape(1) == columns / 32 * bits);
  if (form == braid::Form::kNormed) {
    inputs.push_back(array_of(arguments.norm));
    require(inputs.back().shape() == mx::Shape{columns});
  }
  if (arguments.residual.ctx != nullptr) {
    require(array_of(arguments.residual).shape() == shape);
    inputs.push_back(mx::contiguous(array_of(arguments.residual), false, on));
  }
  const auto codes = bits == kDenseBits ? mx::float32 : mx::uint32;
  for (std::size_t i = 0; i < inputs.size(); ++i) require(inputs[i].dtype() == (i == 1 ? codes : mx::float32));
  auto product = std::make_shared<CpuProduct>(on, form, arguments.eps, group, bits);
  return mx::array(shape, mx::float32, product, inputs);
}

}  // namespace

// The product of kernel.h over the last axis of x with packed weights. `norm` belongs to form 1 alone; `residual` may
// be null. Returns 0, or 1 with MLX's error handler told.
extern "C" int braid_quantized_matmul(mlx_array* result, mlx_array x, mlx_array weights, mlx_array scales,
                                      mlx_array offsets, mlx_array norm, mlx_array residual, int form, float eps,
                                      int group, int bits, mlx_stream stream) {
  try {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    const std::vector<mx::array> packing{array_of(scales), array_of(offsets)};
    const mx::Shape groups{array_of(weights).shape(0), array_of(weights).shape(-1) * 32 / bits / group};
    require((bits == 4 || bits == 8) && group % 32 == 0 && array_of(weights).shape(-1) * 32 / bits % group == 0);
    require(packing[0].shape() == groups && packing[1].shape() == groups);
    mlx_array_set_(*result, product_of({x, weights, norm, residual, form, eps}, packing, group, bits, on));
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}

// The same with f32 weights.
extern "C" int braid_dense_matmul(mlx_array* result, mlx_array x, mlx_array weights, mlx_array norm,
                                  mlx_array residual, int form, float eps, mlx_stream stream) {
  try {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    mlx_array_set_(*result, product_of({x, weights, norm, residual, form, eps}, {}, 32, kDenseBits, on));
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}
