// The passes in their order, and where each one is:
//
//   import   src/import, src/ir/text     a file             -> ir::Graph
//   fold     src/fold                    ir::Graph          -> ir::Graph, of fewer ops; for the CPU
//                                                              equal ops are one before
//   fuse     src/fuse                    ir::Graph          -> fuse::Partition, regions in an
//                                                              order; like products of one input
//                                                              are one
//   plan     run/cpu/plan.cpp            regions            -> executables, weights packed
//            run/cuda/plan.cpp           regions            -> the device opened, constants
//            uploaded
//   run      run/cpu/plan.cpp            inputs             -> outputs, region by region
//            run/cuda/instance.cpp       sizes              -> steps, once for the same sizes:
//              problem/concretize.cpp      a region's sizes -> problem::Problem
//              run/cuda/decide.cpp         Problem          -> launch::Candidate, by the database,
//                                                              measurements or the model's ranking
//              launch/prepare.cpp          Candidate        -> launch::Runnable, kernels loaded
//            CudaInstance::launch        addresses          -> launches on the caller's stream
#include "run/pipeline.hpp"

#include "fold/duplicates.hpp"
#include "fold/quantized/decoded.hpp"
#include "fold/rows/gathers.hpp"
#include "fuse/joining/join.hpp"
#include "import/formats.hpp"
#include "run/cuda/tensors.hpp"
#include "run/shared/input_layout.hpp"
#include "support/check.hpp"

namespace attacca::run {

Result<ir::Graph> load_graph(const std::string& path, const ir::SymbolValues& sizes) {
  return import::format_of(path).read(path, sizes);
}

Result<Prepared> prepare(const ir::Graph& graph, const Target& target,
                         const OutputStrides& strides) {
  ATTACCA_TRY_VOID(ir::verify(graph));
  // On the CPU, equal ops are one, and gathers of gathers are one gather. A GPU's kernels may each
  // compute a cheap op for themselves, and only their grouped products and epilogues read rows by
  // an index (fuse/device_options.hpp).
  const bool merges = target.folds() && !target.device;
  fold::FoldResult merged = merges ? fold::merge_duplicates(fold::compose_gathers(graph).graph)
                                   : fold::FoldResult{graph, {}};
  const fuse::FuseOptions options = target.fuse_options();
  if (!options.codes && !options.grouped_codes) merged = fold::decode_constants(merged.graph);
  fold::FoldResult folded = target.folds() ? fold::fold(merged.graph) : merged;
  fuse::Joined cut{fuse::partition(std::move(folded.graph), options), {}};
  if (target.folds()) cut = fuse::join_products(std::move(cut.partition), options);
  const Status sound = fuse::verify(cut.partition);
  ATTACCA_CHECK(sound.has_value(), to_string(sound.error()));
  folded.applied.insert(folded.applied.end(), cut.applied.begin(), cut.applied.end());
  auto partition = std::make_shared<fuse::Partition>(std::move(cut.partition));
  ATTACCA_TRY_VOID(lay_out_outputs(*partition, strides));
  return Prepared{target, std::move(folded.applied), std::move(partition), std::move(cut.moved)};
}

Result<Compiled> compile(const ir::Graph& graph, const Target& target, Options options) {
  ATTACCA_TRY(Prepared prepared, prepare(graph, target, options.output_strides));
  if (!target.device) {
    ATTACCA_TRY(CpuPlan plan, CpuPlan::make(prepared, std::move(options.cpu)));
    return Compiled{std::move(prepared), std::move(plan)};
  }
  ATTACCA_TRY(CudaPlan plan, CudaPlan::make(prepared, std::move(options.cuda)));
  return Compiled{std::move(prepared), std::move(plan)};
}

namespace {

Result<std::vector<ir::Tensor>> run_on_device(const CudaPlan& plan, const ir::Bindings& inputs) {
  const gpu::Device& device = plan.toolbox()->device();
  const ir::Graph& graph = plan.partition().graph;
  ATTACCA_TRY(const ir::SymbolValues symbols, symbols_of(graph, inputs));
  ATTACCA_TRY(const auto instance, plan.instance(symbols));
  ATTACCA_TRY(const CudaTensors tensors,
              CudaTensors::make(device, graph, symbols, inputs, instance->output_shapes()));
  ATTACCA_TRY(const auto workspace,
              gpu::DeviceMemory::allocate(device, instance->workspace_bytes()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  ATTACCA_TRY_VOID(
      instance->launch(tensors.inputs(), tensors.outputs(), workspace.pointer(), stream.get()));
  return tensors.read_outputs(stream);
}

}  // namespace

Result<std::vector<ir::Tensor>> Compiled::run(const ir::Bindings& inputs) const {
  if (const auto* cpu = std::get_if<CpuPlan>(&plan)) return cpu->run(inputs);
  return run_on_device(std::get<CudaPlan>(plan), inputs);
}

}  // namespace attacca::run
