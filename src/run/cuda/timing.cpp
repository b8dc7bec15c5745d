#include "run/cuda/timing.hpp"

#include <algorithm>

#include "run/cuda/tensors.hpp"
#include "run/shared/input_layout.hpp"
#include "tune/measure.hpp"

namespace attacca::run {
namespace {

constexpr size_t kMostSets = 8;

Result<std::vector<CudaTensors>> copies_beyond_cache(const CudaPlan& plan,
                                                     const ir::SymbolValues& symbols,
                                                     const ir::Bindings& inputs,
                                                     const CudaInstance& instance) {
  const gpu::Device& device = plan.toolbox()->device();
  const auto cache = static_cast<size_t>(device.info().l2_bytes);
  std::vector<CudaTensors> copies;
  for (size_t wanted = 1; copies.size() < wanted;) {
    ATTACCA_TRY(auto made, CudaTensors::make(device, plan.partition().graph, symbols, inputs,
                                             instance.output_shapes()));
    copies.push_back(std::move(made));
    const size_t bytes = std::max<size_t>(copies[0].bytes(), 1);
    wanted = std::clamp<size_t>(2 * cache / bytes + 1, 1, kMostSets);
  }
  return copies;
}

}  // namespace

Result<std::vector<std::vector<double>>> time_instances(
    const CudaPlan& plan, const ir::Bindings& inputs,
    const std::vector<std::shared_ptr<const CudaInstance>>& instances, int rounds) {
  ATTACCA_TRY(const ir::SymbolValues symbols, symbols_of(plan.partition().graph, inputs));
  ATTACCA_TRY(const auto copies, copies_beyond_cache(plan, symbols, inputs, *instances.front()));
  std::vector<tune::Timed> timed;
  for (const auto& instance : instances) {
    const auto launch = [&](size_t set, void* workspace, gpu::StreamHandle stream) {
      return instance->launch(copies[set].inputs(), copies[set].outputs(), workspace, stream);
    };
    ATTACCA_TRY(auto one, tune::Timed::make(plan.toolbox(),
                                            {launch, copies.size(), instance->workspace_bytes()}));
    timed.push_back(std::move(one));
  }
  return tune::times_in_turns(timed, rounds, tune::Pace::Rested);
}

Result<std::vector<std::vector<RegionTime>>> time_regions(const CudaPlan& plan,
                                                          const ir::Bindings& inputs,
                                                          const CudaInstance& instance,
                                                          int rounds) {
  const gpu::Device& device = plan.toolbox()->device();
  const ir::Graph& graph = plan.partition().graph;
  ATTACCA_TRY(const ir::SymbolValues symbols, symbols_of(graph, inputs));
  ATTACCA_TRY(const auto tensors,
              CudaTensors::make(device, graph, symbols, inputs, instance.output_shapes()));
  ATTACCA_TRY(const auto workspace,
              gpu::DeviceMemory::allocate(device, instance.workspace_bytes()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  std::vector<std::vector<RegionTime>> all;
  for (int round = 0; round <= rounds; ++round) {
    ATTACCA_TRY(auto times, instance.time_regions(tensors.inputs(), tensors.outputs(),
                                                  workspace.pointer(), stream.get()));
    if (round > 0) all.push_back(std::move(times));
  }
  return all;
}

}  // namespace attacca::run
