// What a graph is compiled for, and the graph prepared for it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fold/fold.hpp"
#include "fuse/fuse.hpp"
#include "fuse/joining/columns.hpp"
#include "gpu/driver/device.hpp"
#include "ir/graph/mode.hpp"
#include "run/shared/device_id.hpp"

namespace attacca::run {

struct Target {
  std::optional<gpu::Device> device;  // a GPU, here or described; none: this machine's CPU
  ir::Mode mode = ir::Mode::Fp32;
  bool fuse = true;  // false: op by op, every intermediate through memory
  // The bits of a row of a product do not depend on how many rows there are (docs/numerics.md).
  bool batch_invariant = false;

  static Target cpu(ir::Mode mode = ir::Mode::Fp32, bool fuse = true) {
    return {.device = std::nullopt, .mode = mode, .fuse = fuse};
  }
  static Target cuda(gpu::Device device, ir::Mode mode = ir::Mode::Fp32, bool fuse = true) {
    return {.device = std::move(device), .mode = mode, .fuse = fuse};
  }
  // `described`: in place of the machine's GPU, for plans that are compiled but not launched.
  // Errors: there is no such GPU.
  static Result<Target> of(const DeviceId& id, ir::Mode mode = ir::Mode::Fp32, bool fuse = true,
                           const std::optional<gpu::DeviceInfo>& described = {});

  // Eager mode promises the graph's own roundings, and the unfused path is the graph as it stands.
  bool folds() const { return fuse && mode != ir::Mode::Eager; }
  // The ops that its kernels can compute together.
  fuse::FuseOptions fuse_options() const;
};

// A GPU that need not be here: "h200", "sm_90". `where`: the argument that the error names.
Result<gpu::DeviceInfo> described_device(const std::string& name, const std::string& where);

// A graph that is folded and cut for a target.
struct Prepared {
  Target target;
  std::vector<fold::Applied> folds;
  std::shared_ptr<const fuse::Partition> partition;  // of the folded graph
  std::vector<fuse::MovedConstant> moved = {};       // from the graph that was prepared

  const ir::Graph& graph() const { return partition->graph; }
};

}  // namespace attacca::run
