// Where a launch finds the values of a graph.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/driver/device.hpp"
#include "ir/graph/graph.hpp"

namespace attacca::run {

// A value's place during a launch: the caller's memory, the plan's constants or the workspace.
struct Place {
  enum class Kind : uint8_t { None, Input, Output, Constant, Workspace };
  Kind kind = Kind::None;
  size_t index = 0;  // Input, Output: which of the graph's. Constant, Workspace: the offset
};

// Addresses of one launch.
struct Bases {
  std::span<void*const> inputs, outputs;
  char* constants = nullptr;
  char* workspace = nullptr;

  void* at(const Place& place) const;
};

// The places of a graph's inputs, outputs and constants, which are the same for all sizes.
class FixedPlaces {
 public:
  // Copies the constants to the device, if it is here, and waits for that. Errors: packed weights
  // that are not what their unpack op says, too little device memory. REQUIRES: the graph outlives
  // this.
  static Result<FixedPlaces> make(const gpu::Device& device, const ir::Graph& graph);

  // Place::Kind::None: an intermediate value.
  Place of(ir::Value value) const;
  // Null where the graph has none.
  const std::shared_ptr<const gpu::DeviceMemory>& constants() const { return constants_; }

 private:
  explicit FixedPlaces(const ir::Graph& graph);
  Status upload_constants(const gpu::Device& device);

  const ir::Graph* graph_;
  std::shared_ptr<const gpu::DeviceMemory> constants_;
  std::vector<std::optional<size_t>> constant_at_;  // by value id
  std::vector<int> output_of_;                      // by value id: the first output it is, or -1
};

}  // namespace attacca::run
