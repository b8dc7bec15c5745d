#include "templates/catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>

#include "fmt/format.h"

#include "support/file.hpp"
#include "templates/metadata.hpp"

namespace attacca::templates {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libattacca_templates.so";
constexpr const char* kMend =
    "build the templates (make gpu), or name their directory in ATTACCA_TEMPLATE_DIR";

using Builders = std::map<std::string_view, const attacca_template_entry*>;

// Where the code of this function was loaded from: the library, or the program that it is part of.
std::string own_path() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_path), &info) == 0 || !info.dli_fname) return {};
  std::error_code ignored;
  const fs::path path = fs::canonical(info.dli_fname, ignored);
  return path.string();
}

Result<std::shared_ptr<void>> open_library(const std::string& path) {
  // RTLD_NOW: what is missing shows here. RTLD_LOCAL: its symbols meet nobody else's.
  // RTLD_NODELETE: its C++ runtime keeps memory that unloading would leak.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return fail(fmt::format("cannot open the templates' builders: {}", dlerror()), path, kMend);
  return std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

Result<Builders> open_builders(void* library, void* encode_tiled, const std::string& path) {
  const auto open =
      reinterpret_cast<decltype(&attacca_templates_open)>(dlsym(library, "attacca_templates_open"));
  if (!open) return fail("not a library of template builders", path, kMend);
  int32_t count = 0;
  const attacca_template_entry* entries = open(ATTACCA_ABI_VERSION, encode_tiled, &count);
  if (!entries)
    return fail(fmt::format("the templates were built for another version than {} of the builders' "
                            "interface",
                            ATTACCA_ABI_VERSION),
                path, "build the templates again with this version of Attacca: make gpu");
  Builders builders;
  for (int32_t i = 0; i < count; ++i) builders.emplace(entries[i].name, &entries[i]);
  return builders;
}

Result<std::vector<fs::path>> metadata_files(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  if (error) return fail(fmt::format("no kernel templates: {}", error.message()), directory, kMend);
  if (files.empty()) return fail("no kernel templates: no metadata (*.json)", directory, kMend);
  std::sort(files.begin(), files.end());
  return files;
}

Result<Template> read_template(const fs::path& metadata, const Builders& builders) {
  ATTACCA_TRY(const std::string text, read_file(metadata.string()));
  ATTACCA_TRY(Template kernel, parse_metadata(text, metadata.string()));
  const auto builder = builders.find(kernel.name);
  if (builder == builders.end())
    return fail(fmt::format("template {} has no builder in {}", kernel.name, kLibrary),
                metadata.string(), kMend);
  kernel.builder = builder->second;
  fs::path ptx = metadata;
  kernel.path = ptx.replace_extension(".ptx").string();
  if (!fs::exists(kernel.path))
    return fail(fmt::format("template {} has no PTX", kernel.name), kernel.path, kMend);
  return kernel;
}

}  // namespace

std::string Catalog::default_directory() {
  if (const char* named = std::getenv("ATTACCA_TEMPLATE_DIR"); named && *named) return named;
  const fs::path installed =
      fs::path(own_path()).parent_path().parent_path() / "share" / "attacca" / "templates";
  std::error_code ignored;
  if (fs::exists(installed / kLibrary, ignored)) return installed.string();
  return ATTACCA_BUILD_TEMPLATES;
}

Result<Catalog> Catalog::open(void* encode_tiled, const std::string& directory) {
  ATTACCA_TRY(const std::vector<fs::path> files, metadata_files(directory));
  const std::string library = (fs::path(directory) / kLibrary).string();
  Catalog catalog;
  ATTACCA_TRY(catalog.library_, open_library(library));
  ATTACCA_TRY(const Builders builders,
              open_builders(catalog.library_.get(), encode_tiled, library));
  for (const fs::path& file : files) {
    ATTACCA_TRY(Template kernel, read_template(file, builders));
    catalog.templates_.push_back(std::move(kernel));
  }
  return catalog;
}

const Template* Catalog::find(std::string_view name) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(),
                                  [&](const Template& kernel) { return kernel.name == name; });
  return found == templates_.end() ? nullptr : &*found;
}

}  // namespace attacca::templates
