// The execution provider of one session.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ort/api.hpp"
#include "ort/choose.hpp"
#include "ort/cuda/gpu.hpp"
#include "ort/settings.hpp"

namespace attacca::ort {

class Provider : public OrtEp {
 public:
  // `gpu`: where regions run, opened; null: on the CPU.
  Provider(Settings settings, std::shared_ptr<Gpu> gpu, const OrtLogger* logger);

 private:
  // Errors: a region that the settings or the graph name and that cannot be compiled; ONNX Runtime
  // logs them. What fails otherwise is a note. In both cases the session runs without Attacca.
  Result<Choice> choice(const Ort::ConstGraph& graph);
  OrtStatus* claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  OrtStatus* compile(const OrtNode* fused, OrtNodeComputeInfo** compiled, OrtNode** saved);
  // Once for a session: the names of sizes to measure with that are none of its graph's dimensions.
  void warn_of_unknown_dims(const GraphView& graph);
  void log(const std::string& text, OrtLoggingLevel level = ORT_LOGGING_LEVEL_INFO) const;

  Settings settings_;
  std::shared_ptr<Gpu> gpu_;
  const OrtLogger* logger_;
  bool dims_checked_ = false;
  // What was compiled while regions were claimed, by the names of its outputs, until ONNX Runtime
  // asks for it.
  std::map<std::vector<std::string>, Claim> claims_;
};

}  // namespace attacca::ort
