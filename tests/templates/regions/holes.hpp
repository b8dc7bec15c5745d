// Emitted epilogues, compiled for the host as functions that emulated kernels call as their hole.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "host_library.hpp"

namespace attacca::testing {

class Holes {
 public:
  static constexpr const char* kFunction = "attacca_emitted_hole";

  // Code of epilogue::emit_cuda() whose function is kFunction; returns its number. Equal code has
  // one.
  size_t add(const std::string& code) {
    return numbers_.emplace(code, numbers_.size()).first->second;
  }

  // Compiles what was added.
  void compile() {
    std::string source = "#include \"epilogue/host_shim.hpp\"\n";
    // Each in its own namespace: all define the same types and functions.
    for (const auto& [code, number] : numbers_)
      source += fmt::format("namespace hole_{0} {{\n#define {1} {1}_{0}\n{2}\n#undef {1}\n}}\n",
                            number, kFunction, code);
    // The source is large and runs for a moment.
    library_ = std::make_unique<HostLibrary>(source, "-O0");
  }
  void* at(size_t number) const {
    return library_->function(fmt::format("{}_{}", kFunction, number));
  }

 private:
  std::map<std::string, size_t> numbers_;
  std::unique_ptr<HostLibrary> library_;
};

}  // namespace attacca::testing
