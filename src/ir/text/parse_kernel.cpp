// The call of a user's kernel: arguments in the order of its parameters, then the launch.
#include "fmt/format.h"

#include "ir/text/parser.hpp"

namespace attacca::ir {
namespace {

constexpr std::string_view kKeywords = "entry=, grid=, block=, shared=, zeroed=, options=";

}  // namespace

// 'kernel' '(' file {',' (argument | keyword '=' ...)} ')'
bool Parser::kernel(Operand& into) {
  const Token& name = take();
  const Token& open = take();
  const auto parts = std::make_unique<KernelParts>();  // too large for the frame of a recursion
  return apart([&] { return kernel_file(*parts); }) && kernel_arguments(*parts) &&
         apart([&] { return close(")", open); }) &&
         apart([&] { return finish(name, *parts, into); });
}

Status Parser::kernel_file(KernelParts& parts) {
  if (peek().kind != TokenKind::Quoted)
    return unexpected("a quoted file", "begin with it: kernel(\"gemm.cu\", ...)");
  parts.attrs.call.file = decode_name(take());
  return {};
}

bool Parser::kernel_arguments(KernelParts& parts) {
  while (accept(",")) {
    if (peek().is(")")) break;
    bool is_expression = false;
    if (!apart([&] { return kernel_plain_argument(parts, is_expression); })) return false;
    if (!is_expression) continue;
    Operand operand;
    if (!expression(operand)) return false;
    if (!apart([&] { return kernel_tensor(parts, operand); })) return false;
  }
  return true;
}

Status Parser::finish(const Token& name, KernelParts& parts, Operand& into) {
  auto value = graph_.add(Op::Kernel, std::move(parts.operands), std::move(parts.attrs));
  if (!value) return source_.place(name.offset, std::move(value).error());
  into = {*value, name.offset};
  return {};
}

// argument := type | dtype '(' size-or-number ')' | expression; all but an expression is read.
Status Parser::kernel_plain_argument(KernelParts& parts, bool& is_expression) {
  const Token& token = peek();
  if (token.kind == TokenKind::Name && peek(1).is("=")) return kernel_keyword(parts);
  if (!parts.keywords.empty())
    return source_.fail(token.offset, "a positional argument after a keyword", "put keywords last");
  is_expression = token.kind != TokenKind::Name || !parse_dtype(token.text);
  if (is_expression) return {};
  if (peek(1).is("[")) return kernel_result(parts);
  ATTACCA_TRY(ScalarArgument scalar, kernel_scalar());
  parts.attrs.call.arguments.emplace_back(std::move(scalar));
  return {};
}

Status Parser::kernel_result(KernelParts& parts) {
  const size_t offset = peek().offset;
  ATTACCA_TRY(Type type, this->type());
  if (!type.strides.empty())
    return source_.fail(offset, "the result of a kernel has strides",
                        "a kernel writes its result row by row: leave them out");
  parts.attrs.call.arguments.emplace_back(OutputArgument{});
  parts.attrs.dtype = type.dtype;
  parts.attrs.shape = std::move(type.shape);
  return check_symbols(offset, parts.attrs.shape);
}

Status Parser::kernel_tensor(KernelParts& parts, const Operand& operand) {
  if (operand.number())
    return source_.fail(operand.offset, "a number without a dtype",
                        "say how the kernel takes it: s32(4096), f32(0.5)");
  parts.attrs.call.arguments.emplace_back(TensorArgument{});
  parts.operands.push_back(*operand.value());
  return {};
}

// dtype '(' (size | ['-'] number) ')'
Result<ScalarArgument> Parser::kernel_scalar() {
  ScalarArgument scalar;
  ATTACCA_TRY(scalar.dtype, dtype());
  const Token open = peek();
  if (!accept("("))
    return unexpected("'(' or '['",
                      fmt::format("write {0}(4096) for a number, {0}[M, 64] for the result",
                                  ir::name(scalar.dtype)));
  if (is_float(scalar.dtype)) {
    const bool is_negative = accept("-");
    const Token& token = peek();
    if (token.kind != TokenKind::Number && !token.is_word("inf") && !token.is_word("nan"))
      return unexpected("a number");
    ATTACCA_TRY(const Number number, parse_number(source_, take()));
    scalar.number = is_negative ? -number.value : number.value;
  } else {
    ATTACCA_TRY(scalar.number, launch_size());
  }
  ATTACCA_TRY_VOID(close(")", open));
  return scalar;
}

// size := dim | factor {'*' factor}; factor := 'ceildiv' '(' dim ',' dim ')' | '(' dim ')' | dim
Result<LaunchSize> Parser::launch_size() {
  LaunchSize size;
  const size_t offset = peek().offset;
  do {
    const Token open = peek();
    if (accept("(")) {
      ATTACCA_TRY(const Dim sum, dim());
      ATTACCA_TRY_VOID(close(")", open));
      size.scale = size.scale * sum;
    } else if (open.is_word("ceildiv") && peek(1).is("(")) {
      take(), take();
      LaunchSize::Quotient quotient;
      ATTACCA_TRY(quotient.of, dim());
      ATTACCA_TRY_VOID(expect(","));
      ATTACCA_TRY(quotient.by, dim());
      ATTACCA_TRY_VOID(close(")", open));
      size.quotients.push_back(std::move(quotient));
    } else {
      ATTACCA_TRY(const Dim factor, dim_factor());
      size.scale = size.scale * factor;
    }
  } while (accept("*"));
  while (size.quotients.empty() && (peek().is("+") || peek().is("-"))) {
    const bool plus = take().is("+");
    ATTACCA_TRY(const Dim product, dim_product());
    size.scale = plus ? size.scale + product : size.scale - product;
  }
  if (size.scale.overflowed())
    return source_.fail(offset, "the size overflows 64 bits", "use smaller dimensions");
  std::vector<std::string> symbols;
  size.collect_symbols(symbols);
  ATTACCA_TRY_VOID(check_symbols(offset, symbols));
  return size;
}

Status Parser::kernel_keyword(KernelParts& parts) {
  const Token keyword = take();
  take();
  if (!parts.keywords.emplace(keyword.text).second)
    return source_.fail(keyword.offset, fmt::format("{}= is given twice", keyword.text),
                        "remove one");
  if (keyword.text == "entry") {
    ATTACCA_TRY(const Token entry, this->name("the kernel's name"));
    parts.attrs.call.entry = decode_name(entry);
    return {};
  }
  if (keyword.text == "shared") {
    ATTACCA_TRY(parts.attrs.call.shared, kernel_integer());
    return {};
  }
  if (keyword.text == "zeroed") {
    if (!peek().is_word("true") && !peek().is_word("false")) return unexpected("true or false");
    parts.attrs.call.zeroed = take().text == "true";
    return {};
  }
  if (keyword.text != "grid" && keyword.text != "block" && keyword.text != "options")
    return source_.fail(keyword.offset, fmt::format("kernel has no keyword {}", keyword.text),
                        fmt::format("kernel takes {}", kKeywords));
  const Token open = peek();
  if (!accept("["))
    return unexpected("a list", fmt::format("write it as in {}",
                                            keyword.text == "options" ? "options=[\"-DTILE=64\"]"
                                            : keyword.text == "grid"  ? "grid=[ceildiv(M, 64), 4]"
                                                                      : "block=[256]"));
  while (!peek().is("]")) {
    ATTACCA_TRY_VOID(kernel_list_element(keyword, parts.attrs.call));
    if (!accept(",")) break;
  }
  return close("]", open);
}

Status Parser::kernel_list_element(const Token& keyword, KernelCall& call) {
  if (keyword.text == "grid") {
    ATTACCA_TRY(LaunchSize size, launch_size());
    call.grid.push_back(std::move(size));
  } else if (keyword.text == "block") {
    ATTACCA_TRY(const int64_t extent, kernel_integer());
    call.block.push_back(extent);
  } else {
    ATTACCA_TRY(const Token option, this->name("an option of NVRTC"));
    call.options.push_back(decode_name(option));
  }
  return {};
}

Result<int64_t> Parser::kernel_integer() {
  const size_t offset = peek().offset;
  ATTACCA_TRY(const Dim dim, this->dim());
  if (dim.is_static()) return dim.value();
  return source_.fail(offset, "an integer stands here, without symbols", "write a number");
}

}  // namespace attacca::ir
