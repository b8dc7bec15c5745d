#include <ctime>

#include "fmt/chrono.h"
#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/version.hpp"
#include "support/text/standard_error.hpp"
#include "support/warnings.hpp"

namespace attacca::cli {

int report(const Error& error) {
  print_to_stderr(to_string(error));
  return kBadInput;
}

int exit_code(const Result<int>& code) {
  return code ? *code : report(code.error());
}

namespace {

bool warnings_are_printed = false;

}  // namespace

void report_warnings() {
  if (warnings_are_printed) return;
  for (const Error& warning : warnings())
    print_to_stderr(fmt::format("warning: {}\n  at: {}\n  fix: {}\n", warning.what, warning.where,
                                warning.fix));
}

void print_json(json::Value object, int indent) {
  json::Value list = json::Value::array();
  for (const Error& warning : warnings())
    list.push(json::Value::object()
                  .set("what", warning.what)
                  .set("where", warning.where)
                  .set("fix", warning.fix));
  if (!warnings().empty()) object.set("warnings", std::move(list));
  warnings_are_printed = true;
  fmt::print("{}\n", json::dump(object, indent));
}

std::string count_text(size_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string time_text(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  // A damaged file may hold a time that no calendar has.
  if (localtime_r(&time, &parts) == nullptr) return fmt::format("{} s after 1970", seconds);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& texts,
                                                       const std::string& option) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      return fail(fmt::format("{} is no NAME=VALUE", text), option,
                  fmt::format("write {} NAME=VALUE", option));
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      return fail(fmt::format("{} is given twice", text.substr(0, equals)), option, "give it once");
  }
  return pairs;
}

int version() {
  fmt::print("attacca {}\n", kVersion);
  return kOk;
}

}  // namespace attacca::cli
