// `attacca tune --export FILE` and `--import FILE`: choices that move between machines.
#include "fmt/format.h"

#include "cli/commands.hpp"
#include "launch/toolbox.hpp"
#include "run/shared/device_id.hpp"
#include "support/text/json.hpp"
#include "tune/exchange.hpp"

namespace attacca::cli {
namespace {

Result<int> export_to(const TuneArgs& args, const launch::Toolbox& toolbox) {
  ATTACCA_TRY(const tune::Exported made, tune::export_to_file(toolbox, args.export_to));
  const size_t count = made.file.choices.size();
  if (args.json)
    print_json(json::Value::object()
                   .set("file", args.export_to)
                   .set("device", made.file.device)
                   .set("choices", count)
                   .set("left_out", made.left_out));
  else
    fmt::print("exported {} for {} to {}{}\n", count_text(count, "choice", "choices"),
               made.file.device, args.export_to,
               made.left_out == 0 ? ""
                                  : fmt::format("; {} of other devices or tools left out",
                                                count_text(made.left_out, "choice", "choices")));
  return kOk;
}

Result<int> import_from(const TuneArgs& args, const launch::Toolbox& toolbox) {
  ATTACCA_TRY(
      const tune::ImportedFile file,
      tune::import_from_file(toolbox, args.import_from,
                             args.holding ? tune::Importing::Holding : tune::Importing::All));
  const std::string& device = toolbox.device().info().name;
  const tune::Imported& done = file.done;
  json::Value left_out = json::Value::object();
  std::string left_out_text;
  for (const auto& [why, count] : done.left_out) {
    left_out.set(why, count);
    left_out_text += fmt::format(", {} left out: {}", count, why);
  }
  json::Value said = json::Value::object()
                         .set("file", args.import_from)
                         .set("device", device)
                         .set("added", done.added)
                         .set("changed", done.changed)
                         .set("known", done.known)
                         .set("kept", done.kept);
  if (args.holding) said.set("left_out", left_out);
  if (args.json)
    print_json(said);
  else
    fmt::print("imported {} for {} into {}: {} added, {} changed, {} already there{}{}\n",
               count_text(file.choices, "choice", "choices"), device,
               tune::Database::default_path(), done.added, done.changed, done.known,
               done.kept == 0 ? ""
                              : fmt::format(", {} left out: they are of quick tunings, those here "
                                            "are not",
                                            done.kept),
               left_out_text);
  return kOk;
}

Result<int> try_exchange(const TuneArgs& args) {
  ATTACCA_TRY(const run::DeviceId device, run::parse_device(args.device, "--device"));
  if (!device.cuda)
    return fail("choices are of a GPU and its tools", "--device", "use --device cuda");
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(device.ordinal));
  return args.export_to.empty() ? import_from(args, *toolbox) : export_to(args, *toolbox);
}

}  // namespace

int exchange(const TuneArgs& args) {
  return exit_code(try_exchange(args));
}

}  // namespace attacca::cli
