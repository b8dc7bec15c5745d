// The text form of an epilogue: "silu(acc + row(bias)) * full(res)".
//
//   results := result {',' result}      result := [name '='] expression
//
// Expressions are those of the text form of graphs (docs/text-format.md), for one element, over
//
//   acc, acc0, acc1       accumulators: acc of one product, acc0 and acc1 of two
//   row(x)                an operand by its role: row, col, full or scalar; x alone names it again
//   row(x: f32)           of another dtype than TextOptions::operand
//   my_act(y)             a device function of the user's (TextOptions::functions)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/text/text.hpp"

namespace attacca::epilogue {

struct TextOptions {
  ir::DType accumulator = ir::DType::F32;  // the type of the kernel's accumulators: f32 or s32
  // The product's dtype in the graph, which is that of `acc`; eager mode rounds to it. None: the
  // first result's if the accumulator is f32, s32 if it is s32.
  std::optional<ir::DType> product = {};
  // Of operands that name none. None: the product's dtype, f32 where that is s32.
  std::optional<ir::DType> operand = {};
  // Of the results in order, the last one repeated; floats are cast to them. Empty: their own.
  std::vector<ir::DType> results = {ir::DType::BF16};
  // Device functions of the user's, to be called by name.
  std::vector<ir::ForeignFunction> functions = {};
  // The text's name for the single accumulator, instead of acc.
  std::string value = {};
};

// The `__device__ float NAME(float ..., float ...)` that CUDA C++ text defines or declares.
std::vector<ir::ForeignFunction> device_functions(std::string_view cuda);

struct TextEpilogue {
  Epilogue epilogue;               // over [M, N], in the order of the text, not canonical
  ir::Graph graph;                 // whose inputs and outputs the epilogue's values name
  std::vector<std::string> names;  // of the epilogue's inputs
};

Result<TextEpilogue> parse_text(std::string_view text, const TextOptions& options = {});

}  // namespace attacca::epilogue
