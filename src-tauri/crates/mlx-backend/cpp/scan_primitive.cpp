// The scans of scan.h as operations of MLX's graph, on its CPU stream.

#include <functional>
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
#include "pool.h"
#include "scan.h"

namespace {

namespace mx = mlx::core;

const braid::Scans& scans() {
  static const braid::Scans best = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return braid::scans_v4();
    if (__builtin_cpu_supports("x86-64-v3")) return braid::scans_v3();
#endif
    return braid::scans_baseline();
  }();
  return best;
}

// A scan of the rows of its first input, [b, n] f32, by several threads.
class RowScan : public mx::Primitive {
 public:
  explicit RowScan(mx::Stream stream) : Primitive(stream) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    for (auto& out : outputs) out.set_data(mx::allocator::malloc(out.nbytes()));
    auto& encoder = mx::cpu::get_command_encoder(stream());
    for (const auto& input : inputs) encoder.set_input_array(input);
    for (auto& out : outputs) encoder.set_output_array(out);
    const int rows = inputs[0].shape(0);
    encoder.dispatch([rows, scan = scan_of(inputs, outputs)]() {
      braid::Pool::shared().run(rows, 1, [&scan](int first, int last) {
        for (int row = first; row < last; ++row) scan(row);
      });
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("a CPU scan was asked to run on a GPU");
  }

 protected:
  // What to do for row i. Holds pointers only: MLX keeps the arrays.
  virtual std::function<void(int)> scan_of(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) = 0;
};

class LogMass : public RowScan {
 public:
  using RowScan::RowScan;
  const char* name() const override { return "BraidLogMass"; }

 protected:
  std::function<void(int)> scan_of(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto count = static_cast<std::int64_t>(inputs[0].shape(1));
    return [=, x = inputs[0].data<float>(), temperature = inputs[1].data<float>(), out = outputs[0].data<float>()](
               int row) { out[row] = scans().log_mass(x + row * count, static_cast<int>(count), temperature[row]); };
  }
};

class Shortlist : public RowScan {
 public:
  using RowScan::RowScan;
  const char* name() const override { return "BraidShortlist"; }

 protected:
  std::function<void(int)> scan_of(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto count = static_cast<std::int64_t>(inputs[0].shape(1));
    const auto width = static_cast<std::int64_t>(outputs[0].shape(1));
    return [=, x = inputs[0].data<float>(), values = outputs[0].data<float>(),
            ids = outputs[1].data<std::uint32_t>()](int row) {
      scans().shortlist(x + row * count, static_cast<int>(count), static_cast<int>(width), values + row * width,
                        ids + row * width);
    };
  }
};

class Draw : public RowScan {
 public:
  using RowScan::RowScan;
  const char* name() const override { return "BraidDraw"; }

 protected:
  std::function<void(int)> scan_of(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto count = static_cast<std::int64_t>(inputs[0].shape(1));
    return [=, x = inputs[0].data<float>(), mixed = inputs[1].data<std::uint32_t>(),
            temperature = inputs[2].data<float>(), floor = inputs[3].data<float>(), ceiling = inputs[4].data<float>(),
            base = inputs[5].data<std::uint32_t>(), out = outputs[0].data<std::uint32_t>()](int row) {
      const braid::Draw draw{temperature[row], floor[row], ceiling[row], base[row]};
      out[row] = scans().draw(x + row * count, mixed, static_cast<int>(count), draw);
    };
  }
};

class Mask : public RowScan {
 public:
  using RowScan::RowScan;
  const char* name() const override { return "BraidMask"; }

