// The files of ONNX Runtime on this machine.
#pragma once

#include <string>

#include "support/error.hpp"

namespace attacca::cli {

struct OnnxRuntimeLibrary {
  void* get_api_base = nullptr;  // its function OrtGetApiBase
  std::string path;
  std::string plugin;  // libattacca_ort.so
};

// Opens $ATTACCA_LIBONNXRUNTIME, else what the dynamic linker finds, else the wheel in
// $VIRTUAL_ENV, in the site-packages that Attacca is installed in, or in a .deps/venv above the
// program. It stays open.
Result<OnnxRuntimeLibrary> open_onnxruntime();

}  // namespace attacca::cli
