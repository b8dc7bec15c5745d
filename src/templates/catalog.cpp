#include "templates/catalog.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/draft_file.hpp"
#include "support/files/file.hpp"
#include "support/files/paths.hpp"
#include "support/hash.hpp"
#include "templates/build_id.hpp"
#include "templates/index.hpp"
#include "templates/metadata.hpp"
#include "templates/sources.h"

namespace attacca::templates {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libattacca_templates.so";
constexpr const char* kFix =
    "build the templates (make gpu), or name their directory in ATTACCA_TEMPLATE_DIR";

Result<std::shared_ptr<void>> open_library(const std::string& path) {
  // RTLD_NOW: missing symbols are errors here. RTLD_LOCAL: its symbols do not clash with others.
  // RTLD_NODELETE: its C++ runtime keeps memory that unloading would leak.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return fail(fmt::format("cannot open the templates' builders: {}", dlerror()), path, kFix);
  return std::shared_ptr<void>(handle, [](void* library) { dlclose(library); });
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

// The size of a file of PTX that is whole. Whole PTX ends with the closing brace of a function; a
// build that was killed may leave only the beginning of the file.
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

// The sizes of a template's files. A missing file has size 0.
FileBytes bytes_of(const fs::path& ptx) {
  const auto bytes = [](const fs::path& file) {
    std::error_code error;
    const uint64_t size = fs::file_size(file, error);
    return error ? 0 : size;
  };
  return {bytes(fs::path(ptx).replace_extension(".json")), bytes(ptx)};
}

}  // namespace

// By name.
struct Catalog::Builders : std::map<std::string_view, const attacca_template_entry*> {
  // Errors: `where`, the metadata, is of a template without builder.
  Status give(Template& kernel, const std::string& where) const {
    const auto builder = find(kernel.name);
    if (builder == end())
      return fail(fmt::format("template {} has no builder in {}", kernel.name, kLibrary), where,
                  kFix);
    kernel.builder = builder->second;
    return {};
  }
};

std::string Catalog::default_directory() {
  if (std::string named = environment("ATTACCA_TEMPLATE_DIR"); !named.empty()) return named;
  std::error_code ignored;
  for (std::string each :
       {installed_folder("templates"), fs::path(own_path()).parent_path().string()})
    if (!each.empty() && fs::exists(fs::path(each) / kLibrary, ignored)) return each;
  return ATTACCA_BUILD_TEMPLATES;
}

Result<Catalog::Builders> Catalog::open_builders(void* encode_tiled, const std::string& directory) {
  library_path_ = (fs::path(directory) / kLibrary).string();
  ATTACCA_TRY(library_, open_library(library_path_));
  const auto open = reinterpret_cast<decltype(&attacca_templates_open)>(
      dlsym(library_.get(), "attacca_templates_open"));
  if (!open) return fail("not a library of template builders", library_path_, kFix);
  int32_t count = 0;
  const attacca_template_entry* entries = open(ATTACCA_ABI_VERSION, encode_tiled, &count);
  if (!entries)
    return fail(fmt::format("the templates were built for another version than {} of the builders' "
                            "interface",
                            ATTACCA_ABI_VERSION),
                library_path_, "build the templates again with this version of Attacca: make gpu");
  Builders builders;
  for (int32_t i = 0; i < count; ++i) builders.emplace(entries[i].name, &entries[i]);
  return builders;
}

Result<Catalog> Catalog::open(void* encode_tiled, const std::string& directory) {
  if (auto indexed = read_index(encode_tiled, directory)) return indexed;
  return read(encode_tiled, directory);
}

// Errors: no index, or one that does not describe the directory.
Result<Catalog> Catalog::read_index(void* encode_tiled, const std::string& directory) {
  const std::string path = (fs::path(directory) / kIndexFile).string();
  ATTACCA_TRY(const std::string bytes, read_file(path));
  std::optional<Index> index = decode_index(bytes);
  if (!index) return fail("no index of templates", path, kFix);
  Catalog catalog;
  ATTACCA_TRY(const Builders builders, catalog.open_builders(encode_tiled, directory));
  ATTACCA_TRY(const std::string library, catalog.library_id());
  if (library != index->library) return fail("an index of other templates", path, kFix);
  for (size_t i = 0; i < index->templates.size(); ++i) {
    Template& kernel = index->templates[i];
    kernel.path = (fs::path(directory) / (kernel.name + ".ptx")).string();
    const FileBytes own = bytes_of(kernel.path), &indexed = index->files[i];
    if (own.metadata != indexed.metadata || own.ptx != indexed.ptx)
      return fail("an index of other files", path, kFix);
    ATTACCA_TRY_VOID(builders.give(kernel, path));
  }
  catalog.templates_ = std::move(index->templates);
  catalog.fingerprint_ = index->fingerprint;
  catalog.indexed_ = true;
  return catalog;
}

Result<Catalog> Catalog::read(void* encode_tiled, const std::string& directory) {
  ATTACCA_TRY(const std::vector<fs::path> files, metadata_files(directory));
  Catalog catalog;
  ATTACCA_TRY(const Builders builders, catalog.open_builders(encode_tiled, directory));
  std::string identity;
  const auto add = [&](const fs::path& metadata) -> Status {
    ATTACCA_TRY(const std::string text, read_file(metadata.string()));
    ATTACCA_TRY(Template kernel, parse_metadata(text, metadata.string()));
    ATTACCA_TRY_VOID(builders.give(kernel, metadata.string()));
    kernel.path = fs::path(metadata).replace_extension(".ptx").string();
    if (!fs::exists(kernel.path))
      return fail(fmt::format("template {} has no PTX", kernel.name), kernel.path, kFix);
    ATTACCA_TRY(const uint64_t bytes, whole_bytes(kernel.path));
    // The fingerprint distinguishes it from other versions of a template with this name.
    const std::string own = fmt::format("{}\nptx {}\n", text, bytes);
    kernel.fingerprint = hash64(own);
    identity += own;
    catalog.templates_.push_back(std::move(kernel));
    return {};
  };
  for (const fs::path& file : files)
    if (Status added = add(file); !added)
      catalog.left_out_.push_back({file.stem().string(), std::move(added).error()});
  if (catalog.templates_.empty()) return tl::make_unexpected(catalog.left_out_.front().reason);
  catalog.fingerprint_ = hash64(identity);
  return catalog;
}

Status Catalog::write_index(const std::string& directory) {
  ATTACCA_TRY(Catalog catalog, read(nullptr, directory));
  if (!catalog.left_out_.empty()) return tl::make_unexpected(catalog.left_out_.front().reason);
  Index index;
  ATTACCA_TRY(index.library, catalog.library_id());
  index.fingerprint = catalog.fingerprint_;
  for (const Template& kernel : catalog.templates_) index.files.push_back(bytes_of(kernel.path));
  index.templates = std::move(catalog.templates_);
  return write_file((fs::path(directory) / kIndexFile).string(), encode_index(index));
}

Result<Catalog> Catalog::of(const std::vector<std::string>& metadata, void* encode_tiled,
                            const std::string& directory) {
  Catalog catalog;
  ATTACCA_TRY(const Builders builders, catalog.open_builders(encode_tiled, directory));
  const std::string where = "the metadata of a template";
  std::string identity;
  for (const std::string& text : metadata) {
    ATTACCA_TRY(Template kernel, parse_metadata(text, where));
    ATTACCA_TRY_VOID(builders.give(kernel, where));
    kernel.path = (fs::path(directory) / (kernel.name + ".ptx")).string();
    catalog.templates_.push_back(std::move(kernel));
    identity += text;
  }
  catalog.fingerprint_ = hash64(identity);
  return catalog;
}

// Identifies this build of the library.
Result<std::string> Catalog::library_id() const {
  if (std::string id = build_id(library_.get()); !id.empty()) return id;
  ATTACCA_TRY(const std::string bytes, read_file(library_path_));
  return fmt::format("{:016x}", hash64(bytes));
}

Result<std::string> Catalog::builders_id() const {
  const auto sources = reinterpret_cast<decltype(&attacca_templates_sources)>(
      dlsym(library_.get(), "attacca_templates_sources"));
  if (sources) return fmt::format("sources {}", sources());
  ATTACCA_TRY(const std::string id, library_id());
  return "build " + id;
}

const Template* Catalog::find(std::string_view name) const {
  const auto found = std::find_if(templates_.begin(), templates_.end(),
                                  [&](const Template& kernel) { return kernel.name == name; });
  return found == templates_.end() ? nullptr : &*found;
}

}  // namespace attacca::templates
