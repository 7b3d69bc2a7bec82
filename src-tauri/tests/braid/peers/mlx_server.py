"""mlx-lm's own server, with the weights as f32: on a CPU, half precision takes seconds for each token."""

import mlx.core as mx
import mlx_lm.server as server
from mlx.utils import tree_map

load = server.load


def load_in_full_precision(*arguments, **named):
    model, *rest = load(*arguments, **named)
    full = lambda weight: weight.astype(mx.float32) if mx.issubdtype(weight.dtype, mx.floating) else weight
    model.update(tree_map(full, model.parameters()))
    return model, *rest


server.load = load_in_full_precision
server.main()
