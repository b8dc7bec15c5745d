#include "tune/exchange.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "fmt/format.h"

#include "launch/candidate.hpp"
#include "launch/user_kernel.hpp"
#include "support/files/draft_file.hpp"
#include "support/files/file.hpp"
#include "support/text/escaped.hpp"

namespace attacca::tune {
namespace {

constexpr const char* kVendor = "cuBLASLt";
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

Machine machine_of(const launch::Toolbox& toolbox) {
  return {toolbox.device().info().name, toolbox.identity(), fingerprints(toolbox.catalog())};
}

// The tools of "attacca 0.2.0, driver 13000" with their versions, in that order.
std::vector<std::pair<std::string, std::string>> parts_of(const std::string& identity) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (size_t begin = 0; begin < identity.size();) {
    const size_t end = std::min(identity.find(", ", begin), identity.size());
    const std::string part = identity.substr(begin, end - begin);
    const size_t space = std::min(part.find(' '), part.size());
    parts.emplace_back(part.substr(0, space), part.substr(std::min(space + 1, part.size())));
    begin = end + 2;
  }
  return parts;
}

FiledChoice filed(const StoredChoice& row, const Machine& machine) {
  const auto candidate = launch::parse_candidate(row.candidate);
  const bool fused = candidate && candidate->kind == launch::CandidateKind::Fused;
  return {row.key.problem, row.key.shape,
          row.candidate,   fused ? machine.fingerprint_of(candidate->kernel) : "",
          row.seconds,     row.unfused_seconds,
          row.made,        row.quick};
}

// Why the file's choices cannot be used here; empty: they can.
std::string mismatch(const ChoicesFile& file, const Machine& machine, Importing which) {
  if (file.device != machine.device)
    return fmt::format("they were measured on {}, this is {}", file.device, machine.device);
  if (which == Importing::Holding) return {};
  if (const std::string differing = differing_tools(file.tools, machine.tools); !differing.empty())
    return fmt::format("they were measured with {}", differing);
  for (const FiledChoice& choice : file.choices) {
    if (choice.kernel.empty()) continue;
    const std::string name = launch::parse_candidate(choice.candidate)->kernel;
    if (machine.fingerprint_of(name) != choice.kernel)
      return fmt::format("the template {} is another one here", name);
  }
  return {};
}

bool equal(const StoredChoice& a, const StoredChoice& b) {
  return std::tie(a.candidate, a.seconds, a.unfused_seconds, a.made, a.quick) ==
         std::tie(b.candidate, b.seconds, b.unfused_seconds, b.made, b.quick);
}

// The default database's choices for the machine, as a file.
Result<Exported> write_database(const Machine& machine, const std::string& path) {
  std::vector<StoredChoice> rows;
  if (!Database::is_missing()) {
    ATTACCA_TRY(Database database, Database::open());
    ATTACCA_TRY(rows, database.list());
  }
  Exported made = export_choices(rows, machine);
  ATTACCA_TRY_VOID(write_file(path, write_choices(made.file)));
  return made;
}

}  // namespace

FingerprintOf fingerprints(const templates::Catalog& catalog) {
  return [&catalog](const std::string& name) {
    const templates::Template* found = catalog.find(name);
    return found == nullptr ? "" : fmt::format("{:016x}", found->fingerprint);
  };
}

std::string misfit(const FiledChoice& choice, const std::string& measured, const std::string& here,
                   const FingerprintOf& fingerprint_of) {
  if (!choice.kernel.empty()) {
    const std::string own = fingerprint_of(launch::parse_candidate(choice.candidate)->kernel);
    if (own == choice.kernel) return {};
    return own.empty() ? "their templates are not built" : "their templates have changed";
  }
  const std::string theirs = tool_version(measured, kVendor), ours = tool_version(here, kVendor);
  if (theirs == ours) return {};
  return fmt::format("measured with {} {} (here {})", kVendor, theirs, ours);
}

Exported export_choices(const std::vector<StoredChoice>& rows, const Machine& machine) {
  Exported made{{machine.device, machine.tools, {}}};
  for (const StoredChoice& row : rows) {
    FiledChoice choice = filed(row, machine);
    if (row.key.device == machine.device && row.key.tools == machine.tools && can_be_filed(choice))
      made.file.choices.push_back(std::move(choice));
    else
      ++made.left_out;
  }
  return made;
}

