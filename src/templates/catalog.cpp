#include "templates/catalog.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/file.hpp"
#include "support/files/paths.hpp"
#include "support/hash.hpp"
#include "templates/build_id.hpp"
#include "templates/metadata.hpp"

namespace attacca::templates {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libattacca_templates.so";
constexpr const char* kFix =
    "build the templates (make gpu), or name their directory in ATTACCA_TEMPLATE_DIR";

using Builders = std::map<std::string_view, const attacca_template_entry*>;

Result<std::shared_ptr<void>> open_library(const std::string& path) {
  // RTLD_NOW: missing symbols are errors here. RTLD_LOCAL: its symbols do not clash with others.
  // RTLD_NODELETE: its C++ runtime keeps memory that unloading would leak.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return fail(fmt::format("cannot open the templates' builders: {}", dlerror()), path, kFix);
  return std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
}

Result<Builders> open_builders(void* library, void* encode_tiled, const std::string& path) {
  const auto open =
      reinterpret_cast<decltype(&attacca_templates_open)>(dlsym(library, "attacca_templates_open"));
  if (!open) return fail("not a library of template builders", path, kFix);
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
  if (error) return fail(fmt::format("no kernel templates: {}", error.message()), directory, kFix);
  if (files.empty()) return fail("no kernel templates: no metadata (*.json)", directory, kFix);
  std::sort(files.begin(), files.end());
  return files;
}

// PTX ends with the brace of a function; its bytes. A build that was killed may leave the
// beginning.
Result<uint64_t> whole_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto bytes = static_cast<std::streamoff>(file.tellg());
  constexpr std::streamoff kEnd = 64;
  std::string end(static_cast<size_t>(std::clamp<std::streamoff>(bytes, 0, kEnd)), ' ');
  file.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
  file.read(end.data(), static_cast<std::streamsize>(end.size()));
  const size_t last = end.find_last_not_of(" \t\r\n");
  if (!file || last == std::string::npos || end[last] != '}')
    return fail("the template's PTX is broken off", path, kFix);
  return static_cast<uint64_t>(bytes);
}

// `where`: the metadata, for errors.
Result<Template> with_builder(std::string_view metadata, const Builders& builders,
                              const std::string& where) {
  ATTACCA_TRY(Template kernel, parse_metadata(metadata, where));
  const auto builder = builders.find(kernel.name);
  if (builder == builders.end())
    return fail(fmt::format("template {} has no builder in {}", kernel.name, kLibrary), where,
                kFix);
  kernel.builder = builder->second;
  return kernel;
}

// `identity`: takes what tells it from other templates of its name.
Result<Template> read_template(const fs::path& metadata, const Builders& builders,
                               std::string& identity) {
  ATTACCA_TRY(const std::string text, read_file(metadata.string()));
  ATTACCA_TRY(Template kernel, with_builder(text, builders, metadata.string()));
  fs::path ptx = metadata;
  kernel.path = ptx.replace_extension(".ptx").string();
  if (!fs::exists(kernel.path))
    return fail(fmt::format("template {} has no PTX", kernel.name), kernel.path, kFix);
  ATTACCA_TRY(const uint64_t bytes, whole_bytes(kernel.path));
  const std::string own = fmt::format("{}\nptx {}\n", text, bytes);
  kernel.fingerprint = hash64(own);
  identity += own;
  return kernel;
}

}  // namespace

std::string Catalog::default_directory() {
  if (std::string named = environment("ATTACCA_TEMPLATE_DIR"); !named.empty()) return named;
  std::error_code ignored;
  for (std::string each :
       {installed_folder("templates"), fs::path(own_path()).parent_path().string()})
    if (!each.empty() && fs::exists(fs::path(each) / kLibrary, ignored)) return each;
  return ATTACCA_BUILD_TEMPLATES;
}

Result<Catalog> Catalog::open(void* encode_tiled, const std::string& directory) {
  ATTACCA_TRY(const std::vector<fs::path> files, metadata_files(directory));
  Catalog catalog;
  catalog.library_path_ = (fs::path(directory) / kLibrary).string();
  ATTACCA_TRY(catalog.library_, open_library(catalog.library_path_));
  ATTACCA_TRY(const Builders builders,
              open_builders(catalog.library_.get(), encode_tiled, catalog.library_path_));
  std::string identity;
  for (const fs::path& file : files) {
    if (auto kernel = read_template(file, builders, identity))
      catalog.templates_.push_back(*std::move(kernel));
    else
      catalog.left_out_.push_back({file.stem().string(), std::move(kernel).error()});
  }
  if (catalog.templates_.empty()) return tl::make_unexpected(catalog.left_out_.front().reason);
  catalog.fingerprint_ = hash64(identity);
  return catalog;
}

Result<Catalog> Catalog::of(const std::vector<std::string>& metadata, void* encode_tiled,
                            const std::string& directory) {
  Catalog catalog;
  catalog.library_path_ = (fs::path(directory) / kLibrary).string();
  ATTACCA_TRY(catalog.library_, open_library(catalog.library_path_));
  ATTACCA_TRY(const Builders builders,
              open_builders(catalog.library_.get(), encode_tiled, catalog.library_path_));
  std::string identity;
  for (const std::string& text : metadata) {
    ATTACCA_TRY(Template kernel, with_builder(text, builders, "the metadata of a template"));
    kernel.path = (fs::path(directory) / (kernel.name + ".ptx")).string();
    catalog.templates_.push_back(std::move(kernel));
    identity += text;
  }
  catalog.fingerprint_ = hash64(identity);
  return catalog;
}

Result<std::string> Catalog::builders_id() const {
  if (std::string id = build_id(library_.get()); !id.empty()) return id;
  ATTACCA_TRY(const std::string bytes, read_file(library_path_));
  return fmt::format("{:016x}", hash64(bytes));
}

const Template* Catalog::find(std::string_view name) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(),
                                  [&](const Template& kernel) { return kernel.name == name; });
  return found == templates_.end() ? nullptr : &*found;
}

}  // namespace attacca::templates
