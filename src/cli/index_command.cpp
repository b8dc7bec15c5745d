#include "fmt/format.h"

#include "cli/commands.hpp"
#include "templates/catalog.hpp"

namespace attacca::cli {

int index(const std::string& folder) {
  const std::string named = folder.empty() ? templates::Catalog::default_directory() : folder;
  if (const Status written = templates::Catalog::write_index(named); !written)
    return report(written.error());
  fmt::print("indexed {}\n", named);
  return kOk;
}

}  // namespace attacca::cli
