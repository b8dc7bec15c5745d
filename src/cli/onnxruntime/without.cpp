// In place of through.cpp where ONNX Runtime's headers were not found.
#include "cli/commands.hpp"

namespace attacca::cli {

int run_through(const RunArgs&) {
  return report({"this build of Attacca has no plug-in for ONNX Runtime", "--through",
                 "build it with ONNX Runtime's headers: docs/onnxruntime.md"});
}

}  // namespace attacca::cli
