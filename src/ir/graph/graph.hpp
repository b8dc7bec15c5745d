// The graph: typed SSA in one vector, operands before users, so that it cannot hold a cycle.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// x[begin:end:step] along one axis; begin and end normalised to 0 <= begin <= end <= extent.
// A step is positive, or negative with begin >= end as in Python after normalisation.
struct SliceRange {
  Dim begin = 0;
  Dim end = 0;
  int64_t step = 1;
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

// The attributes of a node. Which fields an op reads stands in the op table (OpInfo::attributes);
// the others keep their defaults.
struct Attrs {
  std::vector<double> params;  // Params: all of the op's, in table order
  // Axes: a permutation. Reduction: the reduced axes, ascending. Blocks: a block's extents
  std::vector<int64_t> axes;
  bool keepdims = false;           // Reduction
  int64_t axis = 0;                // Axis: normalised to 0 <= axis < rank
  Shape shape;                     // Shape, Kernel, Packing: the result's
  std::vector<SliceRange> slices;  // Slices: one an axis
  std::optional<DType> dtype;      // Cast, Kernel, DType (matmul): the result's; required there
  bool saturate = false;           // Cast: Overflow::Saturate
  bool fast = false;  // DType: products of 8-bit floats may be summed by tensor cores alone, about
                      // 14 bits of each sum; else as f32
  Packing packing;    // Packing: the operand's; dtype is what its weights become
  // Elementwise: the declared compute type. None: f32 (f64 for f64) in fp32 mode.
  std::optional<DType> compute;
  std::optional<KernelCall> kernel;  // Kernel
  friend bool operator==(const Attrs&, const Attrs&) = default;
};

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
// Adds a node of another graph, reading `operands` of this one; names of non-inputs are not copied.
// Fails where the operands' types differ and the op refuses them.
Result<Value> copy_node(Graph& into, const Node& node, std::vector<Value> operands);
// A copy without dead nodes.
Graph without_dead_nodes(const Graph& graph);

// The first of these symbols that no input's shape has; empty: it has all of them.
std::string unknown_symbol(const Graph& graph, const std::vector<std::string>& symbols);

// Checks every invariant of a graph from whatever source. Graphs built through Graph::add hold
// them.
Status verify(const Graph& graph);

// The type of op(operands) under attrs, and attrs completed: defaults filled in, axes and slices
// normalised. The type rules of all ops live here (ir/graph/infer.cpp).
struct Inferred {
  Type type;
  Attrs attrs;
};
Result<Inferred> infer(Op op, const std::vector<Type>& operands, Attrs attrs);

// The symbols' values from actual input shapes; errors name the input and the axis.
Result<SymbolValues> bind_symbols(const Graph& graph,
                                  const std::map<std::string, std::vector<int64_t>>& input_shapes);

}  // namespace attacca::ir
