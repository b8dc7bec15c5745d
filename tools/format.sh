#!/usr/bin/env bash
# Formats every C++ file; with --check, names the files that differ and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find include src tests bench examples -name '*.hpp' -o -name '*.cpp')
if [ "${1:-}" = --check ]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
