#include "ir/text/rules.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace attacca::ir {
namespace {

constexpr Infix kInfix[] = {
    {"<", Op::Lt, Precedence::Comparison},  {"<=", Op::Le, Precedence::Comparison},
    {">", Op::Gt, Precedence::Comparison},  {">=", Op::Ge, Precedence::Comparison},
    {"==", Op::Eq, Precedence::Comparison}, {"!=", Op::Ne, Precedence::Comparison},
    {"+", Op::Add, Precedence::Sum},        {"-", Op::Sub, Precedence::Sum},
    {"*", Op::Mul, Precedence::Product},    {"/", Op::Div, Precedence::Product},
    {"@", Op::MatMul, Precedence::Product},
};

// Insertions, deletions, replacements and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), d[i - 1][j] + 1, d[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// Bool, integers, floats: what NumberKind is compared with.
NumberKind kind_of(DType dtype) {
  if (is_float(dtype)) return NumberKind::Real;
  return is_integer(dtype) ? NumberKind::Integer : NumberKind::Boolean;
}

}  // namespace

const Infix* find_infix(std::string_view symbol) {
  for (const Infix& entry : kInfix)
    if (entry.symbol == symbol) return &entry;
  return nullptr;
}

const Infix* find_infix(Op op) {
  if (op == Op::MatMul) return nullptr;
  for (const Infix& entry : kInfix)
    if (entry.op == op) return &entry;
  return nullptr;
}

OperandRange adapting_operands(Op op, size_t index, size_t arity) {
  if (op == Op::Where) return index == 0 ? OperandRange{0, 1} : OperandRange{1, arity};
  if (is_elementwise(op)) return {0, arity};
  return {index, index + 1};
}

DType number_dtype(NumberKind kind, std::optional<DType> peer) {
  if (!peer) return kind == NumberKind::Boolean ? DType::Bool : DType::F32;
  if (kind <= kind_of(*peer)) return *peer;
  return kind == NumberKind::Integer ? DType::S64 : DType::F32;
}

DType number_dtype(Op op, size_t index, NumberKind kind, std::optional<DType> peer) {
  const bool indexed = op == Op::Gather || op == Op::Scatter || op == Op::ScatterAdd;
  const bool is_index = indexed && index == 1;
  if (is_index && kind == NumberKind::Integer) return DType::S64;
  return number_dtype(kind, peer);
}

bool is_reserved(std::string_view word) {
  constexpr std::string_view kWords[] = {"return", "true", "false", "inf", "nan"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords) ||
         parse_dtype(word).has_value();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string_view best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < least) least = distance, best = candidate;
  }
  return best;
}

}  // namespace attacca::ir
