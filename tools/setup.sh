#!/usr/bin/env bash
# Installs what a command needs, and does nothing when all is there already.
# Usage: setup.sh library|wheel|test|bench|fuzz
#
#   library  the Debian packages that libattacca and the command line are built with
#   wheel    and Python with its headers, what makes a wheel, in .deps/wheel, and ONNX Runtime's
#            headers in .deps/onnxruntime
#   test     and what the tests need: another Python environment in .deps/venv (nvcc, and the
#            frameworks that the tests compare with) and CUTLASS's headers in .deps/cutlass
#   bench, fuzz  what `library` and `test` install, and google-benchmark or clang
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
  library) needed='library' ;;
  wheel)   needed='library|wheel' ;;
  test)    needed='library|test' ;;
  bench)   needed='library|test|bench' ;;
  fuzz)    needed='library|test|fuzz' ;;
  *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac

install_packages() {
  local missing=() sudo="" package
  for package in $(awk -v needed=" ($needed)( |\$)" '!/^#/ && $0 ~ needed {print $1}' \
                     tools/debian-packages.txt); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
    sudo=sudo
  fi
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  # Neither questions nor the list of what was unpacked; errors go to stderr.
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
}

# make_environment FOLDER: a new one, of Debian's own interpreter, whatever else is first on PATH.
make_environment() {
  echo "setup: creating $1"
  rm -rf "$1"
  /usr/bin/python3 -m venv "$1"
}

install_packages
[ "$1" != library ] || exit 0

stamp=.deps/wheel/requirements.txt
if ! cmp -s tools/requirements-wheel.txt "$stamp"; then
  make_environment .deps/wheel
  .deps/wheel/bin/pip install --quiet --disable-pip-version-check -r tools/requirements-wheel.txt
  cp tools/requirements-wheel.txt "$stamp"
fi
# Without them, libattacca_ort.so alone is missing.
tools/onnxruntime_headers.sh .deps/onnxruntime || true
[ "$1" != wheel ] || exit 0

stamp=.deps/venv/requirements.txt
if ! cat tools/requirements-test.txt tools/requirements-frameworks.txt | cmp -s - "$stamp"; then
  make_environment .deps/venv
  .deps/venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements-test.txt
  .deps/venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    -r tools/requirements-frameworks.txt
  cat tools/requirements-test.txt tools/requirements-frameworks.txt > "$stamp"
fi

# CUTLASS's headers, for the kernel templates: a wheel that carries them, unpacked in part.
stamp=.deps/cutlass/requirements.txt
if ! cmp -s tools/requirements-cutlass.txt "$stamp"; then
  echo "setup: unpacking CUTLASS into .deps/cutlass"
  rm -rf .deps/cutlass .deps/cutlass-wheel
  .deps/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -d .deps/cutlass-wheel -r tools/requirements-cutlass.txt
  .deps/venv/bin/python tools/unpack_wheel.py .deps/cutlass-wheel/*.whl \
    flashinfer/data/cutlass/include .deps/cutlass/include
  rm -rf .deps/cutlass-wheel
  cp tools/requirements-cutlass.txt "$stamp"
fi
