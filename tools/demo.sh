#!/usr/bin/env bash
# Runs real blocks: folds, cuts into regions, runs fused and op by op, and checks against f64.
# Usage: demo.sh ATTACCA
set -euo pipefail
attacca=$1
cd "$(dirname "$0")/.."

show() {
  echo
  echo "\$ attacca $*"
  "$attacca" "$@"
}

show fold 'x / (1 + exp(-x))' --explain
show run examples/llama3_8b_mlp.attacca --dim M=64 --check
show run examples/bert_mlp.onnx --check
show explain examples/gpt_oss_expert.attacca

next() { printf '  %-60s %s\n' "$1" "$2"; }
echo
echo "What to try next:"
next "$attacca --help" "every command"
next "$attacca explain YOUR_MODEL.onnx" "what becomes one kernel, and why the rest does not"
next "$attacca run examples/bert_mlp.onnx --json" "times and decisions as JSON"
next "make wheel" "the Python package (docs/library.md)"
next "make test" "everything else: kernels, PyTorch, sanitizers"
