// silu(gate) · up of x [rows, 2 * width], gate before up, or with GELU its tanh form: out [rows, width];
// dims {width, elements}.
const int width = dims[0], elements = dims[1];
const int at = blockIdx.x * blockDim.x + threadIdx.x;
if (at < elements) {
  const size_t from = (size_t)(at / width) * 2 * width + at % width;
  const float gate = static_cast<float>(x[from]), up = static_cast<float>(x[from + width]);
  // gelu(x) = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3).
  const float inner = GELU ? 1.5957691f * fmaf(0.044715f * gate * gate, gate, gate) : gate;
  out[at] = static_cast<T>(gate / (1.f + expf(-inner)) * up);
}
