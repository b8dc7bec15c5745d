#!/usr/bin/env bash
# Builds the Python package as a wheel that needs no Debian package but python3: auditwheel adds the
# libraries that it links, and this script their licences.
# Usage: wheel.sh FOLDER [arguments of pip wheel]; `tools/setup.sh wheel` comes first. The wheel is
# built for PYTHON, else for Debian's python3.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
out=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.."
tools=$PWD/.deps/wheel/bin
[ -x "$tools/auditwheel" ] || { echo "wheel: no auditwheel; run tools/setup.sh wheel" >&2; exit 1; }

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
"${PYTHON:-$tools/python}" -m pip wheel . --quiet --no-deps -w "$stage/plain" "$@"
PATH=$tools:$PATH auditwheel repair --zip-compression-level 0 -w "$stage/whole" "$stage"/plain/*.whl
"$tools/wheel" unpack -d "$stage/files" "$stage"/whole/*.whl >/dev/null
for library in "$stage"/files/*/attacca.libs/*; do
  name=$(basename "$library" | sed -E 's/-[0-9a-f]+\.so/.so/')  # auditwheel added a hash
  package=$(dpkg-query -S "*/$name" | sed -n '1s/:.*//p')
  install -Dm644 "/usr/share/doc/$package/copyright" \
    "$(echo "$stage"/files/*/attacca-*.dist-info/licenses)/$package"
done
mkdir -p "$out"
"$tools/wheel" pack -d "$out" "$stage"/files/*
