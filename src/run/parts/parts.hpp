// One launch that computes a plan once for each part of its rows. A part starts when its input rows
// have arrived from another GPU.
#pragma once

#include <memory>
#include <span>

#include "launch/together.hpp"
#include "run/cuda/plan.hpp"

namespace attacca::run {

// A plan for certain sizes and a number of parts. Immutable.
class CudaParts {
 public:
  ~CudaParts();
  size_t count() const;  // of the parts
  const launch::Candidate& candidate() const;
  // Whether an input may have no address in some parts, which then see zeros: the kernel loads it
  // in a slot of its epilogue, and nothing else reads it.
  bool may_be_absent(size_t input) const;

  // Device addresses of the graph's inputs and outputs, first those of the first part; parts may
  // share inputs. `signals`: one for each part, whose operands are read and written only when its
  // word is the value. Puts the launch on the stream and waits for nothing. Blocks of earlier parts
  // start earlier; all of them may fill the device, so that what writes the words must need no
  // multiprocessor. Errors: an address is less aligned than the parts were made for.
  Status launch(std::span<void* const> inputs, std::span<void* const> outputs,
                std::span<const ptx::Signals> signals, void* stream) const;

  struct Impl;
  explicit CudaParts(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// `symbols`, `alignments`: those of each part, as CudaPlan::instance takes them. The cost model
// chooses the kernel, or the fastest of those that it ranks first is measured now, if the plan is
// to be measured. Errors: a plan of more than one product or gate with what follows it, too many
// parts; no template computes several such products in one launch.
Result<std::shared_ptr<const CudaParts>> make_parts(const CudaPlan& plan,
                                                    const ir::SymbolValues& symbols,
                                                    const std::vector<int>& alignments,
                                                    size_t parts);

}  // namespace attacca::run
