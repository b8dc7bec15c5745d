// The arguments of a call in the text form. The code for the call takes the arguments that it
// knows; an argument that remains is an error, which lists the known ones.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/text/operand.hpp"

namespace attacca::ir {

struct Argument {
  std::string_view keyword;  // empty: positional
  std::variant<Operand, DType, std::vector<Dim>> of;
  size_t offset = 0;
};

struct Call {
  std::string_view name;
  size_t offset = 0;
  std::vector<Argument> arguments;  // positional ones first
};

class Arguments {
 public:
  Arguments(Graph& graph, const SourceText& source, const Call& call)
      : graph_(graph), source_(source), call_(call), taken_(call.arguments.size(), false) {}

  // The argument of this keyword, or else (position >= 0) the positional one; nullptr where the
  // call has neither.
  const Argument* take(std::string_view keyword, int position = -1);
  // The same, but its absence is an error.
  Result<const Argument*> require(std::string_view keyword, int position, std::string_view example);
  // The leading positional expressions, at most `most`.
  Result<std::vector<Operand>> operands(size_t least, size_t most);

  Result<Value> value(std::string_view keyword, int position, std::optional<DType> peer = {});
  Result<std::optional<Value>> optional_value(std::string_view keyword, int position,
                                              std::optional<DType> peer = {});
  Result<int64_t> integer_or(std::string_view keyword, int64_t otherwise);
  Result<double> number_or(std::string_view keyword, double otherwise);
  Result<bool> bool_or(std::string_view keyword, bool otherwise);
  Result<std::optional<DType>> optional_dtype(std::string_view keyword);

  // Every argument must have been taken.
  Status finish() const;

  Result<int64_t> as_integer(const Argument& argument) const;
  Result<DType> as_dtype(const Argument& argument) const;
  Result<std::vector<Dim>> as_list(const Argument& argument) const;
  Result<std::vector<int64_t>> as_integers(const Argument& argument) const;

  tl::unexpected<Error> expected(const Argument& argument, std::string_view what,
                                 std::string fix = {}) const;

 private:
  const Argument* positional(size_t position) const;
  Result<Operand> as_operand(const Argument& argument) const;
  const Number* number_of(const Argument& argument) const;
  bool is_repeated(size_t index) const;

  Graph& graph_;
  const SourceText& source_;
  const Call& call_;
  std::vector<bool> taken_;
  std::vector<std::string_view> known_;  // keywords asked for so far
};

}  // namespace attacca::ir
