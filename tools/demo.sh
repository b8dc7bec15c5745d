#!/usr/bin/env bash
# The main job on real blocks: fold, cut, run fused and op by op, and check against f64.
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
