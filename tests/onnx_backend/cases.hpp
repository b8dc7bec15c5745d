// The backend node tests as libonnx-testdata stores them: a model and sets of tensors.
#pragma once

#include <string>
#include <vector>

#include "import/onnx/onnx.hpp"

namespace attacca::backend {

struct NamedTensor {
  std::string name;
  ir::Tensor tensor;
};

struct DataSet {
  std::vector<NamedTensor> inputs;  // of the graph, initializers left out
  std::vector<NamedTensor> outputs;
};

struct Case {
  std::string name;       // "node/test_add"
  std::string directory;  // holds model.onnx
};

// Every folder below `root` that holds a model, sorted.
std::vector<Case> find_cases(const std::string& root);
// An error where a tensor has a type that is no ir::DType, or is no tensor.
Result<std::vector<DataSet>> read_data(const Case& test);

}  // namespace attacca::backend
