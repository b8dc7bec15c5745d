// An expression that replaces a value of the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::fold {

// An expression over values of the original graph.
struct Expression {
  enum class Kind : uint8_t { Value, Number, Apply };
  Kind kind = Kind::Number;
  ir::Value value;
  double number = 0;
  ir::Op op = ir::Op::Add;
  std::vector<double> params;
  std::vector<Expression> args;
};

}  // namespace attacca::fold
