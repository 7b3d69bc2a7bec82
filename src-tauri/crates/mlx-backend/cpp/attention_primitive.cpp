// The kernels of attention.h as operations of MLX's graph, on its CPU stream.

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

// Below this many products of a layer's attention, waking a second thread takes longer than it saves.
constexpr std::int64_t kLeastProductsToShare = 100'000;

const braid::Kernels& kernels() {
  static const braid::Kernels& best = braid::best_kernels();
  return best;
}

braid::Strides strides_of(const mx::array& a) {
  if (a.strides(3) != 1) throw std::invalid_argument("heads must be contiguous");
  return {a.strides(0), a.strides(1), a.strides(2)};
}

// Inputs: x, cos, sin.
class Turned : public mx::Primitive {
 public:
  explicit Turned(mx::Stream stream) : Primitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto& x = inputs[0];
    auto& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const braid::Turn turn{
        .x = x.data<float>(),
        .cos = inputs[1].data<float>(),
        .sin = inputs[2].data<float>(),
        .y = out.data<float>(),
        .from = strides_of(x),
        .rows = x.shape(0),
        .heads = x.shape(1),
        .tokens = x.shape(2),
        .width = x.shape(3),
        .turned = inputs[1].shape(3),
    };
    mx::cpu::get_command_encoder(stream()).dispatch([turn]() { kernels().turn(turn); });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the CPU's rotation was asked to run on a GPU");
  }

  const char* name() const override { return "BraidTurned"; }
};

// Inputs: q, keys, values, spans, and sinks if there are any.
class Attended : public mx::Primitive {
 public:
  Attended(mx::Stream stream, float scale, float softcap) : Primitive(stream), scale_(scale), softcap_(softcap) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto& q = inputs[0];
    const auto& keys = inputs[1];
    auto& out = outputs[0];
    out.set_data(mx::allocator::malloc(out.nbytes()));
    const braid::Attention attention{
        .q = q.data<float>(),
        .keys = keys.data<float>(),
        .values = inputs[2].data<float>(),
        .spans = inputs[3].data<std::int32_t>(),
        .sinks = inputs.size() > 4 ? inputs[4].data<float>() : nullptr,
        .y = out.data<float>(),
        .of_q = strides_of(q),
        .of_keys = strides_of(keys),
        .of_values = strides_of(inputs[2]),
        .scale = scale_,
        .softcap = softcap_,
        .kv_heads = keys.shape(1),
        .group = q.shape(1) / keys.shape(1),
        .width = q.shape(3),
    };
    const int rows = q.shape(0);
    const int capacity = keys.shape(2);
    const std::int64_t products_per_column = static_cast<std::int64_t>(q.shape(1)) * q.shape(3);
    mx::cpu::get_command_encoder(stream()).dispatch([=]() {
      std::int64_t columns = 0;
      for (int row = 0; row < rows; ++row) {
        const int first = attention.spans[2 * row];
        const int last = attention.spans[2 * row + 1];
        if (first < 0 || first > last || last >= capacity) {
          throw std::out_of_range("a column past the KV cache's capacity");
        }
        columns += last - first + 1;
      }
      const int tasks = rows * attention.kv_heads;
      const auto attend = [&](int first, int last) {
        for (int task = first; task < last; ++task) kernels().attend(attention, task);
      };
      if (columns * products_per_column < kLeastProductsToShare) {
        attend(0, tasks);
      } else {
        braid::Pool::shared().run(tasks, 1, attend);
      }
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the CPU's attention was asked to run on a GPU");
  }

  const char* name() const override { return "BraidAttended"; }

 private:
  float scale_;
  float softcap_;
};

const mx::array& array_of(mlx_array handle) { return *static_cast<const mx::array*>(handle.ctx); }

void require(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

template <class Build>
int built(mlx_array* result, Build build) {
  try {
    mlx_array_set_(*result, build());
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}

}  // namespace

// x [rows, heads, tokens, width], cos and sin [rows, 1, tokens, turned <= width], all f32; as attention.h has them. 0, or 1 with
// MLX's error handler told; so are the others.
extern "C" int braid_turn(mlx_array* result, mlx_array x, mlx_array cos, mlx_array sin, mlx_stream stream) {
  return built(result, [&] {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    const std::vector<mx::array> inputs{array_of(x), array_of(cos), array_of(sin)};
    const auto& shape = inputs[0].shape();
    bool fits = shape.size() == 4 && inputs[1].ndim() == 4;
    for (const auto& input : inputs) fits = fits && input.dtype() == mx::float32;
    const int turned = fits ? inputs[1].shape(3) : 0;
    fits = fits && turned % 2 == 0 && turned <= shape[3];
    for (int i : {1, 2}) fits = fits && inputs[i].shape() == mx::Shape{shape[0], 1, shape[2], turned};
    require(fits, "shapes or dtypes do not fit the CPU's rotation");
    return mx::array(shape, mx::float32, std::make_shared<Turned>(on), inputs);
  });
}

// q [rows, heads, 1, width], keys and values [rows, kv_heads, capacity, width], f32; spans [rows, 2] i32: the first and
// the last column that each row sees; sinks [heads] f32, or a null handle. Gives [rows, 1, heads * width].
extern "C" int braid_attend(mlx_array* result, mlx_array q, mlx_array keys, mlx_array values, mlx_array spans,
                            mlx_array sinks, float scale, float softcap, mlx_stream stream) {
  return built(result, [&] {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    std::vector<mx::array> inputs{array_of(q), array_of(keys), array_of(values), array_of(spans)};
    if (sinks.ctx) inputs.push_back(array_of(sinks));
    const auto& of_q = inputs[0].shape();
    const auto& of_keys = inputs[1].shape();
    bool fits = of_q.size() == 4 && of_keys.size() == 4 && inputs[2].shape() == of_keys && of_q[2] == 1;
    fits = fits && of_q[0] == of_keys[0] && of_q[1] % of_keys[1] == 0 && of_q[3] == of_keys[3] && of_q[3] % 16 == 0;
    fits = fits && inputs[3].dtype() == mx::int32 && inputs[3].shape() == mx::Shape{of_q[0], 2};
    if (sinks.ctx) fits = fits && inputs[4].dtype() == mx::float32 && inputs[4].shape() == mx::Shape{of_q[1]};
    for (int i : {0, 1, 2}) fits = fits && inputs[i].dtype() == mx::float32;
    require(fits, "shapes or dtypes do not fit the CPU's attention");
    return mx::array({of_q[0], 1, of_q[1] * of_q[3]}, mx::float32, 
                     std::make_shared<Attended>(on, scale, softcap), inputs);
  });
}
