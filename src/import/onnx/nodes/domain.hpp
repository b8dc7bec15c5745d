// The domains of ops.
#pragma once

#include <string>

namespace attacca::import {

// "ai.onnx" is the empty domain.
inline std::string standard_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

}  // namespace attacca::import
