// Moving the database's choices to other machines of the same kind.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "launch/toolbox.hpp"
#include "templates/catalog.hpp"
#include "tune/choices_file.hpp"
#include "tune/database.hpp"

namespace attacca::tune {

// From a template's name to its fingerprint as files have it. Empty: the template is not built.
using FingerprintOf = std::function<std::string(const std::string& name)>;
FingerprintOf fingerprints(const templates::Catalog& catalog);  // which is referred to

// What choices say of the machine they hold for.
struct Machine {
  std::string device;  // of ChoiceKey
  std::string tools;   // Toolbox::identity()
  FingerprintOf fingerprint_of;
};

struct Exported {
  ChoicesFile file;
  size_t left_out = 0;  // measured on other devices or with other tools
};
Exported export_choices(const std::vector<StoredChoice>& rows, const Machine& machine);

// Why a choice of a file does not hold on a machine of the same device; empty: it does. The
// versions of Attacca and of the driver may differ: a fused choice holds if its template is the one
// that was measured, an unfused one with the same cuBLASLt. `measured` and `here`:
// Toolbox::identity().
std::string misfit(const FiledChoice& choice, const std::string& measured, const std::string& here,
                   const FingerprintOf& fingerprint_of);

// known: equal to what the database had; kept: of a quick tuning, while what the database had is
// not; left_out: by why they do not hold.
struct Imported {
  size_t added = 0, changed = 0, known = 0, kept = 0;
  std::map<std::string, size_t> left_out = {};
};
enum class Importing {
  All,      // or none: a file of other tools or templates is an error
  Holding,  // those without a misfit()
};
// They replace those of the database, but for those that it keeps.
// Errors: a file of another device; the database's.
Result<Imported> import_choices(Database& database, const ChoicesFile& file, const Machine& machine,
                                const std::string& source, Importing which = Importing::All);

// Whether a tuning could have made the row.
bool is_sound(const StoredChoice& row);

// The same between the default database and a file, for this device and its tools.
Result<Exported> export_to_file(const launch::Toolbox& toolbox, const std::string& path);
// For a machine that need not be here. Errors: it has other templates than the catalog.
Result<Exported> export_to_file(const std::string& device, const std::string& tools,
                                const templates::Catalog& catalog, const std::string& path);
struct ImportedFile {
  size_t choices = 0;
  Imported done;
};
Result<ImportedFile> import_from_file(const launch::Toolbox& toolbox, const std::string& path,
                                      Importing which = Importing::All);

// The parts of `measured` that differ from those of `here`, both Toolbox::identity(): "driver 12080
// (here 13000)".
std::string differing_tools(const std::string& measured, const std::string& here);
// The version of one tool in an identity: "130100" for "cuBLASLt".
std::string tool_version(const std::string& identity, const std::string& tool);

}  // namespace attacca::tune
