#!/usr/bin/env bash
# On the GPU machine, first: keeps this folder in /tmp/keep and makes the random models, which needs no MLX yet.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
keep=/tmp/keep
mkdir -p $keep
cp "$here"/* $keep/
for shape in qwen3-0.6b qwen3-4b llama3.2-1b gemma3-1b; do
  python3 $keep/random_model.py $shape $keep/models/$shape
done
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
python3 -c 'import sys, numpy, transformers; print(sys.version, numpy.__version__, transformers.__version__)'
getconf GNU_LIBC_VERSION
ls -d /usr/local/cuda* || true
ls -la $keep
