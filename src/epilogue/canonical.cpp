// Canonical order and text. Colours (hashes of what a step computes and of its readers) order what
// the graph leaves unordered. The text contains everything, so if two hashes are equal by chance,
// equal epilogues may get two texts, but different ones never get the same.
#include <algorithm>
#include <bit>
#include <numeric>

#include "fmt/format.h"

#include "epilogue/epilogue.hpp"
#include "support/check.hpp"
#include "support/hash.hpp"

namespace attacca::epilogue {
namespace {

using ir::Dim;
using Colour = uint64_t;

// 0 and 1 as they are, any other extent or stride alike.
std::string_view extent_class(const Dim& dim) {
  return dim.is(0) ? "0" : dim.is(1) ? "1" : "s";
}

std::string access_text(const Access& access) {
  std::vector<std::string_view> strides;
  for (const Dim& stride : access.strides) strides.push_back(extent_class(stride));
  return fmt::format("[{}{}]", fmt::join(strides, " "), access.offset.is(0) ? "" : " +o");
}

std::string input_text(const Input& input) {
  if (input.role != Role::Accumulator)
    return fmt::format("{} {} {}{}{}", name(input.role), name(input.dtype),
                       access_text(input.access),
                       input.rows ? fmt::format(" rows by {}", name(input.rows->dtype)) : "",
                       input.group_stride ? " by group" : "");
  return fmt::format("acc {} rounded={} step={} offset={}", name(input.dtype), name(input.rounded),
                     input.column_step, input.column_offset.is(0) ? "0" : "o");
}

// A node without its operands.
std::string node_text(const Node& node) {
  std::string text(name(node.op));
  if (!node.function.empty()) text += fmt::format(" {}()", node.function);
  if (node.op == ir::Op::Constant) text += fmt::format(" {}", node.literal);
  for (const double param : node.params) text += fmt::format(" {}", param);
  text += fmt::format(" :{}", name(node.dtype));
  if (node.compute) text += fmt::format(" compute={}", name(*node.compute));
  if (node.saturate) text += " saturate";
  return text;
}

std::string_view kind_text(OutputKind kind) {
  switch (kind) {
    case OutputKind::Store:
      return "store";
    case OutputKind::RowReduce:
      return "row";
    case OutputKind::ColumnReduce:
      return "column";
    case OutputKind::FullReduce:
      return "all";
    case OutputKind::ScatterAdd:
      return "rows";
    case OutputKind::BatchReduce:
      return "batch";
  }
  ATTACCA_CHECK(false, "no kind of output");
}

std::string output_text(const Output& output) {
  std::string text(kind_text(output.kind));
  if (output.kind != OutputKind::Store) text += fmt::format(" {}", name(output.reduction));
  return fmt::format("{} {} {}", text, name(output.dtype), access_text(output.access));
}

Colour colour_of(std::string_view text) {
  return hash64(text);
}

Colour mix(Colour a, Colour b) {
  return (std::rotl(a, 17) ^ b) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
}

// max and min of -0 and +0 depend on the order of operands, so their order is kept.
bool is_unordered(ir::Op op) {
  return ir::info(op).commutative && op != ir::Op::Max && op != ir::Op::Min;
}

class Canonical {
 public:
  explicit Canonical(const Epilogue& epilogue)
      : from_(epilogue), inputs_(static_cast<int>(epilogue.inputs.size())) {
    for (const Input& input : from_.inputs) own_.push_back(colour_of(input_text(input)));
    for (const Node& node : from_.nodes) own_.push_back(colour_of(node_text(node)));
    for (const Output& output : from_.outputs) of_output_.push_back(colour_of(output_text(output)));
    height_.resize(own_.size(), 0);
    for (size_t i = 0; i < from_.nodes.size(); ++i)
      for (const int operand : from_.nodes[i].operands)
        height_[inputs_ + i] = std::max(height_[inputs_ + i], height_[operand] + 1);
    // Leaves of one kind differ in their readers. Three rounds propagate that.
    for (int round = 0; round < 3; ++round) refine();
  }

