#!/usr/bin/env python3
"""mlx-lm's BatchGenerator as a benchmark peer: answers one request a line on stdin with one result a line.

    python3 mlx_lm_batch.py MODEL_DIR [--f32]

In:  {"prompts": [[token ids], ...], "tokens": 64, "temperature": 0.7, "top_p": 0.9}
Out: {"step_ms": [...]} with the time of every decode step in which all rows were running, the first two left out.

No token ends a row. --f32 dequantises and casts to float32, as a CPU run must: half precision is emulated there.
Needs mlx==0.32.2 and mlx-lm==0.32.2; on the CPU set MLX_DISABLE_COMPILE=1.
"""
import json
import pathlib
import sys
import time

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler
from mlx_lm.utils import dequantize_model, load_model

WARM_UP_STEPS = 2


def run(model, request):
    rows = len(request["prompts"])
    sampler = make_sampler(request["temperature"], request["top_p"] if request["top_p"] < 1 else 0.0)
    generator = BatchGenerator(
        model,
        sampler=sampler,
        max_tokens=request["tokens"] + WARM_UP_STEPS,
        completion_batch_size=max(8, rows),
        prefill_batch_size=max(8, rows),
    )
    generator.insert(request["prompts"])
    steps, finished = [], 0
    while finished < rows:
        start = time.perf_counter()
        result = generator.next()
        elapsed = time.perf_counter() - start
        answers = result if isinstance(result, list) else result[1]
        if len(answers) == rows:
            steps.append(elapsed * 1e3)
        finished += sum(1 for answer in answers if answer.finish_reason)
    generator.close()
    return {"step_ms": steps[WARM_UP_STEPS:]}


def main():
    model, _ = load_model(pathlib.Path(sys.argv[1]))
    if "--f32" in sys.argv[2:]:
        model = dequantize_model(model)
        model.set_dtype(mx.float32)
        mx.eval(model.parameters())
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(model, json.loads(line))), flush=True)


main()
