#!/usr/bin/env bash
# Packs the built templates, unpacks them elsewhere, and compares.
# Usage: pack_test.sh ROOT DIR SCRATCH
set -euo pipefail
root=$1 templates=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch/unpacked"
"$root/tools/pack_templates.sh" "$templates" "$scratch/templates.tar.gz"
tar -xzf "$scratch/templates.tar.gz" -C "$scratch/unpacked"
for metadata in "$templates"/*.json; do
  name=$(basename "$metadata" .json)
  cmp "$metadata" "$scratch/unpacked/$name.json"
  cmp "$templates/$name.ptx" "$scratch/unpacked/$name.ptx"
done
[ ! -e "$templates/templates.index" ] ||
  cmp "$templates/templates.index" "$scratch/unpacked/templates.index"
cmp "$templates/libattacca_templates.so" "$scratch/unpacked/libattacca_templates.so"
# Nothing to pack is an error that says so.
if message=$("$root/tools/pack_templates.sh" "$scratch" "$scratch/none.tar.gz" 2>&1); then
  exit 1
fi
[[ $message == *"no built templates; run make gpu"* ]]
rm -rf "$scratch"
