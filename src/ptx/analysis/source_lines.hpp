// Where an instruction comes from: the .loc and .file lines of -lineinfo.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "ptx/analysis/function_code.hpp"

namespace attacca::ptx {

class SourceLines {
 public:
  explicit SourceLines(const Module& module);

  // "kernel.cu:12", without the folder; else the place in the PTX.
  std::string where(const Step& step) const;

 private:
  const Module& module_;
  std::unordered_map<uint64_t, std::string> files_;
};

}  // namespace attacca::ptx
