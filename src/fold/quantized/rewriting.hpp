// Copies a graph node by node, with some nodes replaced by a pass.
#pragma once

#include <utility>
#include <vector>

#include "fold/result.hpp"
#include "support/check.hpp"

namespace attacca::fold {

class Rewriting {
 protected:
  explicit Rewriting(const ir::Graph& graph) : from_(graph), moved_(graph.size()) {}

  // make(value, node) returns the new value for each old one, copy(node) if it does not change.
  // Values and outputs keep their names, but for a value that is replaced by a named one.
  template <class Make>
  FoldResult rewrite(const Make& make) {
    result_.graph.name = from_.name;
    for (uint32_t id = 0; id < from_.size(); ++id) {
      const ir::Node& node = from_.nodes()[id];
      moved_[id] = make(ir::Value{id}, node);
      if (node.op != ir::Op::Input && !node.name.empty() && into()[moved_[id]].name.empty())
        ATTACCA_CHECK(into().set_name(moved_[id], node.name).has_value(), "a value lost its name");
    }
    for (const ir::Output& output : from_.outputs())
      into().add_output(moved_[output.value.id], output.name);
    return std::move(result_);
  }

  ir::Graph& into() { return result_.graph; }
  const ir::Shape& shape(ir::Value value) const { return from_.type(value).shape; }

  static ir::Value must(Result<ir::Value> made) {
    ATTACCA_CHECK(made.has_value(), "a rewritten value is invalid");
    return *made;
  }

  ir::Value copy(const ir::Node& node) { return must(ir::copy_moved(into(), node, moved_)); }

  ir::Value add(ir::Op op, std::vector<ir::Value> operands, ir::Attrs attrs = {}) {
    return must(into().add(op, std::move(operands), std::move(attrs)));
  }

  const ir::Graph& from_;
  FoldResult result_;
  std::vector<ir::Value> moved_;  // where an old value is in the result
};

}  // namespace attacca::fold
