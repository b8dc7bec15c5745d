#include "epilogue/code/element.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "fmt/format.h"

#include "epilogue/code/device_code.hpp"
#include "epilogue/code/value_code.hpp"
#include "epilogue/tolerance.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;
using ir::Op;

// Words of code replaced: x by the first operand and so on.
std::string substituted(std::string_view code, const std::map<char, std::string>& by) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    const bool alone = (i == 0 || (!is_word(code[i - 1]) && code[i - 1] != '.')) &&
                       (i + 1 == code.size() || !is_word(code[i + 1]));
    const auto found = by.find(code[i]);
    if (alone && found != by.end())
      text += found->second;
    else
      text += code[i];
  }
  return text;
}

// Ops that are written inline, not as a call.
bool is_inline(Op op) {
  return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Div || op == Op::Neg;
}

std::string_view comparison(Op op) {
  switch (op) {
    case Op::Lt:
      return "<";
    case Op::Le:
      return "<=";
    case Op::Gt:
      return ">";
    case Op::Ge:
      return ">=";
    case Op::Eq:
      return "==";
    case Op::Ne:
      return "!=";
    default:
      return {};
  }
}

constexpr std::string_view kKeywords[] = {
    "alignas",  "alignof",  "and",    "asm",      "auto",      "bitand",   "bitor",    "bool",
    "break",    "case",     "catch",  "char",     "class",     "compl",    "const",    "continue",
    "decltype", "default",  "delete", "do",       "double",    "else",     "enum",     "explicit",
    "export",   "extern",   "false",  "float",    "for",       "friend",   "goto",     "if",
    "inline",   "int",      "long",   "mutable",  "namespace", "new",      "noexcept", "not",
    "nullptr",  "operator", "or",     "private",  "protected", "public",   "register", "return",
    "short",    "signed",   "sizeof", "static",   "struct",    "switch",   "template", "this",
    "throw",    "true",     "try",    "typedef",  "typeid",    "typename", "union",    "unsigned",
    "using",    "virtual",  "void",   "volatile", "while",     "xor",      "half",     "near"};

bool rounds_to_16_bits(const Node& node) {
  return ir::is_half(node.dtype) && !node.compute &&
         std::ranges::all_of(node.params, [](double param) { return param == 1; });
}

class ElementWriter {
 public:
  ElementWriter(const Epilogue& epilogue, const CudaOptions& options)
      : epilogue_(epilogue),
        eager_(options.mode == ir::Mode::Eager),
        may_call_(options.may_call),
        tolerant_(tolerant_values(epilogue)) {
    name_inputs(options.names);
  }

