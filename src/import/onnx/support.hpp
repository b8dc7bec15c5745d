// Which ops of a model are supported.
#pragma once

#include <map>
#include <string>

#include "import/onnx/functions.hpp"
#include "onnx/onnx.pb.h"
#include "support/error.hpp"

namespace attacca::import {

using Opsets = std::map<std::string, int64_t>;  // by standard domain

template <class Imports>
Opsets opsets_of(const Imports& imports) {
  Opsets opsets;
  for (const auto& entry : imports) opsets[standard_domain(entry.domain())] = entry.version();
  return opsets;
}

int64_t opset_of(const Opsets& opsets, const std::string& domain);

// The node's name, or that of its first output.
std::string node_name(const onnx::NodeProto& node);

// An error names every op that no row serves, over the graph and the functions it calls. A branch's
// ops are reported when it is read, since the other one may be taken.
Status check_support(const onnx::GraphProto& graph, const Functions& functions,
                     const Opsets& opsets);

}  // namespace attacca::import
