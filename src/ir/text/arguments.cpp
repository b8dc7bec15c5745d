#include "ir/text/arguments.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace attacca::ir {

const Argument* Arguments::positional(size_t position) const {
  const auto& arguments = call_.arguments;
  return position < arguments.size() && arguments[position].keyword.empty() ? &arguments[position]
                                                                            : nullptr;
}

const Argument* Arguments::take(std::string_view keyword, int position) {
  known_.push_back(keyword);
  const Argument* found = nullptr;
  for (const Argument& argument : call_.arguments)
    if (argument.keyword == keyword && found == nullptr) found = &argument;
  if (found == nullptr && position >= 0) found = positional(static_cast<size_t>(position));
  if (found != nullptr) taken_[static_cast<size_t>(found - call_.arguments.data())] = true;
  return found;
}

Result<const Argument*> Arguments::require(std::string_view keyword, int position,
                                           std::string_view example) {
  if (const Argument* argument = take(keyword, position)) return argument;
  return source_.fail(call_.offset, fmt::format("{} needs its {}", call_.name, keyword),
                      fmt::format("write it as in {}", example));
}

Result<std::vector<Operand>> Arguments::operands(size_t least, size_t most) {
  std::vector<Operand> result;
  while (result.size() < most) {
    const Argument* argument = positional(result.size());
    if (argument == nullptr) break;
    if (std::holds_alternative<std::vector<Dim>>(argument->of))
      return expected(*argument, "a value, not a list",
                      fmt::format("write {}(a, b) without brackets", call_.name));
    ATTACCA_TRY(const Operand operand, as_operand(*argument));
    taken_[result.size()] = true;
    result.push_back(operand);
  }
  if (result.size() < least)
    return source_.fail(call_.offset,
                        fmt::format("{} takes {} operand{}, got {}", call_.name, least,
                                    least == 1 ? "" : "s", result.size()),
                        "give the missing operand");
  return result;
}

bool Arguments::is_repeated(size_t index) const {
  const auto end = call_.arguments.begin() + static_cast<ptrdiff_t>(index);
  return std::any_of(call_.arguments.begin(), end,
                     [&](const Argument& earlier) { return earlier.keyword == end->keyword; });
}

Status Arguments::finish() const {
  const auto left = std::find(taken_.begin(), taken_.end(), false);
  if (left == taken_.end()) return {};
  const auto index = static_cast<size_t>(left - taken_.begin());
  const Argument& argument = call_.arguments[index];
  const std::string known = known_.empty()
                                ? fmt::format("{} takes no keywords", call_.name)
                                : fmt::format("{} takes {}=", call_.name, fmt::join(known_, "=, "));
  if (argument.keyword.empty())
    return source_.fail(argument.offset, fmt::format("too many arguments for {}", call_.name),
                        known_.empty() ? "remove it" : "remove it or name it; " + known);
  if (is_repeated(index))
    return source_.fail(argument.offset, fmt::format("{}= is given twice", argument.keyword),
                        "remove one");
  return source_.fail(argument.offset,
                      fmt::format("{} has no keyword {}", call_.name, argument.keyword), known);
}

tl::unexpected<Error> Arguments::expected(const Argument& argument, std::string_view what,
                                          std::string fix) const {
  const std::string name =
      argument.keyword.empty() ? "this argument" : fmt::format("{}=", argument.keyword);
  return source_.fail(argument.offset, fmt::format("{} of {} must be {}", name, call_.name, what),
                      std::move(fix));
}

const Number* Arguments::number_of(const Argument& argument) const {
  const auto* operand = std::get_if<Operand>(&argument.of);
  return operand ? operand->number() : nullptr;
}

Result<Operand> Arguments::as_operand(const Argument& argument) const {
  if (const auto* operand = std::get_if<Operand>(&argument.of)) return *operand;
  return expected(argument, "a value");
}

Result<int64_t> Arguments::as_integer(const Argument& argument) const {
  const Number* number = number_of(argument);
  constexpr double kLimit = 0x1p53;
  if (number && number->kind == NumberKind::Integer && number->exact &&
      std::fabs(number->value) <= kLimit)
    return static_cast<int64_t>(number->value);
  return expected(argument,
                  number && !number->exact ? "an integer that an f64 holds exactly" : "an integer");
}

Result<DType> Arguments::as_dtype(const Argument& argument) const {
  if (const auto* dtype = std::get_if<DType>(&argument.of)) return *dtype;
  return expected(argument, "a dtype", fmt::format("use one of {}", all_dtype_names()));
}

Result<std::vector<Dim>> Arguments::as_list(const Argument& argument) const {
  if (const auto* list = std::get_if<std::vector<Dim>>(&argument.of)) return *list;
  return expected(argument, "a list", "write it as [2, 3]");
}

Result<std::vector<int64_t>> Arguments::as_integers(const Argument& argument) const {
  ATTACCA_TRY(const std::vector<Dim> list, as_list(argument));
  std::vector<int64_t> integers;
  for (const Dim& dim : list) {
    if (!dim.is_static()) return expected(argument, "a list of integers", "write it as [2, 3]");
    integers.push_back(dim.value());
  }
  return integers;
}

Result<Value> Arguments::value(std::string_view keyword, int position, std::optional<DType> peer) {
  ATTACCA_TRY(const std::optional<Value> value, optional_value(keyword, position, peer));
  if (value) return *value;
  return source_.fail(call_.offset, fmt::format("{} needs its {}", call_.name, keyword),
                      "give the missing operand");
}

Result<std::optional<Value>> Arguments::optional_value(std::string_view keyword, int position,
                                                       std::optional<DType> peer) {
  const Argument* argument = take(keyword, position);
  if (argument == nullptr) return std::nullopt;
  ATTACCA_TRY(const Operand operand, as_operand(*argument));
  ATTACCA_TRY(const Value value, materialise(graph_, source_, operand, peer));
  return value;
}

Result<int64_t> Arguments::integer_or(std::string_view keyword, int64_t otherwise) {
  const Argument* argument = take(keyword);
  return argument ? as_integer(*argument) : Result<int64_t>(otherwise);
}

Result<double> Arguments::number_or(std::string_view keyword, double otherwise) {
  const Argument* argument = take(keyword);
  if (argument == nullptr) return otherwise;
  const Number* number = number_of(*argument);
  if (number && number->kind != NumberKind::Boolean && number->exact) return number->value;
  return expected(*argument,
                  number && !number->exact ? "an integer that an f64 holds exactly" : "a number");
}

Result<bool> Arguments::bool_or(std::string_view keyword, bool otherwise) {
  const Argument* argument = take(keyword);
  if (argument == nullptr) return otherwise;
  const Number* number = number_of(*argument);
  if (number && number->kind == NumberKind::Boolean) return number->value != 0;
  return expected(*argument, "true or false");
}

Result<std::optional<DType>> Arguments::optional_dtype(std::string_view keyword) {
  const Argument* argument = take(keyword);
  if (argument == nullptr) return std::nullopt;
  ATTACCA_TRY(const DType dtype, as_dtype(*argument));
  return dtype;
}

}  // namespace attacca::ir
