// silu(gate) · up of x [rows, 2 * width], gate before up: out [rows, width]; dims {width, elements}.
const int width = dims[0], elements = dims[1];
const int at = blockIdx.x * blockDim.x + threadIdx.x;
if (at < elements) {
  const size_t from = (size_t)(at / width) * 2 * width + at % width;
  const float gate = static_cast<float>(x[from]), up = static_cast<float>(x[from + width]);
  out[at] = static_cast<T>(gate / (1.f + expf(-gate)) * up);
}
