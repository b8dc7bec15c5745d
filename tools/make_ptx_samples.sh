#!/usr/bin/env bash
# Compiles tests/ptx/samples/*.cu again: each to CASE.kernel.ptx and CASE.epilogue.ptx, with the
# compiler that the file names, nvcc where it names none. Needs CUDA 13.0 and clang 14; the tests
# use the committed PTX and need neither.
set -euo pipefail
cd "$(dirname "$0")/../tests/ptx/samples"
CUDA=${CUDA_HOME:-/usr/local/cuda}

with_nvcc() {  # SOURCE PART OUTPUT
  local flags
  flags=$(sed -n 's|^// nvcc-flags: ||p' "$1")
  # shellcheck disable=SC2086
  "$CUDA/bin/nvcc" -std=c++17 -O3 -DNDEBUG -rdc=true $flags -D"$2" \
    -gencode arch=compute_90a,code=compute_90a -ptx "$1" -o "$3"
}

with_clang() {
  clang++-14 -x cuda -std=c++17 -O2 -nocudainc -nocudalib --cuda-device-only \
    --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx75 -Wno-unknown-cuda-version \
    -D"$2" -S "$1" -o "$3"
}

with_nvrtc() {
  python3 - "$1" "$2" "$3" "$CUDA" <<'PYTHON'
import ctypes, sys
source, part, output, cuda = sys.argv[1:]
nvrtc = ctypes.CDLL(cuda + "/lib64/libnvrtc.so")
program, size = ctypes.c_void_p(), ctypes.c_size_t()
def call(name, *arguments):
    code = getattr(nvrtc, name)(*arguments)
    if code:
        sys.exit(f"{name} failed with {code}")
call("nvrtcCreateProgram", ctypes.byref(program), open(source, "rb").read(), source.encode(), 0,
     None, None)
options = [b"-arch=compute_90a", b"-rdc=true", b"-D" + part.encode()]
call("nvrtcCompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options))
call("nvrtcGetPTXSize", program, ctypes.byref(size))
text = ctypes.create_string_buffer(size.value)
call("nvrtcGetPTX", program, text)
open(output, "wb").write(text.value)
PYTHON
}

for source in *.cu; do
  compiler=$(sed -n 's|^// compiler: ||p' "$source")
  for part in KERNEL EPILOGUE; do
    output=${source%.cu}.${part,,}.ptx
    echo "$output"
    "with_${compiler:-nvcc}" "$source" "$part" "$output"
    # .file lines name this machine's folders.
    sed -i -E 's|^([[:space:]]*\.file[[:space:]]+[0-9]+ )".*/([^/"]+)"|\1"\2"|' "$output"
  done
done
