// `attacca report FILE.json --html OUT`.
#include "fmt/format.h"

#include "api/report_page.hpp"
#include "cli/commands.hpp"
#include "support/files/draft_file.hpp"
#include "support/files/file.hpp"
#include "support/text/escaped.hpp"

namespace attacca::cli {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

Status try_report(const ReportArgs& args) {
  ATTACCA_TRY(const std::string json,
              read_file(args.file, {kMostBytes, "give what one tuning printed"}));
  ATTACCA_TRY(const std::string page, api::report_page(json, escaped(args.file)));
  return write_file(args.html, page);
}

}  // namespace

int report_page(const ReportArgs& args) {
  const Status status = try_report(args);
  if (!status) return report(status.error());
  fmt::print("wrote {}\n", escaped(args.html));
  return kOk;
}

}  // namespace attacca::cli
