// A model in ONNX Runtime, with Attacca inside or alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#define ORT_API_MANUAL_INIT
#include "ir/graph/graph.hpp"
#include "ir/interpret/interpreter.hpp"
#include "onnxruntime_cxx_api.h"

namespace attacca::cli {

// ONNX Runtime in this process. It and all that follows throw Ort::Exception where ONNX Runtime
// fails.
class OnnxRuntime {
 public:
  // Opens it and registers Attacca's plug-in.
  static Result<OnnxRuntime> open();

  const std::string& path() const { return path_; }
  const Ort::Env& env() const { return env_; }
  // The device that stands for Attacca on "cpu", "cuda:0".
  Ort::ConstEpDevice attacca(const std::string& device) const;
  // What Attacca wrote to the log since the last call.
  std::vector<std::string> take_notes();

 private:
  OnnxRuntime(std::string path, const std::string& plugin);

  std::string path_;
  std::unique_ptr<std::vector<std::string>> notes_;
  Ort::Env env_;
};

class OnnxSession {
 public:
  // `attacca`: its options, with the device among them; null: ONNX Runtime alone.
  OnnxSession(OnnxRuntime& runtime, const std::string& file, int threads,
              const std::unordered_map<std::string, std::string>* attacca);

  // The inputs alone, as a graph. Errors: one that is no tensor or has a dtype that Attacca lacks.
  Result<ir::Graph> inputs() const;
  const std::vector<std::string>& outputs() const { return outputs_; }
  void run(const ir::Bindings& inputs, std::vector<Ort::Value>& results);

 private:
  Ort::Session session_;
  std::vector<std::string> inputs_, outputs_;
};

// Errors: a dtype that Attacca lacks.
Result<ir::Tensor> tensor_of(const Ort::Value& value, const std::string& name);

}  // namespace attacca::cli
