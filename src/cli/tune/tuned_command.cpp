// `attacca tune --show` and `--forget`: what was measured so far.

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "support/text/escaped.hpp"
#include "support/text/json.hpp"
#include "tune/database.hpp"

namespace attacca::cli {
namespace {

// A problem is several lines.
std::string on_one_line(std::string problem) {
  for (size_t at = 0; (at = problem.find('\n', at)) != std::string::npos; at += 2)
    problem.replace(at, 1, "; ");
  return problem;
}

json::Value to_json(const tune::StoredChoice& row) {
  return json::Value::object()
      .set("device", row.key.device)
      .set("problem", row.key.problem)
      .set("shape", row.key.shape)
      .set("tools", row.key.tools)
      .set("candidate", row.candidate)
      .set("us", row.seconds * 1e6)
      .set("unfused_us", row.unfused_seconds * 1e6)
      .set("made", time_text(row.made))
      .set("quick", row.quick);
}

Result<std::vector<tune::StoredChoice>> rows() {
  // It is not created here.
  if (tune::Database::is_missing()) return std::vector<tune::StoredChoice>();
  ATTACCA_TRY(tune::Database database, tune::Database::open());
  return database.list();
}

Result<int> show(bool as_json) {
  ATTACCA_TRY(const auto all, rows());
  const std::string path = tune::Database::default_path();
  if (as_json) {
    json::Value list = json::Value::array();
    for (const tune::StoredChoice& row : all) list.push(to_json(row));
    print_json(json::Value::object().set("file", path).set("choices", list));
    return kOk;
  }
  for (const tune::StoredChoice& row : all)
    fmt::print("{}, {}: {:.2f} us, unfused {:.2f} us: {}\n    {}{} by {}, of {}\n",
               escaped(row.key.device), escaped(row.key.shape), row.seconds * 1e6,
               row.unfused_seconds * 1e6, escaped(row.candidate), row.quick ? "quick tuning, " : "",
               time_text(row.made), escaped(row.key.tools), escaped(on_one_line(row.key.problem)));
  fmt::print("{} in {}\n", count_text(all.size(), "choice", "choices"), path);
  return kOk;
}

Result<int> forget() {
  int64_t count = 0;
  if (!tune::Database::is_missing()) {
    ATTACCA_TRY(tune::Database database, tune::Database::open());
    ATTACCA_TRY(count, database.clear());
  }
  fmt::print("forgot {} in {}\n", count_text(count, "choice", "choices"),
             tune::Database::default_path());
  return kOk;
}

}  // namespace

int tuned(const TuneArgs& args) {
  return exit_code(args.show ? show(args.json) : forget());
}

}  // namespace attacca::cli
