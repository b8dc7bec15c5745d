// A region of a model as one plan on one device, for tensors of any sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attacca/attacca.hpp"
#include "plugin/instance_cache.hpp"
#include "torch_ops/sizes.hpp"

namespace attacca::torch_ops {

// The graph of an op's argument: src/python/attacca/torch/_ops/text_argument.py encodes it.
std::string decoded(std::string_view argument);

struct Operand {
  const void* data = nullptr;
  std::string dtype;  // "bf16"
  Shape shape, strides;
};

class Region {
 public:
  // `graph` as the argument has it. Errors: those of parsing and compiling.
  static Result<std::shared_ptr<Region>> compile(std::string_view graph, const Options& options);

  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  // For tensors with these layouts; made at the first use of each. Errors: another number, dtype or
  // shape than the plan's, and those of Plan::prepare().
  Result<Instance> instance(const std::vector<Operand>& inputs);

 private:
  explicit Region(Plan plan);
  Status check(const std::vector<Operand>& inputs) const;
  Result<Instance> prepare(const std::vector<Operand>& inputs) const;

  Plan plan_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<std::string> symbols_;
  plugin::InstanceCache instances_;
};

}  // namespace attacca::torch_ops
