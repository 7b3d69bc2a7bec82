#!/usr/bin/env bash
# On the GPU machine, second: run.sh RESULTS SECONDS MODEL [BENCH_OPTION...]
#
# Joins what prepare.sh kept with this folder (once), then benchmarks /tmp/keep/models/MODEL for about SECONDS and
# leaves its results in RESULTS/MODEL. The benchmark was linked against MLX's CPU library; LD_LIBRARY_PATH gives it the
# CUDA one of the same version. NVIDIA's own libraries are those of the machine's Python packages.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=$1 seconds=$2 model=$3
shift 3
keep=/tmp/keep site=/tmp/keep/site

if [ ! -x $keep/bench ]; then
  mkdir -p $site
  tar -xJf "$here/site.tar.xz" -C $site
  mkdir -p $site/mlx/lib
  cat $keep/libmlx.so.xz.a "$here/libmlx.so.xz.b" | xz -dc > $site/mlx/lib/libmlx.so
  xz -dc "$here/bench.xz" > $keep/bench
  chmod +x $keep/bench
fi
nvidia=$(python3 -c 'import importlib.util as u; print(list(u.find_spec("nvidia").submodule_search_locations)[0])')
# libmlx.so looks for them two folders up, where pip would have put them.
[ -e $site/nvidia ] || ln -s "$nvidia" $site/nvidia
libraries=$(find "$nvidia" -maxdepth 2 -name lib -type d | paste -sd:)
export LD_LIBRARY_PATH=$site/mlx/lib:$site/mlx_cuda_13.libs:$libraries:${LD_LIBRARY_PATH:-}
export PYTHONPATH=$site PYTHONUNBUFFERED=1
[ -d "${CUDA_HOME:-/usr/local/cuda}/include" ] || export CUDA_HOME=$nvidia/cu13
export BRAID_PEER_PYTHON=$(command -v python3)

if ldd $keep/bench | grep 'not found'; then exit 1; fi
python3 -c 'import mlx.core as mx; print("MLX", mx.__version__, mx.default_device(), mx.device_info())'
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed 's/, / with driver /')
mkdir -p "$results/$model"
$keep/bench --model $keep/models/"$model" --out "$results/$model" --budget-s "$seconds" \
  --machine "$gpu; $(nproc) processor cores" "$@" 2>&1 | tee "$results/$model/log.txt"
