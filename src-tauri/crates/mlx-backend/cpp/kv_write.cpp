// One new column per row of a layer's keys and values, written where they are, on MLX's CPU stream.

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "mlx/backend/cpu/encoder.h"
#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/c/private/array.h"
#include "mlx/c/stream.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace {

namespace mx = mlx::core;

// Where a tensor [rows, heads, columns, width] begins and how far apart its rows, heads and columns are, in bytes.
struct Place {
  char* start;
  std::int64_t row;
  std::int64_t head;
  std::int64_t column;
};

Place place_of(mx::array& a) {
  const auto bytes = static_cast<std::int64_t>(a.itemsize());
  return {a.data<char>(), a.strides(0) * bytes, a.strides(1) * bytes, a.strides(2) * bytes};
}

struct Write {
  Place from;
  Place to;
};

void copy_columns(const Write& write, const std::int32_t* columns, int rows, int heads, std::size_t bytes) {
  for (int row = 0; row < rows; ++row) {
    char* to = write.to.start + row * write.to.row + columns[row] * write.to.column;
    const char* from = write.from.start + row * write.from.row;
    for (int head = 0; head < heads; ++head) {
      std::memcpy(to + head * write.to.head, from + head * write.from.head, bytes);
    }
  }
}

// Inputs: keys, values, columns, new keys, new values. Outputs: keys and values, in the buffers of the inputs.
//
// MLX knows no such operation: others may still hold the old arrays, and see the new columns. The stream runs its
// tasks in order, so that whoever was submitted before reads the old columns and whoever comes later the new ones.
class ColumnWrite : public mx::Primitive {
 public:
  explicit ColumnWrite(mx::Stream stream) : Primitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    outputs[0].copy_shared_buffer(inputs[0]);
    outputs[1].copy_shared_buffer(inputs[1]);
    auto fresh_keys = inputs[3];
    auto fresh_values = inputs[4];
    if (fresh_keys.strides(3) != 1 || fresh_values.strides(3) != 1) {
      throw std::invalid_argument("columns must be contiguous to be written to the KV cache");
    }
    const Write keys{place_of(fresh_keys), place_of(outputs[0])};
    const Write values{place_of(fresh_values), place_of(outputs[1])};
    const auto* columns = inputs[2].data<std::int32_t>();
    const int rows = inputs[0].shape(0);
    const int heads = inputs[0].shape(1);
    const int capacity = inputs[0].shape(2);
    const std::size_t bytes = inputs[0].shape(3) * inputs[0].itemsize();
    mx::cpu::get_command_encoder(stream()).dispatch([=]() {
      for (int row = 0; row < rows; ++row) {
        if (columns[row] < 0 || columns[row] >= capacity) {
          throw std::out_of_range("a column past the KV cache's capacity");
        }
      }
      copy_columns(keys, columns, rows, heads, bytes);
      copy_columns(values, columns, rows, heads, bytes);
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the CPU's KV write was asked to run on a GPU");
  }

  const char* name() const override { return "BraidColumnWrite"; }
};

const mx::array& array_of(mlx_array handle) { return *static_cast<const mx::array*>(handle.ctx); }

void check(const std::vector<mx::array>& inputs) {
  const auto& cache = inputs[0];
  if (cache.ndim() != 4) throw std::invalid_argument("a KV cache has four axes");
  const mx::Shape fresh{cache.shape(0), cache.shape(1), 1, cache.shape(3)};
  const bool fits = inputs[1].shape() == cache.shape() && inputs[3].shape() == fresh && inputs[4].shape() == fresh &&
                    inputs[2].size() == static_cast<std::size_t>(cache.shape(0));
  bool is_alike = inputs[2].dtype() == mx::int32;
  for (int i : {1, 3, 4}) is_alike = is_alike && inputs[i].dtype() == cache.dtype();
  if (!fits || !is_alike) throw std::invalid_argument("shapes or dtypes do not fit the KV cache");
}

}  // namespace

// keys, values [rows, heads, capacity, width]; columns, one i32 per row; fresh_keys, fresh_values [rows, heads, 1,
// width]. 0, or 1 with MLX's error handler told.
extern "C" int braid_kv_write(mlx_array* new_keys, mlx_array* new_values, mlx_array keys, mlx_array values,
                              mlx_array columns, mlx_array fresh_keys, mlx_array fresh_values, mlx_stream stream) {
  try {
    const auto& on = *static_cast<const mx::Stream*>(stream.ctx);
    const std::vector<mx::array> inputs{array_of(keys), array_of(values), array_of(columns), array_of(fresh_keys),
                                        array_of(fresh_values)};
    check(inputs);
    const auto outputs =
        mx::array::make_arrays({inputs[0].shape(), inputs[1].shape()}, {inputs[0].dtype(), inputs[1].dtype()},
                               std::make_shared<ColumnWrite>(on), inputs);
    mlx_array_set_(*new_keys, outputs[0]);
    mlx_array_set_(*new_values, outputs[1]);
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}