 protected:
  std::function<void(int)> scan_of(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const auto count = static_cast<std::int64_t>(inputs[0].shape(1));
    const std::int64_t words_per_row = (count + 31) / 32;
    return [=, x = inputs[0].data<float>(), words = inputs[1].data<std::uint32_t>(), out = outputs[0].data<float>()](
               int row) {
      scans().mask(x + row * count, words + row * words_per_row, static_cast<int>(count), out + row * count);
    };
  }
};

// An input as the scans read it: row-contiguous, of the dtype and number of elements they expect.
mx::array input(mlx_array handle, mx::Dtype dtype, std::size_t elements, mx::Stream on) {
  const auto& array = *static_cast<const mx::array*>(handle.ctx);
  if (array.dtype() != dtype || array.size() != elements) {
    throw std::invalid_argument("shapes or dtypes do not fit the scan of rows");
  }
  return mx::contiguous(array, false, on);
}

mx::array rows_of(mlx_array handle, mx::Stream on) {
  const auto& array = *static_cast<const mx::array*>(handle.ctx);
  if (array.ndim() != 2) throw std::invalid_argument("the scan of rows wants [b, n]");
  return input(handle, mx::float32, array.size(), on);
}

template <typename Build>
int guarded(Build&& build) {
  try {
    build();
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}

}  // namespace

// All take x [b, n] f32 and [b] or [b, 1] f32 columns. 0, or 1 with MLX's error handler told.

// result [b, 1] f32.
extern "C" int braid_log_mass(mlx_array* result, mlx_array x, mlx_array temperatures, mlx_stream stream) {
  return guarded([&] {
    const auto on = *static_cast<const mx::Stream*>(stream.ctx);
    const auto rows = rows_of(x, on);
    const int count = rows.shape(0);
    std::vector<mx::array> inputs{rows, input(temperatures, mx::float32, count, on)};
    mlx_array_set_(*result, mx::array({count, 1}, mx::float32, std::make_shared<LogMass>(on), std::move(inputs)));
  });
}

// values [b, width] f32, ids [b, width] u32.
extern "C" int braid_shortlist(mlx_array* values, mlx_array* ids, mlx_array x, int width, mlx_stream stream) {
  return guarded([&] {
    const auto on = *static_cast<const mx::Stream*>(stream.ctx);
    const auto rows = rows_of(x, on);
    if (width < 1 || width > rows.shape(1)) throw std::invalid_argument("the shortlist is wider than the row");
    const mx::Shape shape{rows.shape(0), width};
    auto outputs = mx::array::make_arrays({shape, shape}, {mx::float32, mx::uint32}, std::make_shared<Shortlist>(on),
                                          {rows});
    mlx_array_set_(*values, outputs[0]);
    mlx_array_set_(*ids, outputs[1]);
  });
}

// result [b, 1] u32. mixed [n] u32; bases [b] u32.
extern "C" int braid_draw(mlx_array* result, mlx_array x, mlx_array mixed, mlx_array temperatures, mlx_array floors,
                          mlx_array ceilings, mlx_array bases, mlx_stream stream) {
  return guarded([&] {
    const auto on = *static_cast<const mx::Stream*>(stream.ctx);
    const auto rows = rows_of(x, on);
    const int count = rows.shape(0);
    std::vector<mx::array> inputs{
        rows,
        input(mixed, mx::uint32, rows.shape(1), on),
        input(temperatures, mx::float32, count, on),
        input(floors, mx::float32, count, on),
        input(ceilings, mx::float32, count, on),
        input(bases, mx::uint32, count, on),
    };
    mlx_array_set_(*result, mx::array({count, 1}, mx::uint32, std::make_shared<Draw>(on), std::move(inputs)));
  });
}

// result [b, n] f32. words [b, n / 32 rounded up] u32.
extern "C" int braid_mask(mlx_array* result, mlx_array x, mlx_array words, mlx_stream stream) {
  return guarded([&] {
    const auto on = *static_cast<const mx::Stream*>(stream.ctx);
    const auto rows = rows_of(x, on);
    const std::size_t words_in_all = static_cast<std::size_t>(rows.shape(0)) * ((rows.shape(1) + 31) / 32);
    std::vector<mx::array> inputs{rows, input(words, mx::uint32, words_in_all, on)};
    mlx_array_set_(*result, mx::array(rows.shape(), mx::float32, std::make_shared<Mask>(on), std::move(inputs)));
  });
}
