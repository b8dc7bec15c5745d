#include "fmt/format.h"

#include "api/plan_file.hpp"
#include "cli/commands.hpp"
#include "cli/explain/decisions.hpp"
#include "cli/job.hpp"
#include "cli/target.hpp"

namespace attacca::cli {
namespace {

// Every symbol needs a size: the given sizes decide which kernels the bundle gets.
Status check_dims(const Job& job, const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto given, parse_pairs(texts, "--dim"));
  for (const std::string& symbol : job.graph.symbols())
    if (!given.contains(symbol))
      return fail(fmt::format("dimension {} has no size", symbol), "--dim",
                  fmt::format("give those that will be run, such as --dim {}=1,16,256", symbol));
  return {};
}

Result<api::Options> options_of(const BundleArgs& args) {
  api::Options options;
  ATTACCA_TRY(const run::Target target, target_of(args.device, args.mode, true, args.as));
  if (!target.device)
    return fail("a bundle holds a GPU's kernels", "--device", "use --device cuda");
  const gpu::DeviceInfo& device = target.device->info();
  options.device = {true, device.ordinal};
  if (!args.as.empty()) options.described = device;
  options.mode = target.mode;
  options.batch_invariant = args.batch_invariant;
  if (args.tune) options.tuning = run::Tuning::Measure;
  return options;
}

struct Made {
  ir::SymbolValues sizes;
  std::shared_ptr<const api::Instance> instance;
};

void print_text(const BundleArgs& args, const api::Plan& plan, const std::vector<Made>& made,
                const run::Bundle& bundle) {
  size_t bytes = 0;
  for (const auto& [key, kernel] : bundle.kernels.kernels) bytes += kernel.image->size();
  for (const Made& each : made)
    fmt::print("{}{}\n", sizes_text(each.sizes),
               decisions_text(each.instance->decisions(), plan.partition()));
  fmt::print("{}: {} kernels of {} KiB for {}, compute capability {}.{}\n", args.output,
             bundle.kernels.kernels.size(), (bytes + 1023) / 1024, bundle.kernels.device,
             bundle.kernels.capability / 10, bundle.kernels.capability % 10);
}

json::Value to_json(const BundleArgs& args, const api::Plan& plan, const std::vector<Made>& made,
                    const run::Bundle& bundle) {
  json::Value sizes = json::Value::array(), kernels = json::Value::array();
  for (const Made& each : made)
    sizes.push(json::Value::object()
                   .set("dims", dims_json(each.sizes))
                   .set("decisions", decisions_json(each.instance->decisions(), plan.partition())));
  for (const auto& [key, kernel] : bundle.kernels.kernels)
    kernels.push(json::Value::object()
                     .set("entry", kernel.entry)
                     .set("bytes", static_cast<int64_t>(kernel.image->size())));
  return json::Value::object()
      .set("file", args.output)
      .set("device", bundle.kernels.device)
      .set("capability", int64_t{bundle.kernels.capability})
      .set("sizes", std::move(sizes))
      .set("kernels", std::move(kernels));
}

Result<int> try_bundle(const BundleArgs& args) {
  ATTACCA_TRY(const Job job, load_job(args.file, args.dims));
  ATTACCA_TRY_VOID(check_dims(job, args.dims));
  ATTACCA_TRY(const api::Options options, options_of(args));
  ATTACCA_TRY(const auto sizes, sizes_of(job, args.dims));
  ATTACCA_TRY(const auto plan, api::Plan::compile(job.graph, options));
  std::vector<Made> made;
  for (const ir::SymbolValues& each : sizes) {
    ATTACCA_TRY(auto instance, plan->prepare(each, {}));
    made.push_back({each, std::move(instance)});
  }
  ATTACCA_TRY(const run::Bundle bundle, plan->bundle());
  ATTACCA_TRY_VOID(api::save_plan(*plan, args.output, api::Kernels::With));
  if (args.json)
    print_json(to_json(args, *plan, made, bundle));
  else
    print_text(args, *plan, made, bundle);
  return kOk;
}

}  // namespace

int bundle(const BundleArgs& args) {
  return exit_code(try_bundle(args));
}

}  // namespace attacca::cli
