// The command line: usage is declared here, in the one file that includes CLI11.
#include <functional>

#include "CLI/CLI.hpp"
#include "cli/commands.hpp"
#include "cli/version.hpp"

namespace attacca::cli {
namespace {

// Subcommands set the action that main carries out once parsing has succeeded.
using Action = std::function<int()>;

void add_run(CLI::App& app, RunArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Fuse a model and run it");
  command->add_option("file", args.file, "A .onnx model or a graph in the text form")->required();
  command->add_option("--device", args.device, "Where to run")->check(CLI::IsMember({"cpu"}));
  command->add_option("--mode", args.mode, "The numerics contract: fp32 or eager")
      ->check(CLI::IsMember({"fp32", "eager"}));
  command->add_option("--dim", args.dims, "The size of a symbolic dimension, e.g. M=128");
  command->add_option("--seed", args.seed, "Seed of the random numbers for inputs not given");
  command->add_option("--input", args.inputs, "An input's data, e.g. x=x.npy");
  command->add_option("--output", args.output, "Write the results as .npy files to this folder");
  command->add_option("--threads", args.threads, "Worker threads; 0: one a core")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--check", args.check, "Compare with an f64 reference; exit 3 if it fails");
  command->add_flag("--json", args.json, "Print for programs");
  command->callback([&args, &action] { action = [&args] { return run(args); }; });
}

void add_fold(CLI::App& app, FoldArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("fold", "Recover activations from decomposed forms");
  command->add_option("expression", args.subject, "e.g. 'x / (1 + exp(-x))', or a model file")
      ->required();
  command->add_option("--dtype", args.dtype, "The dtype of the expression's names");
  command->add_flag("--explain", args.explain, "Name the rules applied");
  command->add_option("--why-not", args.why_not, "Say where the match of this op fails");
  command->callback([&args, &action] { action = [&args] { return fold(args); }; });
}

void add_explain(CLI::App& app, ExplainArgs& args, Action& action) {
  CLI::App* command = app.add_subcommand("explain", "Show regions, epilogues and every refusal");
  command->add_option("file", args.file, "A .onnx model or a graph in the text form")->required();
  command->add_option("--mode", args.mode, "The numerics contract: fp32 or eager")
      ->check(CLI::IsMember({"fp32", "eager"}));
  command->add_flag("--unfused", args.unfused, "Show the op-by-op path instead");
  command->add_flag("--json", args.json, "Print for programs");
  command->add_flag("--dot", args.dot, "Print a Graphviz graph");
  command->add_option("--svg", args.svg, "Draw to this file (needs dot)");
  command->callback([&args, &action] { action = [&args] { return explain(args); }; });
}

int main(int argc, char** argv) {
  CLI::App app("Attacca: fuses what follows a matrix multiplication into it", "attacca");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  RunArgs run_args;
  FoldArgs fold_args;
  ExplainArgs explain_args;
  Action action;
  add_run(app, run_args, action);
  add_fold(app, fold_args, action);
  add_explain(app, explain_args, action);
  app.add_subcommand("version", "Print the version")->callback([&] { action = version; });
  app.add_subcommand("doctor", "Show the CPU, the libraries and the cache's place")->callback([&] {
    action = doctor;
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadInput;
  }
  return action();
}

}  // namespace
}  // namespace attacca::cli

int main(int argc, char** argv) {
  return attacca::cli::main(argc, argv);
}
