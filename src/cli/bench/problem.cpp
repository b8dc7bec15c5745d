#include "cli/bench/problem.hpp"

#include "fmt/format.h"

#include "ir/graph/product_dtype.hpp"
#include "ir/text/dtype_named.hpp"
#include "launch/fused.hpp"
#include "launch/legality.hpp"
#include "run/gemm_graph.hpp"
#include "run/pipeline.hpp"

namespace attacca::cli {
namespace {

Result<run::GemmForm> form_of(const BenchGemmArgs& args) {
  run::GemmForm form;
  ATTACCA_TRY(form.input, ir::dtype_named(args.dtype, "--dtype"));
  ATTACCA_TRY_VOID(run::set_product(form));
  ir::DType output = ir::default_result(form.input);
  if (!args.output.empty()) {
    ATTACCA_TRY(output, ir::dtype_named(args.output, "--out"));
  }
  form.fast = args.fast;
  ATTACCA_TRY_VOID(run::set_layout(form, args.b));
  form.epilogue = args.epilogue;
  form.text.results = {output};
  return form;
}

}  // namespace

Result<int> bench_gpu(const BenchGemmArgs& args) {
  const bool is_number = args.device.find_first_not_of("0123456789") == std::string::npos;
  ATTACCA_TRY(const run::DeviceId id,
              run::parse_device(is_number ? "cuda:" + args.device : args.device, "--device"));
  if (!id.cuda) return fail("kernels are timed on a GPU", "--device", "use --device cuda");
  return id.ordinal;
}

Result<ir::Graph> bench_graph(const BenchGemmArgs& args) {
  ATTACCA_TRY(const run::GemmForm form, form_of(args));
  return run::gemm_graph(form);
}

Result<problem::ProblemText> bench_problem(const BenchGemmArgs& args) {
  ATTACCA_TRY(const ir::Graph graph, bench_graph(args));
  const ir::Mode mode = *ir::parse_mode(args.mode);
  const auto any = run::Target::cuda(gpu::Device::described({}), mode);  // the regions are the same
  ATTACCA_TRY(const run::Prepared prepared, run::prepare(graph, any));
  const fuse::Partition& partition = *prepared.partition;
  if (partition.regions.size() != 1)
    return fail(fmt::format("the epilogue makes {} regions: {}", partition.regions.size(),
                            partition.refusals.empty() ? "" : partition.refusals[0].reason),
                "--epilogue", "see `attacca explain`");
  return problem::write_problem(partition.graph, partition.regions[0], bench_sizes(args), mode,
                                [](ir::Value) { return 16; });
}

ir::SymbolValues bench_sizes(const BenchGemmArgs& args) {
  return {{"M", args.m}, {"N", args.n}, {"K", args.k}};
}

Result<Placed> place_in(const templates::Catalog& catalog, const std::string& kernel,
                        const BenchGemmArgs& args, const gpu::DeviceInfo* device) {
  Placed placed;
  placed.kernel = catalog.find(kernel);
  if (placed.kernel == nullptr)
    return fail(fmt::format("no template {}", kernel), "--template",
                "build them with `make gpu`, or set ATTACCA_TEMPLATE_DIR");
  gpu::DeviceInfo suitable;
  suitable.major = placed.kernel->min_capability / 10;
  suitable.minor = placed.kernel->min_capability % 10;
  suitable.max_shared_bytes = placed.kernel->shared_bytes;
  suitable.sm_count = 1;
  ATTACCA_TRY(const problem::ProblemText text, bench_problem(args));
  ATTACCA_TRY(placed.problem, problem::read_problem(text));
  auto legal = launch::legality(placed.problem, *placed.kernel, device ? *device : suitable);
  if (const auto* reason = std::get_if<std::string>(&legal))
    return fail(*reason, kernel, "choose another template or epilogue");
  placed.candidate = {.kind = launch::CandidateKind::Fused,
                      .kernel = kernel,
                      .binding = std::get<0>(std::move(legal))};
  placed.request = launch::kernel_request(placed.problem, *placed.kernel, *placed.candidate.binding,
                                          device ? device->capability() : 0);
  return placed;
}

std::vector<std::string> template_names(const templates::Catalog& catalog,
                                        const std::vector<std::string>& asked) {
  if (!asked.empty()) return asked;
  std::vector<std::string> names;
  for (const templates::Template& kernel : catalog.templates())
    if (kernel.family == templates::Family::Gemm && kernel.hole.accumulators == 1)
      names.push_back(kernel.name);
  return names;
}

}  // namespace attacca::cli
