// A group of nodes as one plan on the CPU or a GPU, for tensors of any sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attacca/attacca.hpp"
#include "ort/api.hpp"
#include "plugin/instance_cache.hpp"

namespace attacca::ort {

using plugin::Shape;

struct Given {
  const void* data = nullptr;
  int32_t dtype = 0;  // ONNX's number
  Shape shape;
};

// What is alike for all sizes is computed once; instances are kept by shapes. Any number of threads
// may use one region.
class Region {
 public:
  // `model`: the bytes of an ONNX model. Errors: those of the importer and of Plan::compile().
  static Result<std::shared_ptr<Region>> compile(const std::string& model, const Options& options);

  // Gives the tensors other names than the model's, as many as there are.
  void rename(std::vector<std::string> inputs, std::vector<std::string> outputs);
  // The names of the tensors that cross the border, in the order that run() takes.
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }

  // The names of the sizes that prepares() takes.
  const std::vector<std::string>& symbols() const { return symbols_; }
  // Whether there are kernels for these sizes; on a GPU they are compiled.
  Status prepares(const std::vector<std::pair<std::string, int64_t>>& sizes) const {
    return plan_.prepare(sizes).status();
  }

  // Errors: an input with another dtype or shape than the model declares.
  Result<Instance> instance(const std::vector<Given>& inputs);
  // `outputs`: memory of the shapes that the instance gives. On a GPU all memory is its own.
  static Status run(const Instance& instance, const std::vector<Given>& inputs,
                    const std::vector<void*>& outputs, Workspace workspace = {},
                    void* stream = nullptr);

 private:
  struct Declared {
    int32_t dtype = 0;
    TensorInfo info;
  };
  explicit Region(Plan plan) : plan_(std::move(plan)), symbols_(plan_.symbols()) {}
  Result<Instance> prepare(const std::vector<Given>& inputs) const;
  Status wrong(size_t input, const Shape& shape, const std::string& wanted) const;

  Plan plan_;
  std::vector<std::string> symbols_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<Declared> declared_;  // by input
  plugin::InstanceCache instances_;
};

}  // namespace attacca::ort
