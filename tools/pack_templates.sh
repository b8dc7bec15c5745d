#!/usr/bin/env bash
# Packs a built template directory (build/templates) for another machine.
# Usage: pack_templates.sh DIR OUT.tar.gz; there, unpack it and set ATTACCA_TEMPLATE_DIR.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 DIR OUT.tar.gz" >&2; exit 2; }
[ -e "$1/libattacca_templates.so" ] || { echo "$1: no built templates; run make gpu" >&2; exit 1; }
out=$(realpath -m "$2")
cd "$1"
# The order and owners are fixed, so that equal templates give equal archives.
names=(libattacca_templates.so)
[ ! -e templates.index ] || names+=(templates.index)
for metadata in *.json; do names+=("$metadata" "${metadata%.json}.ptx"); done
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "${names[@]}" |
  gzip -9n > "$out"
echo "packed $(((${#names[@]} - 1) / 2)) templates into $2 ($(du -h "$out" | cut -f1))"