Result<Imported> import_choices(Database& database, const ChoicesFile& file, const Machine& machine,
                                const std::string& source, Importing which) {
  if (const std::string why = mismatch(file, machine, which); !why.empty())
    return fail(fmt::format("these choices do not hold on this machine: {}", why), source,
                file.device == machine.device
                    ? "tune on this machine, or import with --holding those that hold here"
                    : "tune on this machine, or import a file of one with this device");
  ATTACCA_TRY(const std::vector<StoredChoice> stored, database.list());
  std::map<std::pair<std::string, std::string>, const StoredChoice*> known;
  for (const StoredChoice& row : stored)
    if (row.key.device == machine.device && row.key.tools == machine.tools)
      known.emplace(std::pair(row.key.problem, row.key.shape), &row);
  Imported result;
  std::vector<StoredChoice> rows;
  for (const FiledChoice& choice : file.choices) {
    const std::string why = which == Importing::All
                                ? std::string()
                                : misfit(choice, file.tools, machine.tools, machine.fingerprint_of);
    if (!why.empty()) {
      ++result.left_out[why];
      continue;
    }
    const StoredChoice row{{machine.device, choice.problem, choice.shape, machine.tools},
                           choice.candidate,
                           choice.seconds,
                           choice.unfused_seconds,
                           choice.made,
                           choice.quick};
    const auto old = known.find({choice.problem, choice.shape});
    if (old != known.end() && equal(*old->second, row)) {
      ++result.known;
      continue;
    }
    const bool kept = old != known.end() && row.quick && !old->second->quick;
    ++(old == known.end() ? result.added : kept ? result.kept : result.changed);
    rows.push_back(row);
  }
  ATTACCA_TRY_VOID(database.store_all(rows));
  return result;
}

bool is_sound(const StoredChoice& row) {
  // The fingerprint is the machine's to know; a user's kernel has none.
  const Machine any{row.key.device, row.key.tools, [](const std::string& kernel) {
                      return kernel == launch::kUserKernel ? std::string() : std::string(16, '0');
                    }};
  return !row.key.device.empty() && !row.key.tools.empty() && can_be_filed(filed(row, any));
}

Result<Exported> export_to_file(const launch::Toolbox& toolbox, const std::string& path) {
  return write_database(machine_of(toolbox), path);
}

Result<Exported> export_to_file(const std::string& device, const std::string& tools,
                                const templates::Catalog& catalog, const std::string& path) {
  const std::string here = fmt::format("{:016x}", catalog.fingerprint());
  if (const std::string theirs = tool_version(tools, "templates"); theirs != here)
    return fail(fmt::format("the choices were measured with templates {} (here {})",
                            theirs.empty() ? "none" : theirs, here),
                "tools", "install the same version of Attacca on all machines");
  return write_database({device, tools, fingerprints(catalog)}, path);
}

Result<ImportedFile> import_from_file(const launch::Toolbox& toolbox, const std::string& path,
                                      Importing which) {
  const std::string name = escaped(path);
  ATTACCA_TRY(const std::string text, read_file(path, {kMostBytes, "export fewer choices"}));
  ATTACCA_TRY(const ChoicesFile file, read_choices(text, name));
  ATTACCA_TRY(Database database, Database::open());
  ATTACCA_TRY(const Imported done,
              import_choices(database, file, machine_of(toolbox), name, which));
  return ImportedFile{file.choices.size(), done};
}

std::string differing_tools(const std::string& measured, const std::string& here) {
  if (measured == here) return {};
  const auto theirs = parts_of(measured);
  std::vector<std::string> differing;
  for (const auto& [tool, version] : theirs)
    if (const std::string own = tool_version(here, tool); own != version)
      differing.push_back(
          fmt::format("{} {} (here {})", tool, version, own.empty() ? "none" : own));
  return differing.empty() ? measured : fmt::format("{}", fmt::join(differing, ", "));
}

std::string tool_version(const std::string& identity, const std::string& tool) {
  for (const auto& [name, version] : parts_of(identity))
    if (name == tool) return version;
  return {};
}

}  // namespace attacca::tune
