#!/usr/bin/env bash
# Puts ONNX Runtime's headers, with which libattacca_ort.so is compiled, into a folder. Debian 12
# has none: they come from one package of a later release, which is verified, not installed. Its
# mirror is the one from which apt installs Debian's packages here.
# Usage: onnxruntime_headers.sh FOLDER. Exits 1 if the package cannot be had; the build then leaves
# libattacca_ort.so out.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '5,6s/^# //p' "$0" >&2; exit 2; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
  grep --invert-match --max-count=1 security || true)
release=forky
package=libonnxruntime-dev
version=1.23.2+dfsg-6.1
sha256=4630a94adb36dc056feb124e51c6e952e2cab5188bc093a25bee8a7e1ac5196d

[ "$(cat "$1/package.txt" 2>/dev/null || true)" != "$sha256" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "$mirror $release main" > "$work/sources.list"
# Lists of its own: the machine's sources stay as they are.
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=-
     -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=
     -o Acquire::Languages=none -o Acquire::Retries=2)
cd "$work"
if ! { "${apt[@]}" update && "${apt[@]}" download "$package=$version"; } >"$work/log" 2>&1 ||
   ! sha256sum --status --check <<< "$sha256  $(echo "$package"_*.deb)"; then
  sed 's/^/  /' "$work/log" >&2
  echo "onnxruntime_headers: no $package $version; give a folder that holds" \
    "onnxruntime_c_api.h with -DORT_INCLUDE=FOLDER" >&2
  exit 1
fi
dpkg-deb -x "$package"_*.deb unpacked
cd - >/dev/null
mkdir -p "$1"
cp "$work"/unpacked/usr/include/onnxruntime/*.h "$1"
cp "$work/unpacked/usr/share/doc/$package/copyright" "$1"
echo "$sha256" > "$1/package.txt"
