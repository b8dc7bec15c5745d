#include "epilogue/code/device_code.hpp"

#include <array>
#include <cctype>
#include <vector>

#include "fmt/format.h"

#include "epilogue/code/device_helpers.hpp"

namespace attacca::epilogue {
namespace {

using ir::Op;

struct Row {
  Op op;
  std::string_view code;
};
constexpr Row kExact[] = {
#define EXACT(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};
constexpr Row kAccurate[] = {
#define ACCURATE(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};
constexpr Row kFast[] = {
#define FAST(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};
constexpr Row kBf16[] = {
#define BF16(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};
constexpr Row kF16[] = {
#define F16(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};
constexpr Row kNarrow[] = {
#define NARROW(NAME, ...) {Op::NAME, #__VA_ARGS__},
#include "epilogue/code/fast.def"
};

template <size_t n>
std::optional<std::string_view> find(const Row (&rows)[n], Op op) {
  for (const Row& row : rows)
    if (row.op == op) return row.code;
  return std::nullopt;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool mentions(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return true;
  }
  return false;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  size_t at = 0;
  for (size_t next; (next = text.find(from, at)) != std::string_view::npos;
       at = next + from.size()) {
    result += text.substr(at, next - at);
    result += to;
  }
  result += text.substr(at);
  return result;
}

}  // namespace

std::optional<std::string_view> exact_code(Op op) {
  return find(kExact, op);
}

std::optional<std::string_view> fast_code(Op op) {
  return find(kFast, op);
}

std::optional<std::string_view> number_code(Op op, ir::DType dtype) {
  if (dtype == ir::DType::BF16) return find(kBf16, op);
  return dtype == ir::DType::F16 ? find(kF16, op) : std::nullopt;
}

std::optional<std::string_view> narrow_code(Op op) {
  return find(kNarrow, op);
}

std::string_view accurate_code(Op op) {
  return find(kAccurate, op).value_or(ir::info(op).emitted);
}

std::string reference_function(Op op, std::string_view type) {
  const ir::OpInfo& info = ir::info(op);
  constexpr std::string_view kOperands[] = {"x", "y", "z"}, kParams[] = {"p", "q", "r"};
  std::vector<std::string> arguments;
  for (int i = 0; i < info.max_arity; ++i)
    arguments.push_back(fmt::format("{} {}", type, kOperands[i]));
  for (size_t i = 0; i < info.params.size(); ++i)
    arguments.push_back(fmt::format("double {}", kParams[i]));
  const std::string code = replaced(replaced(info.reference, "sem::", "attacca_sem_"), "std::", "");
  return fmt::format(
      "__device__ __forceinline__ {0} attacca_{1}_{2}({3}) {{\n"
      "  typedef {0} T;\n"
      "  return (T)({4});\n"
      "}}\n",
      type, type == "double" ? "f64" : "s64", info.name, fmt::join(arguments, ", "), code);
}

std::string helpers_for(std::string_view code) {
  std::vector<const Helper*> needed;
  std::string seen(code);
  for (const auto helpers : {operation_helpers(), approximation_helpers(), conversion_helpers()})
    for (size_t i = helpers.size(); i-- > 0;) {
      if (!mentions(seen, helpers[i].name)) continue;
      needed.push_back(&helpers[i]);
      seen += helpers[i].text;
    }
  std::string text;
  for (size_t i = needed.size(); i-- > 0;) text += needed[i]->text;
  return text;
}

}  // namespace attacca::epilogue
