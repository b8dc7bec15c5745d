// C++ that a test writes, compiled and opened. ATTACCA_CXX: the compiler, of the test's build.
#pragma once

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::testing {

class HostLibrary {
 public:
  // Aborts if the source does not compile: it, or the test, is wrong.
  explicit HostLibrary(const std::string& source, const char* optimization = "-O1") {
    std::string folder = (std::filesystem::temp_directory_path() / "attaccaXXXXXX").string();
    ATTACCA_CHECK(mkdtemp(folder.data()) != nullptr, "no temporary folder");
    const std::string file = folder + "/source.cpp", library = folder + "/library.so";
    std::ofstream(file) << source;
    const std::string command =
        fmt::format("{} -std=c++20 {} -w -shared -fPIC -I {}/tests {} -o {}", ATTACCA_CXX,
                    optimization, ATTACCA_SOURCE_DIR, file, library);
    ATTACCA_CHECK(std::system(command.c_str()) == 0, command + " failed");
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ATTACCA_CHECK(library_ != nullptr, dlerror());
    std::filesystem::remove_all(folder);
  }
  ~HostLibrary() { dlclose(library_); }
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;

  void* function(const std::string& name) const {
    void* const found = dlsym(library_, name.c_str());
    ATTACCA_CHECK(found != nullptr, "no function " + name);
    return found;
  }

 private:
  void* library_ = nullptr;
};

}  // namespace attacca::testing
