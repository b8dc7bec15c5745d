#include "templates/regions/holes.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::testing {

size_t Holes::add(const std::string& code) {
  return numbers_.emplace(code, numbers_.size()).first->second;
}

void Holes::compile() {
  std::string folder = (std::filesystem::temp_directory_path() / "attacca_holes_XXXXXX").string();
  ATTACCA_CHECK(mkdtemp(folder.data()) != nullptr, "no temporary folder");
  const std::string source = folder + "/holes.cpp", library = folder + "/holes.so";
  {
    std::ofstream file(source);
    file << "#include \"epilogue/host_shim.hpp\"\n";
    // Each of its own namespace: all define the same types and functions.
    for (const auto& [code, number] : numbers_)
      file << fmt::format("namespace hole_{0} {{\n#define {1} {1}_{0}\n{2}\n#undef {1}\n}}\n",
                          number, kFunction, code);
  }
  const std::string command = fmt::format("{} -std=c++20 -O0 -w -fPIC -shared -I {}/tests -o {} {}",
                                          ATTACCA_CXX, ATTACCA_SOURCE_DIR, library, source);
  ATTACCA_CHECK(std::system(command.c_str()) == 0, command + " failed");
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ATTACCA_CHECK(opened != nullptr, dlerror());
  functions_.resize(numbers_.size());
  for (size_t i = 0; i < functions_.size(); ++i) {
    functions_[i] = dlsym(opened, fmt::format("{}_{}", kFunction, i).c_str());
    ATTACCA_CHECK(functions_[i] != nullptr, "an epilogue without a function");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace attacca::testing
