#include "gpu/driver/library.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <span>
#include <unistd.h>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/paths.hpp"

namespace attacca::gpu {
namespace {

namespace fs = std::filesystem;

// The folder of the program and that of the library this code is in.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error)
    folders.push_back(program.parent_path());
  folders.push_back(fs::path(own_path()).parent_path());
  return folders;
}

std::vector<fs::path> sorted_children(const fs::path& folder) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    children.push_back(at->path());
  std::sort(children.begin(), children.end());
  return children;
}

// The folders of NVIDIA's wheels.
void add_wheels(const fs::path& packages, std::vector<fs::path>& prefixes) {
  for (const fs::path& wheel : sorted_children(packages / "nvidia")) prefixes.push_back(wheel);
}

// Those of a Python environment: lib/python3.11/site-packages/nvidia/*.
void add_environment(const fs::path& python, std::vector<fs::path>& prefixes) {
  for (const fs::path& version : sorted_children(python / "lib"))
    add_wheels(version / "site-packages", prefixes);
}

// Folders that may have lib64, lib or bin folders with NVIDIA's files in them.
std::vector<fs::path> prefixes() {
  std::vector<fs::path> found;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto home = environment(variable); !home.empty()) found.emplace_back(home);
  found.emplace_back("/usr/local/cuda");
  if (const auto python = environment("VIRTUAL_ENV"); !python.empty())
    add_environment(python, found);
  for (const fs::path& own : own_folders())
    for (fs::path folder = own;; folder = folder.parent_path()) {
      add_wheels(folder, found);
      add_environment(folder / ".deps/venv", found);
      if (folder == folder.parent_path()) break;
    }
  return found;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string path_of(void* handle, std::string_view fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0]) return map->l_name;
  return std::string(fallback);
}

void* load(const std::string& file, int flags = 0) {
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
}

std::string load_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

std::span<const std::string_view> names_of(const LibrarySpec& spec) {
  return std::span(spec.files).first(spec.files[1].empty() ? 1 : 2);
}

}  // namespace

const LibrarySpec kDriverLibrary = {"the CUDA driver",
                                    {"libcuda.so.1"},
                                    "ATTACCA_LIBCUDA",
                                    "the NVIDIA driver (package nvidia-open or cuda-drivers of "
                                    "NVIDIA's Debian repository, libcuda1 "
                                    "of Debian's non-free)"};
const LibrarySpec kNvrtcLibrary = {
    "NVRTC",
    {"libnvrtc.so.13", "libnvrtc.so.12"},
    "ATTACCA_LIBNVRTC",
    "nvidia-cuda-nvrtc from PyPI (pip install nvidia-cuda-nvrtc), or cuda-nvrtc-13-0 of NVIDIA's "
    "Debian repository"};
const LibrarySpec kNvJitLinkLibrary = {
    "nvJitLink",
    {"libnvJitLink.so.13", "libnvJitLink.so.12"},
    "ATTACCA_LIBNVJITLINK",
    "nvidia-nvjitlink from PyPI (pip install nvidia-nvjitlink), or libnvjitlink-13-0 of NVIDIA's "
    "Debian repository"};
const LibrarySpec kCublasLtLibrary = {
    "cuBLASLt",
    {"libcublasLt.so.13", "libcublasLt.so.12"},
    "ATTACCA_LIBCUBLASLT",
    "nvidia-cublas from PyPI (pip install nvidia-cublas), or libcublas-13-0 of NVIDIA's Debian "
    "repository"};

Result<Library> Library::open(const LibrarySpec& spec) {
  if (const auto own = environment(spec.override_variable); !own.empty()) {
    if (void* handle = load(own)) return Library(handle, own);
    return fail(fmt::format("cannot open {}: {}", spec.title, load_error()), own,
                fmt::format("correct or unset {}", spec.override_variable));
  }
  for (const int flags : {RTLD_NOLOAD, 0})
    for (const std::string_view file : names_of(spec))
      if (void* handle = load(std::string(file), flags))
        return Library(handle, path_of(handle, file));
  std::string broken;  // a file that exists but does not load: a better message than "not found"
  for (const fs::path& prefix : prefixes())
    for (const char* folder : {"lib64", "lib"})
      for (const std::string_view file : names_of(spec)) {
        const fs::path path = prefix / folder / file;
        if (!is_file(path)) continue;
        if (void* handle = load(path)) return Library(handle, path);
        broken = load_error();
      }
  return fail(
      broken.empty() ? fmt::format("{} ({}) not found", spec.title, spec.files.front())
                     : fmt::format("cannot open {}: {}", spec.title, broken),
      {}, fmt::format("install {}, or set {} to its path", spec.package, spec.override_variable));
}

void* Library::find_symbol(const char* name) const {
  return dlsym(handle_, name);
}

Result<void*> Library::symbol(const char* name) const {
  if (void* address = find_symbol(name)) return address;
  return fail(fmt::format("no function {}", name), path_,
              "install a newer version of this library");
}

Status Library::resolve(std::initializer_list<Symbol> symbols,
                        std::initializer_list<const char*> versions) const {
  for (const Symbol& wanted : symbols) {
    void* address = find_symbol(wanted.name);
    for (const char* version : versions)
      if (!address) address = find_symbol(fmt::format("__{}_{}", wanted.name, version).c_str());
    if (!address) {
      ATTACCA_TRY(address, symbol(wanted.name));
    }
    wanted.store(address);
  }
  return {};
}

std::string find_program(const char* override_variable, std::string_view name) {
  if (const auto own = environment(override_variable); !own.empty())
    return is_file(own) && access(own.c_str(), X_OK) == 0 ? own : "";
  const std::string path = environment("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / name;
    if (is_file(file) && access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  for (const fs::path& prefix : prefixes())
    if (const fs::path file = prefix / "bin" / name;
        is_file(file) && access(file.c_str(), X_OK) == 0)
      return file;
  return {};
}

}  // namespace attacca::gpu
