#!/usr/bin/env bash
# Fuzzes each reader from its corpus, then keeps what covers something: the seeds, which have names,
# and of the inputs that the fuzzer made those that reach code that no other kept one does. Usage:
# run.sh BUILD [SECONDS each]; `make fuzz` builds and runs it.
set -euo pipefail
build=$(realpath "$1")
seconds=${2:-60}
cd "$(dirname "$0")"

for fuzzer in "$build"/tests/fuzz/*_fuzz; do
  target=$(basename "$fuzzer" _fuzz)
  corpus=$build/corpus/$target
  rm -rf "$corpus"
  mkdir -p "$corpus/all" "$corpus/kept"
  [ ! -e "$target.tar.gz" ] || tar -xzf "$target.tar.gz" -C "$corpus/all"
  [ "$seconds" = 0 ] ||
    "$fuzzer" -max_total_time="$seconds" -artifact_prefix="$build/" -verbosity=0 "$corpus/all"
  find "$corpus/all" -type f -regextype egrep ! -regex '.*/[0-9a-f]{40}' \
    -exec cp -t "$corpus/kept" {} +
  "$fuzzer" -merge=1 -verbosity=0 "$corpus/kept" "$corpus/all"
  # The same bytes for the same inputs.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$corpus/kept" -cf - . |
    gzip -9n > "$target.tar.gz"
  kept=$(find "$corpus/kept" -type f | wc -l)
  echo "$target: kept $kept of $(find "$corpus/all" -type f | wc -l) inputs"
done
