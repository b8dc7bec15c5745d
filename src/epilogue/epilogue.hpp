// An epilogue: what happens to GEMM accumulators before they reach memory. Inputs, an expression
// DAG, outputs, over a domain of output coordinates [batch..., M, N]. It depends on no kernel and
// no device. Equal epilogues of different graphs have the same text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::epilogue {

// How an input varies along the domain's last two axes. Batch axes do not matter.
enum class Role : uint8_t {
  Accumulator,
  Row,     // one value a column n, broadcast over rows: a bias of size N
  Column,  // one value a row m, broadcast over columns: a per-token scale
  Full,    // one value an element
  Scalar,  // one value
};
std::string_view name(Role role);  // "acc", "row", "col", "full", "scalar"

// The element of a tensor that domain coordinate (c0, ..., cm, cn) reads or writes:
// offset + sum(c[i] * strides[i]), in elements. One stride a domain axis; 0 broadcasts.
struct Access {
  ir::Dim offset = 0;
  std::vector<ir::Dim> strides;
  friend bool operator==(const Access&, const Access&) = default;
};

// Rows that a tensor of indices names: where the domain's row is r, the row is the element of
// `source` that the access, of one stride, reaches at r. Negative indices count from `extent`.
struct RowIndex {
  ir::Value source;
  Access access;
  ir::Dim extent;
  ir::DType dtype = ir::DType::S64;  // of the index in memory: s32 or s64
  friend bool operator==(const RowIndex&, const RowIndex&) = default;
};

struct Input {
  Role role = Role::Full;
  ir::DType dtype = ir::DType::F32;  // in memory; of an accumulator: f32 or s32 (f64 for f64 GEMMs)
  // Accumulator: column n of the domain reads column n * column_step + column_offset of this GEMM.
  // In eager mode it is first rounded to `rounded`, the matmul node's dtype.
  int gemm = 0;
  ir::Dim column_offset = 0;
  int64_t column_step = 1;
  ir::DType rounded = ir::DType::F32;
  // Other roles: the graph value that holds the operand, and how to reach it.
  ir::Value source;
  Access access;
  // Set: the access's row is the one that the index names. The domain is then [M, N].
  std::optional<RowIndex> rows = {};
  // Set, of a Row or a Scalar of a grouped product: each group reads its own row. The distance
  // between the rows of two groups, in elements. Rows of no group read the last group's. The domain
  // is then [M, N].
  std::optional<ir::Dim> group_stride = {};
};

// One step of the DAG. Operands index the list [inputs..., nodes...] and precede the node.
struct Node {
  ir::Op op = ir::Op::Add;  // elementwise, Cast, or Constant (a literal)
  std::vector<int> operands;
  std::vector<double> params;        // as ir::ElementwiseAttrs::params
  double literal = 0;                // Constant
  ir::DType dtype = ir::DType::F32;  // in the graph: what eager mode rounds to
  std::optional<ir::DType> compute;  // declared compute type: fp32 mode rounds to it too
  bool saturate = false;             // Cast
  // Not empty: the node calls the user's device function of that name, from f32 operands to an f32
  // value. `op` is then Input, which no host code computes: there is no host version.
  std::string function = {};
};

// A RowReduce gives one value a row (reduces n), a ColumnReduce one a column (reduces m, perhaps
// batch axes too), a FullReduce reduces both and perhaps batch axes, a BatchReduce batch axes alone
// and gives one value an element of a matrix. A ScatterAdd adds its rows to
// the rows of another tensor that an index names, in the order of the domain's rows.
enum class OutputKind : uint8_t {
  Store,
  RowReduce,
  ColumnReduce,
  FullReduce,
  ScatterAdd,
  BatchReduce
};

struct Output {
  OutputKind kind = OutputKind::Store;
  ir::Op reduction = ir::Op::Sum;    // the reduces: a reduction op of the table; ScatterAdd: itself
  int value = 0;                     // index into [inputs..., nodes...]
  ir::DType dtype = ir::DType::F32;  // in memory
  Access access;                     // 0 along the axes a reduce removes
  ir::Value result;                  // the graph value this materialises
  // ScatterAdd: the index, and what is added to, accessed by the result's axes.
  std::optional<RowIndex> rows = {};
  ir::Value base = {};
  Access base_access = {};
};

struct Epilogue {
  ir::Shape domain;  // [batch..., M, N]; a pointwise region of rank < 2 is padded with 1s in front
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<Output> outputs;
};

// The inputs whose rows an index names.
std::vector<size_t> indexed_inputs(const Epilogue& epilogue);
// Whether an input depends on the row's group.
bool reads_by_group(const Epilogue& epilogue);

// The same epilogue without what no output needs, and with inputs (accumulators first), nodes and
// outputs in an order that depends on the expression alone. Operands keep their order. Epilogues
// with the same text then number their inputs, nodes and outputs alike.
Epilogue canonicalize(const Epilogue& epilogue);

// Canonical text without shapes, products numbered as they appear. Equal for equal epilogues,
// whatever the graph's names, value ids, extents and strides are (only which of them are 0 or 1
// matters). The key of tuned choices.
std::string serialize(const Epilogue& epilogue);
// The same text with the epilogue's own order of inputs, nodes and outputs, which is that of a
// kernel's arguments. The key of compiled code.
std::string serialize_in_order(const Epilogue& epilogue);
uint64_t hash(const Epilogue& epilogue);

// A name for a value: its own, else that of the output it is, else t7 for node 7.
std::string node_name(const ir::Graph& graph, ir::Value value);
// The same for a terminal: control characters are written as \xNN.
std::string display_name(const ir::Graph& graph, ir::Value value);

// For people: "silu(acc + row(bias)) * full(res)", one for each Store output, with the graph's
// names.
std::string print(const Epilogue& epilogue, const ir::Graph& graph, const Output& output);

// acc (acc0, acc1 where there are several), row(bias), full(res), ...
std::string print(const Epilogue& epilogue, const ir::Graph& graph, const Input& input);
// Whether the strides are those of an operand of this role.
bool fits(Role role, const std::vector<ir::Dim>& strides);

// Index bounds, operand order, roles consistent with strides, one Access stride a domain axis.
Status verify(const Epilogue& epilogue);

}  // namespace attacca::epilogue
