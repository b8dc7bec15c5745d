// What the text form's parser and printer must agree on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph/dtype.hpp"
#include "ir/graph/op.hpp"

namespace attacca::ir {

// The deepest nesting of brackets, calls and signs that the parser accepts. The printer names
// intermediate values to stay well below it.
inline constexpr int kMaxNesting = 256;
inline constexpr int kMaxPrintedNesting = 64;

// How tightly expressions bind, loosest first.
enum class Precedence : uint8_t { Lowest, Comparison, Sum, Product, Unary, Primary };
constexpr Precedence tighter(Precedence precedence) {
  return static_cast<Precedence>(static_cast<int>(precedence) + 1);
}

// The infix operators. `@` is matmul, which prints as a call.
struct Infix {
  std::string_view symbol;
  Op op;
  Precedence precedence;
};
const Infix* find_infix(std::string_view symbol);
const Infix* find_infix(Op op);  // nullptr where the op prints as a call

// A number without a declared dtype. `1` is an Integer, `1.0` and `inf` are Real.
enum class NumberKind : uint8_t { Boolean, Integer, Real };

// The operands whose dtypes a number at `index` adapts to: [first, last).
struct OperandRange {
  size_t first, last;
};
OperandRange adapting_operands(Op op, size_t index, size_t arity);
// The dtype of a number at operand `index`; `peer` is the dtype of the first of adapting_operands
// that has one. As for Python's scalars in PyTorch, it is the peer's dtype, unless the number's
// kind is wider than the peer's; f32 without a peer.
DType number_dtype(Op op, size_t index, NumberKind kind, std::optional<DType> peer);
DType number_dtype(NumberKind kind, std::optional<DType> peer = {});

// Dtypes, `return`, `true`, `false`, `inf`, `nan`: no plain names.
bool is_reserved(std::string_view word);

// The candidate nearest to a misspelt word by edits, or empty where none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace attacca::ir
