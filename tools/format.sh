#!/usr/bin/env bash
# Formats every C++ file, the C header and the CUDA files of the kernels; with --check, names the
# files that differ and, in all files, the lines of more than 100 columns, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
# The .cu files of tests/kernels stay as they are: their tests name lines.
mapfile -t files < <(find include src tests bench examples -name '*.hpp' -o -name '*.cpp'
                     find include -name '*.h'
                     find src tests/templates -name '*.cuh' -o -name '*.cu')
if [ "${1:-}" = --check ]; then
  status=0
  python3 tools/check_lines.py || status=1
  clang-format --dry-run --Werror "${files[@]}" || status=1
  exit $status
else
  clang-format -i "${files[@]}"
fi
