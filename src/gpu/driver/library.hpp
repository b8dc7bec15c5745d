// Shared libraries that are opened at run time, so that Attacca builds and starts without them: the
// CUDA driver, NVRTC, nvJitLink and cuBLASLt. They are never closed.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"

namespace attacca::gpu {

struct LibrarySpec {
  std::string_view title;                 // "NVRTC"
  std::array<std::string_view, 2> files;  // names to look for, the preferred first, or empty
  const char* override_variable;          // an environment variable with a path to use instead
  std::string_view package;               // what to install if it is missing
};

extern const LibrarySpec kDriverLibrary, kNvrtcLibrary, kNvJitLinkLibrary, kCublasLtLibrary;

// A function's name and the pointer that takes its address.
class Symbol {
 public:
  template <class Function>
  Symbol(const char* symbol_name, Function*& pointer)
      : name(symbol_name), pointer_(&pointer), store_([](void* to, void* address) {
          *static_cast<Function**>(to) = reinterpret_cast<Function*>(address);
        }) {}
  void store(void* address) const { store_(pointer_, address); }

  const char* name;

 private:
  void* pointer_;
  void (*store_)(void*, void*);
};

class Library {
 public:
  // Searches, in this order: only the override, if it is set; the libraries that this process has
  // loaded; the loader's own path; $CUDA_HOME/lib64 and $CUDA_PATH/lib64, /usr/local/cuda/lib64;
  // the nvidia/*/lib folders of PyPI's wheels in $VIRTUAL_ENV, in the site-packages that Attacca is
  // installed in, and in a .deps/venv beside or above the program.
  static Result<Library> open(const LibrarySpec& spec);
  // The file that open() would load, found without loading it. Empty where only loading tells: the
  // library is loaded already, or the loader may choose among several.
  static std::string locate(const LibrarySpec& spec);

  const std::string& path() const { return path_; }
  Result<void*> symbol(const char* name) const;
  // nullptr where there is none.
  void* find_symbol(const char* name) const;
  // Finds each function by its name, else by "__NAME_VERSION" for the first such version.
  Status resolve(std::initializer_list<Symbol> symbols,
                 std::initializer_list<const char*> versions = {}) const;

 private:
  Library(void* handle, std::string path, const char* named_by = nullptr)
      : handle_(handle), path_(std::move(path)), named_by_(named_by) {}

  void* handle_;
  std::string path_;
  const char* named_by_;  // the environment variable whose value the path is, or null
};

// The functions of a library, which the first call opens. After a failure the next call tries
// again.
template <class Api>
Result<const Api*> open_once(Result<Api> (*open)()) {
  static std::mutex mutex;
  static const Api* opened = nullptr;  // never freed: other threads use it until the process ends
  const std::lock_guard lock(mutex);
  if (!opened) {
    ATTACCA_TRY(Api api, open());
    opened = new Api(std::move(api));
  }
  return opened;
}

// A program such as ptxas: override variable, PATH, the bin folders beside the lib folders above.
// Empty where there is none.
std::string find_program(const char* override_variable, std::string_view name);

}  // namespace attacca::gpu
