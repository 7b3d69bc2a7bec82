#!/usr/bin/env bash
# Gathers what a benchmark on an NVIDIA GPU needs, on a machine that has none: pack.sh FOLDER BENCH_BINARY
#
# FOLDER/first holds part of MLX's CUDA library and the generator of the models; FOLDER/second the rest of the library,
# MLX's headers (it compiles kernels at first use), the Python packages of MLX and mlx-lm, the benchmark and what runs
# it. Each stays under 50 MB, for a machine that takes only so much at a time. There, on the same machine:
#     bash first/prepare.sh
#     bash second/run.sh RESULTS SECONDS qwen3-0.6b [BENCH_OPTION...]
# FOLDER/made keeps the slow steps (half a minute of download, two minutes of xz). Needs python3 with pip, unzip, xz
# and binutils.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "$1")
binary=$(realpath "$2")
mlx=0.32.2
mkdir -p "$folder"/made "$folder"/first "$folder"/second
cd "$folder/made"

if [ ! -d wheels ]; then
  platforms=()
  for glibc in 2_35 2_28 2_17; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    "${platforms[@]}" -d wheels.part "mlx-cuda-13==$mlx" "mlx==$mlx" "mlx-lm==$mlx"
  mv wheels.part wheels
fi
if [ ! -f libmlx.so.xz ]; then
  unzip -q -o 'wheels/mlx_cuda_13-*.whl' -d cuda
  xz -9e --stdout cuda/mlx/lib/libmlx.so > libmlx.so.xz.part
  mv libmlx.so.xz.part libmlx.so.xz
fi
if [ ! -f site.tar.xz ]; then
  unzip -q -o 'wheels/mlx-[0-9]*.whl' -d site
  unzip -q -o 'wheels/mlx_lm-*.whl' -d site
  cp -r cuda/mlx/include site/mlx/
  cp -r cuda/mlx_cuda_13.libs site/
  tar -C site -c . | xz -9 --stdout > site.tar.xz.part
  mv site.tar.xz.part site.tar.xz
fi

# The benchmark was linked against the CPU library: the CUDA one must have each symbol that it takes from there.
lacking=$(comm -23 <(nm -D --undefined-only "$binary" | grep -o '_ZN\?K\?[0-9A-Za-z_]*3mlx4core.*' | sort -u) \
  <(nm -D --defined-only cuda/mlx/lib/libmlx.so | grep -o '_Z.*' | sort -u))
[ -z "$lacking" ] || { printf 'MLX for CUDA lacks:\n%s\n' "$lacking" >&2; exit 1; }

split --bytes=40M --suffix-length=1 libmlx.so.xz libmlx.so.xz.
mv libmlx.so.xz.a ../first/
mv libmlx.so.xz.b ../second/
cp "$here/prepare.sh" "$here/random_model.py" ../first/
cp "$here/run.sh" site.tar.xz ../second/
strip --strip-debug -o bench "$binary"
xz -6 --stdout bench > ../second/bench.xz
du -sh ../first ../second
