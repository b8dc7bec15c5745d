#include "gpu/driver/library.hpp"

#include <algorithm>
#include <cstddef>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <span>
#include <unistd.h>

#include "fmt/format.h"

#include "support/environment.hpp"
#include "support/files/file.hpp"
#include "support/files/folder.hpp"
#include "support/files/paths.hpp"
#include "support/immortal.hpp"

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

// The places below the prefixes, in their order.
std::vector<fs::path> places_of(const LibrarySpec& spec) {
  std::vector<fs::path> places;
  for (const fs::path& prefix : prefixes())
    for (const char* folder : {"lib64", "lib"})
      for (const std::string_view file : names_of(spec))
        if (fs::path path = prefix / folder / file; is_file(path))
          places.push_back(std::move(path));
  return places;
}

bool is_loaded(const std::string& file) {
  void* const handle = load(file, RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

// The folders that dlopen() searches for us but for what /etc/ld.so.cache has.
std::vector<fs::path> loader_folders() {
  void* own = dlopen(own_path().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!own) own = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo sizes{};
  if (!own || dlinfo(own, RTLD_DI_SERINFOSIZE, &sizes) != 0) return {};
  std::vector<std::max_align_t> memory(sizes.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(memory.data());
  std::vector<fs::path> folders;
  if (dlinfo(own, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(own, RTLD_DI_SERINFO, info) == 0)
    for (const Dl_serpath& each : std::span(info->dls_serpath, info->dls_cnt))
      folders.emplace_back(each.dls_name);
  dlclose(own);
  return folders;
}

// The paths in /etc/ld.so.cache that end in this name. Its texts end with a zero byte each.
std::vector<std::string> cached_paths(std::string_view file) {
  const std::string& cache = immortal([] { return read_file("/etc/ld.so.cache").value_or(""); });
  const std::string wanted = fmt::format("/{}", file) + '\0';
  std::vector<std::string> paths;
  for (size_t at = cache.find(wanted); at != cache.npos; at = cache.find(wanted, at + 1)) {
    const size_t begin = cache.rfind('\0', at) + 1;
    std::string path = cache.substr(begin, at + wanted.size() - 1 - begin);
    if (std::find(paths.begin(), paths.end(), path) == paths.end())
      paths.push_back(std::move(path));
  }
  return paths;
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
    if (void* handle = load(own)) return Library(handle, own, spec.override_variable);
    return fail(fmt::format("cannot open {}: {}", spec.title, load_error()), own,
                fmt::format("correct or unset {}", spec.override_variable));
  }
  for (const int flags : {RTLD_NOLOAD, 0})
    for (const std::string_view file : names_of(spec))
      if (void* handle = load(std::string(file), flags))
        return Library(handle, path_of(handle, file));
  std::string broken;  // a file that exists but does not load: a better message than "not found"
  for (const fs::path& path : places_of(spec)) {
    if (void* handle = load(path)) return Library(handle, path);
    broken = load_error();
  }
  return fail(
      broken.empty() ? fmt::format("{} ({}) not found", spec.title, spec.files.front())
                     : fmt::format("cannot open {}: {}", spec.title, broken),
      {}, fmt::format("install {}, or set {} to its path", spec.package, spec.override_variable));
}

std::string Library::locate(const LibrarySpec& spec) {
  const auto closed = [](const std::string& path) {
    return is_file(path) && !is_loaded(path) ? path : std::string();
  };
  if (const auto own = environment(spec.override_variable); !own.empty()) return closed(own);
  for (const std::string_view file : names_of(spec))
    if (is_loaded(std::string(file))) return {};
  const std::vector<fs::path> folders = loader_folders();
  if (folders.empty()) return {};
  for (const std::string_view file : names_of(spec)) {
    for (const fs::path& folder : folders)
      if (is_file(folder / file)) return {};
    if (const std::vector<std::string> cached = cached_paths(file); !cached.empty())
      return cached.size() == 1 ? closed(cached.front()) : std::string();
  }
  const std::vector<fs::path> places = places_of(spec);
  return places.empty() ? std::string() : closed(places.front().string());
}

void* Library::find_symbol(const char* name) const {
  return dlsym(handle_, name);
}

Result<void*> Library::symbol(const char* name) const {
  if (void* address = find_symbol(name)) return address;
  return fail(fmt::format("no function {}", name), path_,
              named_by_ != nullptr ? fmt::format("correct or unset {}", named_by_)
                                   : "install a newer version of this library");
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
