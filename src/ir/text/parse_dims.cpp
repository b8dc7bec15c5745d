// Types, dimensions and constants of the text form.
#include <charconv>
#include <cmath>
#include <limits>

#include "fmt/format.h"

#include "ir/graph/size_functions.hpp"
#include "ir/sizes/formula.hpp"
#include "ir/text/dim_text.hpp"
#include "ir/text/parser.hpp"

namespace attacca::ir {
namespace {

// What stands for an integer: digits only.
bool is_integer_text(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The integer with the token's magnitude and this sign; nullopt beyond int64.
std::optional<int64_t> to_int64(std::string_view digits, bool negative) {
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
  constexpr uint64_t kMinimum = uint64_t{1} << 63;
  if (error != std::errc() || magnitude > kMinimum - (negative ? 0 : 1)) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
}

template <class T>
std::optional<T> to_real(std::string_view text) {
  if (text == "inf") return std::numeric_limits<T>::infinity();
  if (text == "nan") return std::numeric_limits<T>::quiet_NaN();
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<Number> parse_number(const SourceText& source, const Token& token) {
  const std::optional<double> value = to_real<double>(token.text);
  if (!value)
    return source.fail(token.offset, fmt::format("{} is outside the range of f64", token.text),
                       "use a number between 1e-307 and 1e308");
  if (token.kind == TokenKind::Name || !is_integer_text(token.text))
    return Number{*value, NumberKind::Real, true};
  uint64_t integer = 0;
  const auto [end, error] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), integer);
  if (error != std::errc() || integer > uint64_t{1} << 63)
    return source.fail(token.offset, fmt::format("the integer {} overflows 64 bits", token.text),
                       "write a real number, e.g. 1e20");
  return Number{*value, NumberKind::Integer, static_cast<uint64_t>(*value) == integer};
}

Result<DType> Parser::dtype() {
  const Token& token = peek();
  const auto dtype = token.kind == TokenKind::Name ? parse_dtype(token.text) : std::nullopt;
  if (!dtype)
    return source_.fail(token.offset, fmt::format("unknown dtype {}", describe(token)),
                        fmt::format("use one of {}", all_dtype_names()));
  take();
  return *dtype;
}

// dims := [dim {',' dim}], up to one of the symbols in `close`.
Result<std::vector<Dim>> Parser::dims(std::string_view close) {
  std::vector<Dim> list;
  const auto at_end = [&] {
    return peek().kind == TokenKind::Symbol && close.find(peek().text) != std::string_view::npos;
  };
  while (!at_end()) {
    ATTACCA_TRY(Dim dim, this->dim());
    list.push_back(std::move(dim));
    if (!accept(",")) break;
  }
  return list;
}

// dim := product {('+' | '-') product}
Result<Dim> Parser::dim() {
  const size_t offset = peek().offset;
  ATTACCA_TRY(Dim sum, dim_product());
  while (peek().is("+") || peek().is("-")) {
    const bool plus = take().is("+");
    ATTACCA_TRY(const Dim product, dim_product());
    sum = plus ? sum + product : sum - product;
  }
  if (sum.overflowed())
    return source_.fail(offset, "the dimension overflows 64 bits or has too many factors or terms",
                        "use smaller dimensions");
  return sum;
}

Result<Dim> Parser::lone_dim(const std::map<std::string, Dim>& names) {
  dim_names_ = &names;
  ATTACCA_TRY(Dim dim, this->dim());
  ATTACCA_TRY_VOID(end_of_text());
  return dim;
}

// A dimension of the inputs' symbols.
Result<Dim> Parser::known_dim() {
  const size_t offset = peek().offset;
  ATTACCA_TRY(Dim dim, this->dim());
  ATTACCA_TRY_VOID(check_symbols(offset, {&dim, 1}));
  return dim;
}

Status Parser::check_symbols(size_t offset, std::span<const Dim> dims) const {
  std::vector<std::string> symbols;
  for (const Dim& dim : dims) dim.collect_symbols(symbols);
  return check_symbols(offset, symbols);
}

// In a text without a header, the inputs do not declare the symbols.
Status Parser::check_symbols(size_t offset, const std::vector<std::string>& symbols) const {
  if (free_type_ != nullptr || foreign_ != nullptr) return {};
  Status known = check_known(known_symbols_, symbols, {});
  if (!known) return source_.place(offset, std::move(known).error());
  return {};
}

// product := factor {'*' factor}
Result<Dim> Parser::dim_product() {
  ATTACCA_TRY(Dim product, dim_factor());
  while (accept("*")) {
    ATTACCA_TRY(const Dim factor, dim_factor());
    product = product * factor;
  }
  return product;
}

// factor := ['-'] (integer | symbol | ('floordiv' | 'min' | 'max') '(' dim ',' dim ')')
Result<Dim> Parser::dim_factor() {
  const bool negative = accept("-");
  const Token& token = peek();
  if (token.kind == TokenKind::Name && peek(1).is("(") && size_function(token.text)) {
    ATTACCA_TRY(const Dim size, dim_function());
    return negative ? size * Dim(-1) : size;
  }
  if (token.kind == TokenKind::Name && dim_names_ != nullptr) {
    const auto known = dim_names_->find(std::string(token.text));
    if (known == dim_names_->end()) return unexpected("a known size");
    take();
    return negative ? known->second * Dim(-1) : known->second;
  }
  if (token.kind == TokenKind::Name && !is_reserved(token.text)) {
    const Dim symbol = Dim::symbol(std::string(take().text));
    return negative ? symbol * Dim(-1) : symbol;
  }
  if (token.kind != TokenKind::Number || !is_integer_text(token.text))
    return unexpected("a dimension", "dimensions are integers, symbols, or as in 2*M + 1");
  const auto integer = to_int64(take().text, negative);
  if (!integer)
    return source_.fail(token.offset, fmt::format("the dimension {} overflows 64 bits", token.text),
                        "use smaller dimensions");
  return Dim(*integer);
}

Result<Dim> Parser::dim_function() {
  constexpr int kMostNesting = 32;
  const Token name = take(), open = take();
  if (++size_nesting_ > kMostNesting)
    return source_.fail(name.offset, fmt::format("sizes nest deeper than {}", kMostNesting),
                        "name a size with a symbol of its own");
  ATTACCA_TRY(const Dim a, dim());
  ATTACCA_TRY_VOID(expect(","));
  ATTACCA_TRY(const Dim b, dim());
  ATTACCA_TRY_VOID(close(")", open));
  --size_nesting_;
  switch (*size_function(name.text)) {
    case SizeFunction::FloorDiv:
      return floor_div(a, b);
    case SizeFunction::Min:
      return minimum(a, b);
    case SizeFunction::Max:
      return maximum(a, b);
  }
  return Dim();
}

Result<Dim> parse_dim(std::string_view text, const std::map<std::string, Dim>& names) {
  const SourceText source{text, "<dimension>"};
  ATTACCA_TRY(const std::vector<Token> tokens, tokenize(source));
  return Parser(source, tokens).lone_dim(names);
}

// 'constant' '(' number ',' dtype ')' | 'constant' '(' dtype '[' dims ']' ',' '[' numbers ']' ')'
bool Parser::constant(Operand& into) {
  const Token& name = take();
  const Token& open = take();
  into.offset = name.offset;
  if (peek().kind == TokenKind::Name && parse_dtype(peek().text))
    return apart([&]() -> Status {
      ATTACCA_TRY(const DType dtype, this->dtype());
      ATTACCA_TRY(into.of, constant_tensor(dtype));
      return close(")", open);
    });
  Operand number;
  return expression(number) && apart([&] { return constant_number(open, number, into); });
}

Status Parser::constant_number(const Token& open, const Operand& number, Operand& into) {
  if (!number.number())
    return source_.fail(number.offset, "constant takes a number", "write constant(1.5, bf16)");
  ATTACCA_TRY_VOID(expect(","));
  ATTACCA_TRY(const DType dtype, this->dtype());
  ATTACCA_TRY_VOID(close(")", open));
  ATTACCA_TRY(into.of, literal(graph_, source_, number.offset, *number.number(), dtype));
  return {};
}

// After the dtype: '[' dims ']' ',' '[' [['-'] number {',' ['-'] number}] ']'
Result<Value> Parser::constant_tensor(DType dtype) {
  const Token open = peek();
  ATTACCA_TRY_VOID(expect("["));
  ATTACCA_TRY(const std::vector<Dim> shape, dims("]"));
  ATTACCA_TRY_VOID(close("]", open));
  ATTACCA_TRY_VOID(expect(","));
  const Token list = peek();
  ATTACCA_TRY_VOID(expect("["));
  ATTACCA_TRY(const std::vector<Element> elements, constant_elements());
  ATTACCA_TRY_VOID(close("]", list));
  std::vector<int64_t> extents;
  for (const Dim& dim : shape) {
    if (!dim.is_static() || dim.value() < 0)
      return source_.fail(open.offset, fmt::format("a constant of shape {}", to_string(shape)),
                          "the shape of a constant is made of integers");
    extents.push_back(dim.value());
  }
  const auto given = static_cast<int64_t>(elements.size());
  const Dim wanted = element_count(shape);
  if (!wanted.is(given))
    return source_.fail(list.offset,
                        fmt::format("{}{} has {} elements, got {}", ir::name(dtype),
                                    to_string(shape), to_string(wanted), given),
                        "list every element, row by row");
  auto tensor = Tensor::make(dtype, std::move(extents));
  if (!tensor) return source_.place(open.offset, std::move(tensor).error());
  for (int64_t i = 0; i < given; ++i)
    ATTACCA_TRY_VOID(store(*tensor, i, elements[static_cast<size_t>(i)]));
  return graph_.constant(*std::move(tensor));
}

Result<std::vector<Parser::Element>> Parser::constant_elements() {
  std::vector<Element> elements;
  while (!peek().is("]")) {
    const bool negative = accept("-");
    const Token& token = peek();
    const bool word = token.is_word("inf") || token.is_word("nan") || token.is_word("true") ||
                      token.is_word("false");
    if (!word && token.kind != TokenKind::Number) return unexpected("a number");
    elements.push_back({take(), negative});
    if (!accept(",")) break;
  }
  return elements;
}

// Integers are stored exactly, and f32 from its own digits: rounding through f64 could differ.
Status Parser::store(Tensor& tensor, int64_t at, const Element& element) {
  const Token& token = element.number;
  const bool negative = element.negative;
  const auto misfit = [&] {
    return source_.fail(token.offset,
                        fmt::format("{}{} is no value of {}", negative ? "-" : "", token.text,
                                    ir::name(tensor.dtype())),
                        "change the number or the constant's dtype");
  };
  const DType dtype = tensor.dtype();
  const bool boolean = token.text == "true" || token.text == "false";
  if (boolean || !is_float(dtype)) {
    const auto integer = boolean ? std::optional(int64_t{token.text == "true"})
                         : is_integer_text(token.text) ? to_int64(token.text, negative)
                                                       : std::nullopt;
    if (!integer || (boolean && (negative || dtype != DType::Bool)) ||
        to_integer(dtype, *integer, Overflow::Ieee) != *integer)
      return misfit();
    tensor.set_integer(at, *integer);
  } else if (dtype == DType::F32) {
    const auto value = to_real<float>(token.text);
    if (!value) return misfit();
    tensor.as<float>()[at] = negative ? -*value : *value;
  } else {
    const auto value = to_real<double>(token.text);
    if (!value || (std::isfinite(*value) && !std::isfinite(round_to(dtype, *value))))
      return misfit();
    tensor.set_number(at, negative ? -*value : *value);
  }
  return {};
}

}  // namespace attacca::ir
