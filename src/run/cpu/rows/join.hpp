// Softmax and norms on the CPU: ops of several regions that one kernel computes, row by row.
#pragma once

#include <optional>
#include <vector>

#include "fuse/fuse.hpp"

namespace attacca::run {

enum class RowOp : uint8_t {
  Softmax,     // exp(x - max(x)) / sum(exp(x - max(x)))
  Centre,      // x - mean(x), and the mean of its squares
  MeanSquare,  // the mean of x's squares
};

// Rows are what the reduced axes, the last ones, hold of x. All values are f32.
struct RowGroup {
  RowOp op = RowOp::Softmax;
  ir::Value x;
  std::optional<ir::Value> result;     // of x's shape
  std::optional<ir::Value> statistic;  // one number a row
  size_t reduced_axes = 1;
};

// What the CPU runs: a region as the partition has it or with less in it, or a group of rows.
struct CpuRegion {
  fuse::Region region;  // of a group: its inputs, outputs and nodes alone
  std::optional<RowGroup> rows = {};
  const fuse::Region* origin = nullptr;  // in the partition
};

// In an order in which they can run. REQUIRES: fp32 mode, in which a group need not round what it
// does not store. The partition must outlive what is returned.
std::vector<CpuRegion> join_rows(const fuse::Partition& partition);
// The partition's regions as they are.
std::vector<CpuRegion> keep_regions(const fuse::Partition& partition);

}  // namespace attacca::run
