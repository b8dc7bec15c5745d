// The graph: typed SSA in one vector, operands before users, so that it cannot hold a cycle.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/attrs.hpp"
#include "ir/graph/dim.hpp"
#include "ir/graph/dtype.hpp"
#include "ir/graph/kernel_call.hpp"
#include "ir/graph/op.hpp"
#include "ir/graph/packing.hpp"
#include "ir/graph/tensor.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// The one result of a node, by the node's index in its graph.
struct Value {
  uint32_t id = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

struct Type {
  DType dtype = DType::F32;
  Shape shape;
  // In elements, of inputs and outputs only; empty: row-major. Every value inside a graph is dense.
  std::vector<Dim> strides = {};
  friend bool operator==(const Type&, const Type&) = default;
};
std::string to_string(const Type& type);  // "bf16[M, 4096]", strided "bf16[M, 4096; 8192, 1]"

// What a Constant holds: a number known in full precision, which computes unrounded like a Python
// scalar in PyTorch, or a tensor of the node's dtype.
struct Literal {
  double value = 0;
};

struct Node {
  Op op = Op::Input;
  std::vector<Value> operands;
  Attrs attrs;
  Type type;
  std::string name;                      // unique in the graph; empty: the printer makes one
  std::optional<Literal> literal;        // Constant: this,
  std::shared_ptr<const Tensor> tensor;  // or this

  // The op's attributes. REQUIRES: T is the struct of the op's kind.
  template <class T>
  const T& get() const {
    return std::get<T>(attrs);
  }
  // The parameters of an elementwise op; none for other ops.
  const std::vector<double>& params() const;
  // The compute type that an elementwise op or a cast declares; none for other ops.
  std::optional<DType> compute() const;
  // Whether a cast saturates; false for other ops.
  bool saturates() const;
};

struct Output {
  std::string name;
  Value value;
};

class Graph {
 public:
  std::string name = "main";

  // Adding a node checks operands, attributes and types and infers the result's type.
  Result<Value> input(std::string name, Type type);
  Value literal(double value, DType dtype);
  Value constant(Tensor tensor);
  Result<Value> add(Op op, std::vector<Value> operands, Attrs attrs = {});
  // Names a node (unless the name is taken: then the error says so).
  Status set_name(Value value, std::string name);
  // Name empty: the node's name, else out0, out1, ...
  void add_output(Value value, std::string name = {});

  const Node& node(Value value) const { return nodes_[value.id]; }
  const Node& operator[](Value value) const { return nodes_[value.id]; }
  const Type& type(Value value) const { return nodes_[value.id].type; }
  size_t size() const { return nodes_.size(); }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::optional<Value> find(std::string_view name) const;
  std::vector<std::string> symbols() const;  // of the inputs' shapes, in order of appearance

 private:
  std::vector<Node> nodes_;
  std::vector<Value> inputs_;
  std::vector<Output> outputs_;
  std::map<std::string, Value, std::less<>> by_name_;
};

// users(g)[v.id] lists the nodes that read v, each once, ascending.
std::vector<std::vector<Value>> users(const Graph& graph);
// Nodes that reach an output; inputs always count as live.
std::vector<bool> live(const Graph& graph);
// Adds a copy of another graph's node, which reads `operands` of this graph. Only inputs keep their
// names. Fails if the op refuses the types of `operands`.
Result<Value> copy_node(Graph& into, const Node& node, std::vector<Value> operands);
// The same, reading moved[v.id] in place of each operand v.
Result<Value> copy_moved(Graph& into, const Node& node, const std::vector<Value>& moved);
// A copy without dead nodes.
Graph without_dead_nodes(const Graph& graph);

// The axis as a number in 0 <= axis < rank; a negative one counts from the end. `op` is named in
// the error.
Result<int64_t> normalise_axis(int64_t axis, int64_t rank, std::string_view op = {});

std::set<std::string> known_symbols(const Graph& graph);  // Graph::symbols()
// A symbol that no input's shape has can be given no value.
Status check_known(const std::set<std::string>& known, const std::vector<std::string>& symbols,
                   const std::string& where);

// Checks every invariant of a graph, wherever it comes from. A graph that Graph::add built holds
// them.
Status verify(const Graph& graph);

// The type of op(operands) under attrs, and attrs completed: defaults filled in, axes and slices
// normalised. The type rules of all ops live here (ir/graph/infer.cpp).
struct Inferred {
  Type type;
  Attrs attrs;
};
Result<Inferred> infer(Op op, const std::vector<Type>& operands, Attrs attrs);

// The values of the symbols, from the shapes of actual inputs. Errors name the input and the axis.
Result<SymbolValues> bind_symbols(const Graph& graph,
                                  const std::map<std::string, std::vector<int64_t>>& input_shapes);

}  // namespace attacca::ir
