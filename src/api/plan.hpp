// A plan as the public interface hands it out: one graph, one device, any sizes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/layout.hpp"
#include "fold/fold.hpp"
#include "run/cpu/plan.hpp"
#include "run/cuda/plan.hpp"

namespace attacca::api {

struct Device {
  bool cuda = false;
  int ordinal = 0;
};
// "cpu", "cuda", "cuda:1".
Result<Device> parse_device(std::string_view text);
std::string to_string(const Device& device);
// An error where the device cannot be used.
Status check_device(const Device& device);

enum class Choosing : uint8_t { Known, Measure, Always, Unfused };
Result<Choosing> parse_tuning(std::string_view text);
std::string_view name(Choosing choosing);
Result<ir::Mode> parse_mode(std::string_view text);
Result<int> check_threads(int64_t threads, const std::string& where);

struct Options {
  Device device = {};
  ir::Mode mode = ir::Mode::Fp32;
  Choosing tuning = Choosing::Known;
  double tuning_seconds = 60;
  int threads = 0;
  bool fuse = true;
};

// What the plan's own graph says of a value that callers give or take.
struct TensorInfo {
  std::string name, type;
  ir::DType dtype = ir::DType::F32;
  std::vector<std::string> shape;
};

class Plan;

// A plan for certain sizes. Immutable; keeps what it needs of its plan.
class Instance {
 public:
  struct Tensor {
    ir::DType dtype = ir::DType::F32;
    std::vector<int64_t> shape, strides;
    size_t bytes = 0;  // that it spans
  };
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  size_t workspace_bytes() const;
  // Empty on the CPU.
  std::span<const run::Decision> decisions() const;

  // As attacca_instance_run (attacca.h).
  Status run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
             size_t workspace_bytes, void* stream) const;

 private:
  friend class Plan;
  Status check_overlap(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const void* workspace) const;
  Status run_on_cpu(std::span<const void* const> inputs, std::span<void* const> outputs) const;

  std::shared_ptr<const Plan> plan_;
  std::vector<Tensor> inputs_, outputs_;
  std::shared_ptr<const run::CudaInstance> cuda_;
};

// Immutable but for the instances it remembers; thread-safe.
class Plan : public std::enable_shared_from_this<Plan> {
 public:
  // `choices`: consulted before the tuning database.
  static Result<std::shared_ptr<const Plan>> compile(ir::Graph graph, const Options& options,
                                                     std::vector<run::KnownChoice> choices = {});

  const ir::Graph& graph() const { return graph_; }
  const Options& options() const { return options_; }
  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const std::vector<TensorInfo>& outputs() const { return outputs_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  const fuse::Partition& partition() const;
  std::string explain_text() const;
  std::string explain_json() const;
  std::string explain_dot() const;

  // `alignments`: one an input, then one an output; empty: 16 each. Where tensors lie otherwise
  // than the graph says, the instance is that of a variant of the plan whose graph says so.
  Result<std::shared_ptr<const Instance>> prepare(const ir::SymbolValues& sizes,
                                                  const std::vector<int>& alignments,
                                                  const Layouts& layouts = {}) const;

  // Those given and those that instances brought, each once.
  std::vector<run::KnownChoice> choices() const;

 private:
  friend class Instance;
  // Strides by which a variant's graph differs; none: as here. Outputs': of plans on a GPU.
  struct Difference {
    std::vector<std::optional<std::vector<ir::Dim>>> inputs, outputs;
    bool none() const;
    std::string key() const;
  };
  static Result<std::shared_ptr<Plan>> make(ir::Graph graph, const Options& options,
                                            std::vector<run::KnownChoice> choices,
                                            Difference difference);
  Status check_sizes(const ir::SymbolValues& sizes) const;
  Result<std::vector<Instance::Tensor>> input_tensors(const ir::SymbolValues& sizes) const;
  Result<std::vector<Instance::Tensor>> output_tensors(const ir::SymbolValues& sizes) const;
  Result<Difference> lay_out(Instance& instance, const Layouts& layouts) const;
  Result<std::shared_ptr<const Plan>> variant(const Difference& difference) const;
  void remember(std::span<const run::Decision> decisions) const;

  ir::Graph graph_;  // as it was given, before folding
  Options options_;
  std::vector<fold::Applied> folds_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::vector<std::string> symbols_;
  std::optional<run::CpuPlan> cpu_;
  std::optional<run::CudaPlan> cuda_;
  mutable std::mutex mutex_;
  mutable std::vector<run::KnownChoice> choices_;
  mutable std::map<std::string, std::shared_ptr<const Plan>>
      variants_;  // by their difference's key
};

}  // namespace attacca::api
