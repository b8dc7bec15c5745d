#!/usr/bin/env bash
# Installs what the build and the tests need: Debian packages, a Python environment in .deps/venv (nvcc,
# and what the tests compare with), and CUTLASS's headers in .deps/cutlass. Does nothing when all is
# there already.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build pkg-config python3 python3-dev python3-venv clang-format graphviz
  libdnnl-dev libprotobuf-dev protobuf-compiler libonnx-dev libonnx-testdata libhwy-dev libfmt-dev
  libcli11-dev nlohmann-json3-dev libexpected-dev libxxhash-dev libgtest-dev librapidcheck-dev
  libbenchmark-dev libsqlite3-dev dpkg-dev file
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo" >&2; exit 1; }
    sudo=sudo
  fi
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

stamp=.deps/venv/requirements.txt
if ! cat tools/requirements-test.txt tools/requirements-frameworks.txt | cmp -s - "$stamp"; then
  echo "setup: creating .deps/venv"
  rm -rf .deps/venv
  # Debian's own interpreter, whatever else is first on PATH.
  /usr/bin/python3 -m venv .deps/venv
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
