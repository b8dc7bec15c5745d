// ONNX Runtime's C++ interface over the pointer that CreateEpFactories is handed: nothing is
// linked. Its functions throw Ort::Exception; guarded() in status.hpp ends that at the library's
// border.
#pragma once

#define ORT_API_MANUAL_INIT
#include "onnxruntime_cxx_api.h"