  std::string run() {
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) add_input(i);
    for (size_t i = 0; i < epilogue_.nodes.size(); ++i) add_node(i);
    std::string outputs = "struct attacca_outputs {\n", returned;
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) {
      const Output& output = epilogue_.outputs[i];
      outputs += fmt::format("  {} out{};\n", type_of(lane_of(output.dtype)), i);
      const std::string stored =
          stored_value(values_[static_cast<size_t>(output.value)], output.dtype);
      returned += fmt::format("  outputs.out{} = {};\n", i, stored);
    }
    std::string text;
    for (const auto& function : functions_) text += function;
    if (!text.empty()) text += '\n';
    text += outputs + "};\n";
    text += fmt::format("__device__ __forceinline__ attacca_outputs attacca_element({}) {{\n",
                        fmt::join(parameters_, ", "));
    text += body_ + "  attacca_outputs outputs;\n" + returned + "  return outputs;\n}\n";
    return text;
  }

 private:
  void name_inputs(const std::vector<std::string>& wanted) {
    for (const Node& node : epilogue_.nodes) taken_.insert(node.function);
    std::map<Role, int> counts, next;
    for (const Input& input : epilogue_.inputs) ++counts[input.role];
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) {
      const Role role = epilogue_.inputs[i].role;
      const int index = next[role]++;
      std::string text = i < wanted.size() ? wanted[i] : std::string();
      if (text.empty())
        text = role == Role::Accumulator && counts[role] == 1
                   ? "acc"
                   : fmt::format("{}{}", name(role), index);
      input_names_.push_back(fresh_name(std::move(text)));
    }
  }

  std::string fresh_name(std::string text) {
    for (char& c : text)
      if (!std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127)
        c = '_';
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) text = "_" + text;
    if (text.starts_with("attacca_") || text.starts_with("__") ||
        std::ranges::find(kKeywords, text) != std::end(kKeywords))
      text += '_';
    if (text.starts_with("__")) text = "v" + text;
    while (!taken_.insert(text).second) text += '_';
    return text;
  }

  void add_input(size_t i) {
    const Input& input = epilogue_.inputs[i];
    parameters_.push_back(fmt::format("{} {}", type_of(lane_of(input.dtype)), input_names_[i]));
    Term value{input_names_[i], input.dtype};
    if (input.role == Role::Accumulator && input.rounded != input.dtype) {
      const bool rounds = eager_ || lane_of(input.dtype) != lane_of(input.rounded);
      if (rounds) value = declare(converted(value, input.rounded, false), input.rounded);
      value.dtype = input.rounded;
    }
    values_.push_back(std::move(value));
  }

  Term declare(const std::string& expression, DType dtype) {
    const std::string variable = fresh_name(fmt::format("t{}", next_variable_++));
    body_ += fmt::format("  const {} {} = {};\n", type_of(lane_of(dtype)), variable, expression);
    return {variable, dtype};
  }

  void add_node(size_t i) {
    const Node& node = epilogue_.nodes[i];
    if (node.op == Op::Constant) {
      values_.push_back({literal_text(node.literal, node.dtype), node.dtype});
      return;
    }
    if (!node.function.empty()) {
      std::vector<std::string> in;
      for (const int operand : node.operands) in.push_back(operand_text(operand, Lane::F32));
      values_.push_back(
          declare(fmt::format("{}({})", node.function, fmt::join(in, ", ")), DType::F32));
      return;
    }
    if (node.op == Op::Cast) {
      const Term& x = values_[static_cast<size_t>(node.operands[0])];
      const DType to = eager_ ? node.dtype : node.compute.value_or(node.dtype);
      values_.push_back(declare(converted(x, to, node.saturate), node.dtype));
      return;
    }
    const DType joint = operand_dtype(node);
    const bool tolerant = tolerant_[epilogue_.inputs.size() + i];
    if (eager_ && rounds_to_16_bits(node) && has_numbers(node))
      if (const auto code = narrow(node)) {
        values_.push_back(declare(*code, node.dtype));
        return;
      }
    std::string code =
        ir::is_float(joint) ? over_floats(node, joint, tolerant) : over_integers(node, joint);
    if (lane_of(node.dtype) == Lane::F32) {
      if (node.compute) code = rounded(code, *node.compute);
      if (eager_) code = rounded(code, node.dtype);
    }
    values_.push_back(declare(code, node.dtype));
  }

  // The type in which an elementwise node computes, as in the interpreter.
  DType operand_dtype(const Node& node) const {
    const size_t first = node.op == Op::Where ? 1 : 0;
    DType dtype = values_[static_cast<size_t>(node.operands[first])].dtype;
    for (size_t i = first + 1; i < node.operands.size(); ++i)
      dtype =
          ir::promote(dtype, values_[static_cast<size_t>(node.operands[i])].dtype).value_or(dtype);
    return dtype;
  }

  // Whether every operand is a number of the node's dtype: a constant need not be one.
  bool has_numbers(const Node& node) const {
    return std::ranges::all_of(node.operands, [&](int operand) {
      const size_t value = static_cast<size_t>(operand), first = epilogue_.inputs.size();
      if (values_[value].dtype != node.dtype) return false;
      if (value < first || epilogue_.nodes[value - first].op != Op::Constant) return true;
      const double literal = epilogue_.nodes[value - first].literal;
      return ir::round_to(node.dtype, literal) == literal;
    });
  }

  std::string operand_text(int value, Lane lane) const {
    return operand(values_[static_cast<size_t>(value)], lane);
  }

  // A condition is not converted.
  std::vector<std::string> operands_in(const Node& node, Lane lane) const {
    std::vector<std::string> in;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Term& value = values_[static_cast<size_t>(node.operands[k])];
      const bool condition = node.op == Op::Where && k == 0;
      in.push_back(condition ? value.text : operand(value, lane));
    }
    return in;
  }

  // Selection and comparisons, which are the same in every lane.
  static std::optional<std::string> choosing_code(Op op, const std::vector<std::string>& in) {
    if (op == Op::Where) return fmt::format("{} != 0 ? {} : {}", in[0], in[1], in[2]);
    if (const auto sign = comparison(op); !sign.empty())
      return fmt::format("{} {} {}", in[0], sign, in[1]);
    return std::nullopt;
  }

  std::string over_floats(const Node& node, DType joint, bool tolerant) {
    const Lane lane = lane_of(joint);
    const std::vector<std::string> in = operands_in(node, lane);
    if (const auto code = choosing_code(node.op, in)) return *code;
    if (lane == Lane::F64) return reference(node, in, "double");
    if (!eager_) return fp32_code(node, in, tolerant);
    if (const auto exact = exact_code(node.op)) return called(node, in, *exact, "float");
    return "(float)" + reference(node, in, "double");
  }

  std::string fp32_code(const Node& node, const std::vector<std::string>& in, bool tolerant) {
    const auto fast = tolerant ? fast_code(node.op) : std::nullopt;
    if (fast) return called(node, in, *fast, "float");
    return called(node, in, accurate_code(node.op), "float");
  }

  // A call of the op's function, or its code inline.
  std::string called(const Node& node, const std::vector<std::string>& in, std::string_view code,
                     std::string_view type) {
    if (is_inline(node.op)) {
      std::map<char, std::string> by;
      for (size_t k = 0; k < in.size(); ++k) by[static_cast<char>('x' + k)] = in[k];
      return substituted(code, by);
    }
    // f32 code and fast code of one op can stand in one epilogue.
    const std::string base = fmt::format("attacca_op_{}", name(node.op));
    std::string function = base;
    for (int variant = 2;; ++variant) {
      const auto [slot, fresh] = function_code_.try_emplace(function, code);
      if (fresh) {
        define(function, node, code, type);
        break;
      }
      if (slot->second == code) break;
      function = fmt::format("{}_{}", base, variant);
    }
    std::vector<std::string> arguments = in;
    for (const double param : node.params) arguments.push_back(float_text(param));
    return fmt::format("{}({})", function, fmt::join(arguments, ", "));
  }

  void define(const std::string& function, const Node& node, std::string_view code,
              std::string_view type) {
    std::vector<std::string> parameters;
    for (size_t k = 0; k < node.operands.size(); ++k)
      parameters.push_back(fmt::format("{} {}", type, static_cast<char>('x' + k)));
    for (size_t k = 0; k < node.params.size(); ++k)
      parameters.push_back(fmt::format("{} {}", type, static_cast<char>('p' + k)));
    functions_.push_back(fmt::format("__device__ __forceinline__ {} {}({}) {{\n  return {};\n}}\n",
                                     type, function, fmt::join(parameters, ", "), code));
  }

  // The rounded result without f64, or nearly always so.
  std::optional<std::string> narrow(const Node& node) {
    const std::vector<std::string> in = operands_in(node, Lane::F32);
    if (const auto code = number_code(node.op, node.dtype))
      return rounded(called(node, in, *code, "float"), node.dtype);
    if (const auto code = narrow_code(node.op)) return decided(node, in, *code);
    return std::nullopt;
  }

  // The result lies between two numbers. If both round alike, as f64 rounded to f32 and then to the
  // dtype would, that is the result; else the reference is computed.
  std::string decided(const Node& node, const std::vector<std::string>& in, std::string_view code) {
    const std::string_view dtype = ir::name(node.dtype);
    const std::string function = fmt::format("attacca_narrow_{}_{}", name(node.op), dtype);
    if (function_code_.try_emplace(function, "").second) {
      std::vector<std::string> parameters, names;
      for (size_t k = 0; k < in.size(); ++k) {
        names.emplace_back(1, static_cast<char>('x' + k));
        parameters.push_back("float " + names.back());
      }
      const std::string exact = reference(node, names, "double");
      functions_.push_back(fmt::format(
          "__device__ {6} float {0}_rare({1}) {{\n"
          "  return attacca_round_{3}((float){4});\n}}\n"
          "__device__ __forceinline__ float {0}({1}) {{\n"
          "  const float about = {2};\n"
          "  const uint32_t both =\n"
          "      attacca_pack_{3}(__fmul_rn(about, 0.999999046f), __fmul_rn(about, 1.00000095f));\n"
          "  const bool is_decided = fabsf(about) >= 7.88860905e-31f && both >> 16 == (both & "
          "0xFFFFu);\n"
          "  if (is_decided || x == 0.0f) return attacca_decode_{3}(both & 0xFFFFu);\n"
          "  return {0}_rare({5});\n}}\n",
          function, fmt::join(parameters, ", "), code, dtype, exact, fmt::join(names, ", "),
          may_call_ ? "__noinline__" : "__forceinline__"));
    }
    return fmt::format("{}({})", function, fmt::join(in, ", "));
  }

  std::string reference(const Node& node, const std::vector<std::string>& in,
                        std::string_view type) {
    std::string function =
        fmt::format("attacca_{}_{}", type == "double" ? "f64" : "s64", name(node.op));
    if (function_code_.try_emplace(function, "").second)
      functions_.push_back(reference_function(node.op, type));
    std::vector<std::string> arguments;
    for (const std::string& each : in) arguments.push_back(each);
    for (const double param : node.params) arguments.push_back(double_text(param));
    return fmt::format("{}({})", function, fmt::join(arguments, ", "));
  }

  // Integer ops are defined in 64 bits and wrap. For the frequent ones 32 bits are enough.
  std::string over_integers(const Node& node, DType joint) {
    const Lane lane = lane_of(joint);
    const std::vector<std::string> in = operands_in(node, lane);
    if (const auto code = choosing_code(node.op, in)) return *code;
    std::string code = narrow_integer_code(node.op, in, lane);
    if (code.empty()) code = reference(node, in, "long long");
    return wrapped(code, node.dtype);
  }

  static std::string narrow_integer_code(Op op, const std::vector<std::string>& in, Lane lane) {
    if (lane != Lane::S32) return {};
    switch (op) {
      case Op::Add:
        return fmt::format("(int)((uint32_t){} + (uint32_t){})", in[0], in[1]);
      case Op::Sub:
        return fmt::format("(int)((uint32_t){} - (uint32_t){})", in[0], in[1]);
      case Op::Mul:
        return fmt::format("(int)((uint32_t){} * (uint32_t){})", in[0], in[1]);
      case Op::Neg:
        return fmt::format("(int)(0u - (uint32_t){})", in[0]);
      case Op::Relu:
        return fmt::format("({0} < 0 ? 0 : {0})", in[0]);
      case Op::Max:
        return fmt::format("({0} > {1} ? {0} : {1})", in[0], in[1]);
      case Op::Min:
        return fmt::format("({0} < {1} ? {0} : {1})", in[0], in[1]);
      case Op::And:
        return fmt::format("({} != 0 && {} != 0)", in[0], in[1]);
      case Op::Or:
        return fmt::format("({} != 0 || {} != 0)", in[0], in[1]);
      case Op::Xor:
        return fmt::format("(({} != 0) != ({} != 0))", in[0], in[1]);
      case Op::Not:
        return fmt::format("({} == 0)", in[0]);
      default:
        return {};
    }
  }

  const Epilogue& epilogue_;
  const bool eager_, may_call_;
  const std::vector<bool> tolerant_;
  std::set<std::string> taken_;
  std::vector<std::string> input_names_, parameters_, functions_;
  std::map<std::string, std::string> function_code_;
  std::vector<Term> values_;
  std::string body_;
  int next_variable_ = 0;
};

}  // namespace

bool is_decided_narrowly(const Node& node) {
  return rounds_to_16_bits(node) && (number_code(node.op, node.dtype) || narrow_code(node.op));
}

std::string emit_element(const Epilogue& epilogue, const CudaOptions& options) {
  return ElementWriter(epilogue, options).run();
}

}  // namespace attacca::epilogue