  Epilogue run() {
    std::vector<size_t> outputs(from_.outputs.size());
    std::iota(outputs.begin(), outputs.end(), 0);
    const auto key = [&](size_t i) { return mix(of_output_[i], colour_[from_.outputs[i].value]); };
    std::stable_sort(outputs.begin(), outputs.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    placed_.assign(own_.size(), -1);
    for (const size_t output : outputs) place(from_.outputs[output].value);
    std::stable_partition(input_order_.begin(), input_order_.end(),
                          [&](int input) { return from_.inputs[input].role == Role::Accumulator; });
    return rebuild(outputs);
  }

 private:
  void refine() {
    std::vector<Colour> up = own_;
    if (!colour_.empty()) std::copy_n(colour_.begin(), inputs_, up.begin());
    for (size_t i = 0; i < from_.nodes.size(); ++i) {
      std::vector<Colour> operands;
      for (const int operand : from_.nodes[i].operands) operands.push_back(up[operand]);
      if (is_unordered(from_.nodes[i].op)) std::sort(operands.begin(), operands.end());
      for (const Colour operand : operands) up[inputs_ + i] = mix(up[inputs_ + i], operand);
    }
    std::vector<Colour> readers(own_.size(), 0);  // sums: readers have no order
    for (size_t i = 0; i < from_.outputs.size(); ++i)
      readers[from_.outputs[i].value] += mix(of_output_[i], 1);
    for (size_t i = from_.nodes.size(); i-- > 0;) {
      const Node& node = from_.nodes[i];
      const Colour here = mix(up[inputs_ + i], readers[inputs_ + i]);
      for (size_t k = 0; k < node.operands.size(); ++k)
        readers[node.operands[k]] += mix(here, is_unordered(node.op) ? 2 : 3 + k);
    }
    colour_.resize(own_.size());
    for (size_t i = 0; i < own_.size(); ++i) colour_[i] = mix(up[i], readers[i]);
  }

  // Of unordered operands the deepest comes first: a gate's activation before its linear half.
  std::vector<int> ordered_operands(int ref) const {
    const Node& node = from_.nodes[ref - inputs_];
    std::vector<int> operands = node.operands;
    if (is_unordered(node.op))
      std::stable_sort(operands.begin(), operands.end(), [&](int a, int b) {
        return std::pair(-height_[a], colour_[a]) < std::pair(-height_[b], colour_[b]);
      });
    return operands;
  }

  // Operands before the node; a loop, for chains of any length.
  void place(int root) {
    std::vector<std::pair<int, bool>> stack = {{root, false}};
    while (!stack.empty()) {
      const auto [ref, ready] = stack.back();
      stack.pop_back();
      if (placed_[ref] >= 0) continue;
      if (ref < inputs_ || ready) {
        std::vector<int>& order = ref < inputs_ ? input_order_ : node_order_;
        placed_[ref] = 0;
        order.push_back(ref);
        continue;
      }
      stack.push_back({ref, true});
      const std::vector<int> operands = ordered_operands(ref);
      for (size_t k = operands.size(); k-- > 0;) stack.push_back({operands[k], false});
    }
  }

  Epilogue rebuild(const std::vector<size_t>& outputs) {
    Epilogue result;
    result.domain = from_.domain;
    int next = 0;
    for (const int input : input_order_) {
      placed_[input] = next++;
      result.inputs.push_back(from_.inputs[input]);
    }
    for (const int ref : node_order_) {
      placed_[ref] = next++;
      Node node = from_.nodes[ref - inputs_];
      for (int& operand : node.operands) operand = placed_[operand];
      result.nodes.push_back(std::move(node));
    }
    for (const size_t i : outputs) {
      result.outputs.push_back(from_.outputs[i]);
      result.outputs.back().value = placed_[from_.outputs[i].value];
    }
    return result;
  }

  const Epilogue& from_;
  int inputs_;
  std::vector<Colour> own_, of_output_, colour_;
  std::vector<int> height_, placed_, input_order_, node_order_;
};

std::string ref_text(const Epilogue& epilogue, int ref) {
  const int inputs = static_cast<int>(epilogue.inputs.size());
  return ref < inputs ? fmt::format("i{}", ref) : fmt::format("n{}", ref - inputs);
}

}  // namespace

Epilogue canonicalize(const Epilogue& epilogue) {
  return Canonical(epilogue).run();
}

std::string serialize(const Epilogue& epilogue) {
  return serialize_in_order(canonicalize(epilogue));
}

std::string serialize_in_order(const Epilogue& epilogue) {
  std::string text = fmt::format("epilogue rank={}\n", epilogue.domain.size());
  std::vector<int> gemms;  // numbered as they appear
  for (size_t i = 0; i < epilogue.inputs.size(); ++i) {
    const Input& input = epilogue.inputs[i];
    text += fmt::format("i{} = {}", i, input_text(input));
    if (input.role == Role::Accumulator) {
      const auto known = std::find(gemms.begin(), gemms.end(), input.gemm);
      text += fmt::format(" gemm={}", known - gemms.begin());
      if (known == gemms.end()) gemms.push_back(input.gemm);
    }
    text += '\n';
  }
  for (size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const Node& node = epilogue.nodes[i];
    std::vector<int> operands = node.operands;
    if (is_unordered(node.op)) std::sort(operands.begin(), operands.end());
    text += fmt::format("n{} = {}", i, node_text(node));
    for (const int operand : operands) text += " " + ref_text(epilogue, operand);
    text += '\n';
  }
  for (const Output& output : epilogue.outputs)
    text += fmt::format("{} = {}\n", output_text(output), ref_text(epilogue, output.value));
  return text;
}

uint64_t hash(const Epilogue& epilogue) {
  return hash64(serialize(epilogue));
}

}  // namespace attacca::epilogue
