#include <csignal>
#include <cstdio>
#include <optional>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/explain/explain_cuda.hpp"
#include "cli/job.hpp"
#include "fuse/explain/explain.hpp"
#include "run/pipeline.hpp"
#include "run/shared/device_id.hpp"
#include "support/files/draft_file.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {
namespace {

// Runs Graphviz's dot on the text. The file is complete or not written.
Status draw_svg(const std::string& dot, const std::string& path) {
  ATTACCA_TRY(DraftFile file, DraftFile::create(path));
  if (file.draft().find('\'') != std::string::npos)
    return fail("a quote in the file name", "--svg", "use another name");
  std::signal(SIGPIPE, SIG_IGN);  // if dot is missing, writing to it must not end this process
  std::FILE* pipe = popen(fmt::format("dot -Tsvg -o '{}' 2>/dev/null", file.draft()).c_str(), "w");
  const bool written = pipe && std::fwrite(dot.data(), 1, dot.size(), pipe) == dot.size();
  if (!pipe || pclose(pipe) != 0 || !written)
    return fail(fmt::format("cannot draw {}", path), "--svg",
                "install Debian's graphviz and check that the disk has free space");
  return file.commit();
}

Result<int> try_explain(const ExplainArgs& args) {
  ATTACCA_TRY(Job job, load_job(args.file));
  ATTACCA_TRY(const run::DeviceId id, run::parse_device(args.device, "--device"));
  const ir::Mode mode = *ir::parse_mode(args.mode);
  run::Target target = run::Target::cpu(mode, !args.unfused);
  Result<gpu::DeviceInfo> device;  // the regions are the same for every GPU
  if (id.cuda) {
    device = described_device(args.as, id.ordinal);
    target = run::Target::cuda(device.value_or(gpu::DeviceInfo()), mode, !args.unfused);
  }
  ATTACCA_TRY(const run::Prepared prepared, run::prepare(job.graph, target));
  const fuse::Partition& partition = *prepared.partition;
  if (!args.svg.empty()) {
    ATTACCA_TRY_VOID(draw_svg(fuse::explain_dot(partition), args.svg));
    return kOk;
  }
  if (args.dot) {
    fmt::print("{}", fuse::explain_dot(partition));
    return kOk;
  }
  std::optional<Ranking> ranking;
  if (id.cuda) {
    if (!device) return tl::make_unexpected(std::move(device).error());
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
  const auto code = try_explain(args);
  return code ? *code : report(code.error());
}

}  // namespace attacca::cli
