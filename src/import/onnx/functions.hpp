// A model's own functions, and their bodies for a call.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "import/onnx/nodes/domain.hpp"
#include "onnx/onnx.pb.h"
#include "support/error.hpp"

namespace attacca::import {

class Functions {
 public:
  // The model must outlive this. An error where a function is defined twice.
  static Result<Functions> of(const onnx::ModelProto& model);
  // The function that a node calls; null if none.
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

 private:
  // By domain, name and overload.
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> by_name_;
};

// The body's nodes with the caller's attributes, or their defaults, in place of references to them,
// and without the formal inputs that the caller leaves out.
std::vector<onnx::NodeProto> body_of_call(const onnx::FunctionProto& function,
                                          const onnx::NodeProto& caller);

}  // namespace attacca::import
