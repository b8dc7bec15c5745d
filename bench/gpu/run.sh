#!/usr/bin/env bash
# Every GPU benchmark, into docs/benchmarks/gpu-*, within ten minutes; more arguments go to peers.py:
#   bench/gpu/run.sh build/src/cli/attacca --full --minutes 120
set -uo pipefail
cd "$(dirname "$0")/../.."
attacca=$1
shift
out=${BENCH_OUT:-docs/benchmarks}
mkdir -p "$out"
python=${PYTHON:-python3}
failed=0
# What fails leaves its reason; the others go on.
step() {
  "$python" "$@" || { echo "failed: $*" >&2; failed=1; }
}
step bench/gpu/cold.py --attacca "$attacca" --out "$out/gpu-cold" --minutes 1.5
# Whole kernels are made where nvcc is: `bench/gpu/splice_cost.py build`.
if [ -d build/whole ]; then
  step bench/gpu/splice_cost.py run --attacca "$attacca" --out "$out/gpu-splice" --minutes 1
else
  echo "no build/whole: the cost of splicing is not measured (bench/gpu/README.md)" >&2
fi
step bench/gpu/user_kernels.py --attacca "$attacca" --out "$out/gpu-user-kernels" --minutes 2.5
step bench/gpu/peers.py --attacca "$attacca" --csv "$out/gpu-epilogues.csv" --minutes 4 \
  --max-autotune-every 4 "$@"
step bench/gpu/table.py "$out/gpu-epilogues.csv" --out "$out/gpu-epilogues"
exit $failed
