// One ONNX node, for the handler of its op.
#pragma once

#include <span>

#include "import/onnx/expr.hpp"
#include "import/onnx/sizes/assumptions.hpp"
#include "onnx/onnx.pb.h"

namespace attacca::import {

class Node;
using Handler = Result<Outputs> (*)(Node&);
// Computes a node whose inputs are all known while importing; nullopt: not this case.
using KnownHandler = std::optional<Known> (*)(Node&, const std::vector<Known>&);

// What to do about a node that has none of the inputs that its op reads.
inline constexpr const char* kInputsFix = "give the node one input or more";

// A row of ops.def.
struct OpRow {
  std::string_view name;
  int first, last;  // opsets
  Handler handler;
  ir::Op op;                // for handlers that serve several rows
  KnownHandler known;       // may be null
  std::string_view domain;  // "" is ai.onnx
};

inline constexpr int64_t kMaxKnownElements = 4096;

class Node {
 public:
  Node(ir::Graph& graph, const onnx::NodeProto& proto, int64_t opset, const OpRow& row,
       std::vector<Entry*> inputs, const std::string& directory, SizeAssumptions& assumptions)
      : graph_(graph),
        proto_(proto),
        opset_(opset),
        row_(row),
        inputs_(std::move(inputs)),
        directory_(directory),
        assumptions_(assumptions) {}

  ir::Graph& graph() { return graph_; }
  const onnx::NodeProto& proto() const { return proto_; }
  int64_t opset() const { return opset_; }
  ir::Op op() const { return row_.op; }
  const std::string& directory() const { return directory_; }
  SizeAssumptions& assumptions() { return assumptions_; }

  // Inputs. An empty name in the file counts as absent.
  size_t inputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  const Entry* entry(size_t i) const { return has(i) ? inputs_[i] : nullptr; }
  Result<ir::Value> input(size_t i);
  Expr x(size_t i) { return {&graph_, input(i)}; }
  Expr expr(ir::Value value) { return {&graph_, value}; }
  Expr failed(std::string what, std::string fix = {}) {
    return {&graph_, fail(std::move(what), {}, std::move(fix))};
  }
  // Notes what these operands need to broadcast, with so many last axes left out, should the node
  // fail.
  void broadcasts(const std::vector<Expr>& operands, size_t left_out = 0);
  ir::DType dtype(ir::Value value) const { return graph_.type(value).dtype; }
  ir::Shape shape(ir::Value value) const { return graph_.type(value).shape; }
  int64_t rank(ir::Value value) const {
    return static_cast<int64_t>(graph_.type(value).shape.size());
  }
  // The input as numbers, if they follow from constants and shapes alone.
  std::optional<Known> known(size_t i);
  // Likewise. Errors: the input depends on data.
  Result<std::vector<ir::Dim>> dims(size_t i, std::string_view what);
  Result<std::vector<int64_t>> integers(size_t i, std::string_view what);
  // A float or integer scalar constant.
  std::optional<double> constant_scalar(size_t i);

  // Outputs.
  size_t outputs() const { return static_cast<size_t>(proto_.output_size()); }
  bool wants(size_t i) const {
    return i < outputs() && !proto_.output(static_cast<int>(i)).empty();
  }

  // Attributes; one of the wrong type is recorded and reported after the handler.
  const onnx::AttributeProto* attribute(std::string_view name) const;
  // The same of a type. One of another type is an error of the node.
  const onnx::AttributeProto* typed(std::string_view name,
                                    onnx::AttributeProto::AttributeType type);
  int64_t integer(std::string_view name, int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string otherwise);
  std::optional<std::vector<int64_t>> integer_list(std::string_view name);
  const std::optional<Error>& attribute_error() const { return attribute_error_; }

 private:
  ir::Graph& graph_;
  const onnx::NodeProto& proto_;
  int64_t opset_;
  const OpRow& row_;
  std::vector<Entry*> inputs_;  // null: absent
  const std::string& directory_;
  SizeAssumptions& assumptions_;
  std::optional<Error> attribute_error_;
};

using ir::normalise_axis;
// Ascending; an error for one named twice.
Result<std::vector<int64_t>> normalise_axes(std::vector<int64_t> axes, int64_t rank);
std::vector<int64_t> axes_from(int64_t first, int64_t rank);
inline std::vector<int64_t> all_axes(int64_t rank) {
  return axes_from(0, rank);
}

// The entry's numbers, if they follow from constants and shapes alone; it keeps them.
std::optional<Known> known_numbers(const ir::Graph& graph, Entry& entry);
// The entry's value, made from its numbers if necessary.
Result<ir::Value> materialise(ir::Graph& graph, Entry& entry);
// Evaluates what only depends on constants; nullopt if it depends on more, or on more than so many
// elements.
std::optional<ir::Tensor> fold_constant(const ir::Graph& graph, ir::Value value,
                                        int64_t elements = 1 << 16);
// A constant from a tensor; scalars become literals, which more rules match.
ir::Value add_constant(ir::Graph& graph, ir::Tensor tensor);

}  // namespace attacca::import
