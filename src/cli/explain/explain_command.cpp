#include <optional>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/explain/explain_cuda.hpp"
#include "cli/explain/page.hpp"
#include "cli/job.hpp"
#include "cli/target.hpp"
#include "fuse/explain/explain.hpp"
#include "run/pipeline.hpp"
#include "support/files/draft_file.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {
namespace {

// The regions are the same for every GPU: to draw them, none need be there.
Result<run::Target> explained_target(const ExplainArgs& args) {
  const bool fuse = !args.unfused, draws = args.dot || !args.svg.empty() || !args.html.empty();
  if (!draws) return target_of(args.device, args.mode, fuse, args.as);
  ATTACCA_TRY(const run::DeviceId id, run::parse_device(args.device, "--device"));
  return run::Target::of(id, *ir::parse_mode(args.mode), fuse, gpu::DeviceInfo());
}

Result<int> try_explain(const ExplainArgs& args) {
  ATTACCA_TRY(Job job, load_job(args.file, args.dims));
  ATTACCA_TRY(run::Target target, explained_target(args));
  target.batch_invariant = args.batch_invariant;
  ATTACCA_TRY(const run::Prepared prepared, run::prepare(job.graph, target));
  const fuse::Partition& partition = *prepared.partition;
  if (!args.svg.empty()) {
    ATTACCA_TRY(const std::string svg, drawn(fuse::explain_dot(partition), "--svg"));
    ATTACCA_TRY_VOID(write_file(args.svg, svg));
  }
  if (!args.html.empty()) {
    ATTACCA_TRY(const std::string page, explanation_page(partition));
    ATTACCA_TRY_VOID(write_file(args.html, page));
  }
  if (!args.svg.empty() || !args.html.empty()) return kOk;
  if (args.dot) {
    fmt::print("{}", fuse::explain_dot(partition));
    return kOk;
  }
  std::optional<Ranking> ranking;
  if (target.device) {
    ATTACCA_TRY(ranking, rank(std::move(job), prepared, args));
  }
  if (args.json) {
    json::Value root = fuse::explain_json(partition);
    if (ranking) root.set("candidates", to_json(*ranking));
    print_json(std::move(root));
    return kOk;
  }
  for (const fold::Applied& applied : prepared.folds)
    fmt::print("folded {}: {}\n", applied.rule, applied.result);
  fmt::print("{}", fuse::explain_text(partition));
  if (ranking) fmt::print("{}", to_text(*ranking));
  return kOk;
}

}  // namespace

int explain(const ExplainArgs& args) {
  return exit_code(try_explain(args));
}

}  // namespace attacca::cli
