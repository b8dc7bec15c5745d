// A plan as in the public interface: one graph, one device, any sizes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api/instance.hpp"
#include "api/layout.hpp"
#include "api/options.hpp"
#include "api/parts.hpp"
#include "run/pipeline.hpp"

namespace attacca::api {

// An input or output, as the plan's own graph declares it.
struct TensorInfo {
  std::string name, type;
  ir::DType dtype = ir::DType::F32;
  std::vector<std::string> shape;
};

// Errors: a symbol without a value, a value without a symbol, a negative one.
Status check_sizes(const std::vector<std::string>& symbols, const ir::SymbolValues& sizes);

// Immutable but for the instances it remembers; thread-safe.
class Plan {
 public:
  // `choices`: consulted before the tuning database; `bundle`: as CudaOptions::bundle.
  static Result<std::shared_ptr<const Plan>> compile(
      ir::Graph graph, const Options& options, std::vector<run::KnownChoice> choices = {},
      std::shared_ptr<const run::Bundle> bundle = {});

  const ir::Graph& graph() const { return graph_; }
  const Options& options() const { return options_; }
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  const fuse::Partition& partition() const { return *compiled_->prepared.partition; }
  std::string explain_text() const;
  std::string explain_json() const;
  std::string explain_dot() const;

  // `alignments`: one for each input, then for each output; empty: 16 each. For tensors with other
  // layouts than the graph's, the instance is of a variant of the plan whose graph declares them.
  Result<std::shared_ptr<const Instance>> prepare(const ir::SymbolValues& sizes,
                                                  const std::vector<int>& alignments,
                                                  const Layouts& layouts = {}) const;

  // Errors: as run::make_parts(), a plan of the CPU.
  Result<std::shared_ptr<const Parts>> prepare_parts(const ir::SymbolValues& sizes,
                                                     const std::vector<int>& alignments,
                                                     size_t parts) const;

  // The given choices and those of instances, each once.
  std::vector<run::KnownChoice> choices() const;

  // The kernels of all instances so far, and how they were chosen. Errors: a plan of the CPU, one
  // without an instance, a kernel of the user's, one that is no machine code.
  Result<run::Bundle> bundle() const;

 private:
  // The strides by which a variant's graph differs from the plan's; empty: it does not. Strides of
  // outputs differ only on a GPU.
  struct Difference {
    InputStrides inputs;
    run::OutputStrides outputs;
    bool none() const;
    std::string key() const;
  };
  static Result<std::shared_ptr<Plan>> make(ir::Graph graph, const Options& options,
                                            std::vector<run::KnownChoice> choices,
                                            std::shared_ptr<const run::Bundle> bundle,
                                            Difference difference);
  Status check_arguments(const ir::SymbolValues& sizes, const std::vector<int>& alignments,
                         const Layouts& layouts) const;
  Result<std::vector<Tensor>> input_tensors(const ir::SymbolValues& sizes) const;
  Result<std::vector<Tensor>> output_tensors(const ir::SymbolValues& sizes) const;
  Result<Difference> lay_out(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                             const Layouts& layouts) const;
  Result<std::shared_ptr<const Plan>> variant(const Difference& difference) const;
  void remember(const ir::SymbolValues& sizes, std::span<const run::Decision> decisions) const;

  ir::Graph graph_;  // as it was given, before folding
  Options options_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<std::string> symbols_;
  std::shared_ptr<const run::Compiled> compiled_;
  std::shared_ptr<const run::Bundle> bundle_;
  mutable std::mutex mutex_;
  mutable std::vector<run::KnownChoice> choices_;
  mutable std::vector<run::KnownChoice> decided_;  // measured or not
  mutable std::set<ir::SymbolValues> sizes_;       // of the instances
  mutable std::map<std::string, std::shared_ptr<const Plan>>
      variants_;  // by their difference's key
};

}  // namespace attacca::api
