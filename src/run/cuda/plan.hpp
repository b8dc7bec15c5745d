// A graph compiled for one GPU: fold, cut into regions, then for every shape that comes the fastest
// known way to compute each region, its kernels loaded, its buffers laid out in one workspace.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuse/fuse.hpp"
#include "ir/graph/mode.hpp"
#include "ir/interpret/interpreter.hpp"
#include "tune/candidates.hpp"
#include "tune/tuner.hpp"

namespace attacca::run {

// What to do for a region and shape of which nothing is known yet.
enum class Tuning : uint8_t {
  Known,    // take the tuning database's choice, else the model's
  Measure,  // take the database's choice, else measure and store it, else the model's
  Always,   // measure and store
  Model,    // the model's choice, whatever is known
};

// What was found best elsewhere, such as by the process that saved a plan.
struct KnownChoice {
  tune::ChoiceKey key;
  tune::Choice choice;
};

struct CudaOptions {
  ir::Mode mode = ir::Mode::Fp32;
  bool fuse = true;  // false: op by op
  int device = 0;
  Tuning tuning = Tuning::Known;
  bool unfused = false;  // every region by its unfused path
  tune::TuneOptions tune_options = {};
  std::vector<KnownChoice> choices = {};  // asked before the tuning database
  // Of the graph's outputs, in order, where they are not row-major.
  std::vector<std::optional<std::vector<ir::Dim>>> output_strides = {};
};

// How one region is computed.
struct Decision {
  std::shared_ptr<const fuse::Region> region;  // keeps the plan's partition, which it is part of
  launch::Candidate candidate;
  std::string source;                       // "measured", "plan", "database", "model", "only way"
  tune::ChoiceKey key;                      // what it is known by
  double seconds = 0, unfused_seconds = 0;  // where measured, else 0
  double expected_seconds = 0;              // where the model chose, else 0
  std::vector<tune::Trial> trials;          // where measured now
  std::vector<launch::Exclusion> excluded;
  std::string not_stored;  // measured, but the database did not take it: why
};

// A plan for certain values of the symbols and alignments of the operands. Immutable.
class CudaInstance {
 public:
  ~CudaInstance();
  // Device memory that a launch needs, aligned to 256 bytes.
  size_t workspace_bytes() const;
  // Of the graph's outputs, dense.
  const std::vector<std::vector<int64_t>>& output_shapes() const;
  const std::vector<Decision>& decisions() const;

  // Device addresses of the graph's inputs and outputs, in the graph's order, laid out as it
  // declares. Puts everything on the stream (a CUstream); allocates nothing, waits for nothing.
  // Launches at the same time need workspaces of their own. Errors: an address less aligned than
  // the instance was made for.
  Status launch(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace,
                void* stream) const;

  struct Impl;
  explicit CudaInstance(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Immutable once compiled, thread-safe.
class CudaPlan {
 public:
  // `graph`: folded already. Errors: no CUDA device or library (with what to install), an op
  // without a kernel.
  static Result<CudaPlan> compile(const ir::Graph& graph, CudaOptions options = {});
  CudaPlan(CudaPlan&&) noexcept;
  CudaPlan& operator=(CudaPlan&&) noexcept;
  ~CudaPlan();

  // `alignments`: bytes, one an input, then one an output; empty: 16 each. Made once for equal
  // arguments; the first time kernels may be compiled, and timed where the options say so.
  Result<std::shared_ptr<const CudaInstance>> instance(
      const ir::SymbolValues& symbols, const std::vector<int>& alignments = {}) const;

  // With tensors in host memory, for programs that have no device memory of their own.
  Result<std::vector<ir::Tensor>> run(const ir::Bindings& inputs) const;

  const fuse::Partition& partition() const;
  const std::shared_ptr<launch::Toolbox>& toolbox() const;

  struct Impl;

 private:
  explicit CudaPlan(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace attacca::run
