#include <algorithm>
#include <filesystem>
#include <span>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "fold/fold.hpp"
#include "import/formats.hpp"
#include "ir/text/dtype_named.hpp"
#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace attacca::cli {
namespace {

struct Subject {
  ir::Graph graph;
  bool is_file;
};

Result<Subject> read_subject(const FoldArgs& args) {
  const std::span<const import::Format> formats = import::formats();
  const bool named_as_file = std::any_of(
      formats.begin(), formats.end(),
      [&](const import::Format& format) { return args.subject.ends_with(format.ending); });
  std::error_code error;
  if (named_as_file || std::filesystem::is_regular_file(args.subject, error)) {
    ATTACCA_TRY(ir::Graph graph, run::load_graph(args.subject));
    return Subject{std::move(graph), true};
  }
  ATTACCA_TRY(const ir::DType dtype, ir::dtype_named(args.dtype, "--dtype"));
  ATTACCA_TRY(ir::Graph graph, ir::parse_expression(args.subject, {dtype, {ir::Dim::symbol("N")}}));
  return Subject{std::move(graph), false};
}

void print_folded(const fold::FoldResult& result, bool is_file) {
  if (is_file)
    fmt::print("{}", ir::print_graph(result.graph, {.max_constant_elements = 16}));
  else
    fmt::print("{}\n", ir::print_expression(result.graph, result.graph.outputs()[0].value, true));
}

Result<int> try_fold(const FoldArgs& args) {
  ATTACCA_TRY(const Subject subject, read_subject(args));
  if (!args.why_not.empty()) {
    ATTACCA_TRY(const std::string reason, fold::why_not(subject.graph, args.why_not));
    fmt::print("{}\n", reason);
    return kOk;
  }
  const fold::FoldResult result = fold::fold(subject.graph);
  print_folded(result, subject.is_file);
  if (args.explain) {
    if (result.applied.empty()) fmt::print("  no rule applies\n");
    for (const fold::Applied& applied : result.applied)
      fmt::print("  {}: {}\n", applied.rule, applied.result);
  }
  return kOk;
}

}  // namespace

int fold(const FoldArgs& args) {
  return exit_code(try_fold(args));
}

}  // namespace attacca::cli
