// The extents of a model's inputs: numbers, symbols, and expressions of symbols such as `P + S`.
#pragma once

#include <map>
#include <set>
#include <string>

#include "import/onnx/nodes/names.hpp"
#include "import/onnx/sizes/assumptions.hpp"
#include "ir/graph/dim.hpp"
#include "onnx/onnx.pb.h"

namespace attacca::import {

class InputExtents {
 public:
  // Symbols that are among `sizes` become numbers; those among `equal` what they are equal to.
  InputExtents(const ir::SymbolValues& sizes, const EqualExtents& equal)
      : sizes_(sizes), equal_(equal) {}

  // Notes the names of sizes that stand alone in the input's shape. Called for all inputs before
  // the first read(): an expression may stand before its names.
  void add_names(const onnx::ValueInfoProto& input);
  // A dim_param that is an expression of noted names is that expression; any other is a symbol.
  Result<ir::Dim> read(const onnx::TensorShapeProto::Dimension& proto, const std::string& input,
                       int axis);
  // An error: a size of a symbol that no extent read so far has.
  Status check_sizes() const;

 private:
  const ir::Dim& symbol(const std::string& param);
  ir::Dim sized(const std::string& symbol);

  const ir::SymbolValues& sizes_;
  const EqualExtents& equal_;
  NameSet symbols_;
  std::set<std::string> known_;            // symbols, also those with a size
  std::map<std::string, ir::Dim> params_;  // by dim_param
  std::map<std::string, ir::Dim> names_;   // that stand alone
};

}  // namespace attacca::import
