#include "cli/onnxruntime/library.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <vector>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/folder.hpp"
#include "support/files/paths.hpp"

namespace attacca::cli {
namespace {

namespace fs = std::filesystem;

// The library of a wheel, site-packages/onnxruntime/capi/libonnxruntime.so.1.23.2.
void add_wheel(const fs::path& packages, std::vector<std::string>& files) {
  for (const fs::path& file : sorted_children(packages / "onnxruntime/capi"))
    if (file.filename().string().starts_with("libonnxruntime.so")) files.push_back(file);
}

void add_python(const fs::path& environment, std::vector<std::string>& files) {
  for (const fs::path& version : sorted_children(environment / "lib"))
    add_wheel(version / "site-packages", files);
}

std::vector<std::string> candidates() {
  if (const auto given = environment("ATTACCA_LIBONNXRUNTIME"); !given.empty()) return {given};
  std::vector<std::string> files = {"libonnxruntime.so.1", "libonnxruntime.so"};
  if (const auto python = environment("VIRTUAL_ENV"); !python.empty()) add_python(python, files);
  for (fs::path folder = fs::path(own_path()).parent_path();; folder = folder.parent_path()) {
    add_wheel(folder, files);
    add_python(folder / ".deps/venv", files);
    if (folder == folder.parent_path()) return files;
  }
}

// bin/attacca and lib/libattacca_ort.so of an installation, or the build tree's.
Result<std::string> find_plugin() {
  const fs::path program = fs::path(own_path()).parent_path();
  for (const char* folder : {"../lib", "../../python/attacca/lib"}) {
    std::error_code error;
    if (const fs::path file = program / folder / "libattacca_ort.so"; fs::exists(file, error))
      return fs::weakly_canonical(file, error).string();
  }
  return fail("this installation has no libattacca_ort.so", "--through",
              "install Attacca with it: docs/onnxruntime.md");
}

}  // namespace

Result<OnnxRuntimeLibrary> open_onnxruntime() {
  OnnxRuntimeLibrary library;
  ATTACCA_TRY(library.plugin, find_plugin());
  std::string reason;
  for (const std::string& file : candidates()) {
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.get_api_base = handle ? dlsym(handle, "OrtGetApiBase") : nullptr;
    library.path = file;
    if (library.get_api_base != nullptr) return library;
    if (const char* const text = dlerror(); text != nullptr && reason.empty()) reason = text;
  }
  return fail(fmt::format("ONNX Runtime cannot be opened: {}", reason), "--through",
              "pip install onnxruntime and set VIRTUAL_ENV, or set ATTACCA_LIBONNXRUNTIME to "
              "libonnxruntime.so");
}

}  // namespace attacca::cli
