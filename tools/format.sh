#!/usr/bin/env bash
# Formats every C++ file, the C header and the CUDA files of the kernels; with --check, names the
# files that differ and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# The .cu files of tests/kernels stay as they are: their tests name lines.
mapfile -t files < <(find include src tests bench examples -name '*.hpp' -o -name '*.cpp'
                     find include -name '*.h'
                     find src tests/templates -name '*.cuh' -o -name '*.cu')
if [ "${1:-}" = --check ]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
