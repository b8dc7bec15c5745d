#!/usr/bin/env bash
# Puts ONNX Runtime's headers, with which libattacca_ort.so is compiled, into a folder. Debian 12
# has none: they come from one package of a later release, which is verified, not installed.
# Usage: onnxruntime_headers.sh FOLDER. Exits 1 if the package cannot be had; the build then leaves
# libattacca_ort.so out.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }

package=libonnxruntime-dev
version=1.23.2+dfsg-6.1
sha256=4630a94adb36dc056feb124e51c6e952e2cab5188bc093a25bee8a7e1ac5196d

[ "$(cat "$1/package.txt" 2>/dev/null || true)" != "$sha256" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! "$(dirname "$0")/later_debian.sh" forky "$work" "$package=$version:$sha256"; then
  echo "onnxruntime_headers: no $package $version; give a folder that holds" \
    "onnxruntime_c_api.h with -DORT_INCLUDE=FOLDER" >&2
  exit 1
fi
mkdir -p "$1"
cp "$work"/usr/include/onnxruntime/*.h "$1"
cp "$work/usr/share/doc/$package/copyright" "$1"
echo "$sha256" > "$1/package.txt"
