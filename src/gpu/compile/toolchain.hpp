// The compilers behind one interface, so that tests can count and replace them.
#pragma once

#include <string>
#include <vector>

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/compile.hpp"

namespace attacca::gpu {

class Toolchain {
 public:
  virtual ~Toolchain() = default;

  // "NVRTC 13.0, ptxas 13.0.88": part of every key.
  virtual Result<std::string> versions() const;
  virtual Result<std::string> compile(const std::string& source,
                                      const CompileOptions& options) const;
  virtual Result<std::vector<char>> assemble(const std::string& ptx, const std::string& arch) const;
};

}  // namespace attacca::gpu
