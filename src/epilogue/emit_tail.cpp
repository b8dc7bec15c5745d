#include <set>

#include "fmt/format.h"

#include "epilogue/device_code.hpp"
#include "epilogue/element.hpp"
#include "epilogue/memory_code.hpp"
#include "epilogue/tail_function.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;

std::string stored_to_value(DType dtype) {
  if (dtype == DType::F64) return "__longlong_as_double((long long)out)";
  if (dtype == DType::S64) return "(long long)out";
  return from_bits(dtype, "out");
}

std::string value_to_stored(DType dtype) {
  const std::string value = "outputs.out0";
  if (dtype == DType::F64)
    return fmt::format("(unsigned long long)__double_as_longlong({})", value);
  if (dtype == DType::S64) return fmt::format("(unsigned long long){}", value);
  if (ir::info(dtype).bits == 32) return to_word(dtype, value);
  const std::string_view zero_extended =
      ir::info(dtype).bits == 16 ? "unsigned short" : "unsigned char";
  return fmt::format("(uint32_t)({}){}", zero_extended, to_memory(dtype, value));
}

// Reads one value. Operands do not change while the kernel runs, so that ptxas may load them ahead
// of earlier stores.
struct Fetch {
  std::string_view type, load, constraint, holder;
};
constexpr Fetch kFetches[] = {
    {"double", "f64", "d", "double"},
    {"float", "f32", "f", "float"},
    {"unsigned short", "u16", "h", "unsigned short"},
    {"unsigned char", "u8", "r", "unsigned int"},
    {"signed char", "s8", "r", "int"},
    {"int", "s32", "r", "int"},
    {"long long", "s64", "l", "long long"},
};

std::string fetch_function(std::string_view type) {
  for (const Fetch& fetch : kFetches)
    if (fetch.type == type)
      return fmt::format(R"(__device__ __forceinline__ {0} attacca_fetch(const {0}* from) {{
#ifdef __CUDA_ARCH__
  {3} value;
  asm("ld.global.nc.{1} %0, [%1];" : "={2}"(value) : "l"(from));
  return ({0})value;
#else
  return *from;
#endif
}}
)",
                         fetch.type, fetch.load, fetch.constraint, fetch.holder);
  ATTACCA_CHECK(false, "a type that no memory holds");
}

std::string_view place_of(Role role) {
  switch (role) {
    case Role::Row:
      return "column";
    case Role::Column:
      return "row";
    case Role::Full:
      return "index";
    case Role::Scalar:
      return "0";
    case Role::Accumulator:
      break;
  }
  ATTACCA_CHECK(false, "an accumulator in memory");
}

}  // namespace

std::optional<std::string> tail_refusal(const Epilogue& epilogue) {
  int values = 0;
  for (const Input& input : epilogue.inputs) values += input.role == Role::Accumulator;
  if (values != 1) return "the epilogue does not read the kernel's output";
  if (epilogue.outputs.size() != 1)
    return fmt::format("the kernel stores one result, the epilogue has {}",
                       epilogue.outputs.size());
  const Output& output = epilogue.outputs[0];
  if (output.kind != OutputKind::Store)
    return fmt::format("the kernel stores elements, and the result is a {}",
                       ir::name(output.reduction));
  for (const Input& input : epilogue.inputs)
    if (input.role == Role::Accumulator &&
        ir::info(input.dtype).bits != ir::info(output.dtype).bits)
      return fmt::format("the kernel stores {}, and the result is {}: elements of another size",
                         ir::name(input.dtype), ir::name(output.dtype));
  return std::nullopt;
}

std::string emit_tail_function(const Epilogue& epilogue, const TailOptions& options) {
  const DType result = epilogue.outputs[0].dtype;
  const std::string_view word = ir::info(result).bits == 64 ? "unsigned long long" : "uint32_t";
  std::string parameters = fmt::format("{} out, unsigned long long index", word), arguments;
  std::set<std::string_view> fetched;
  for (size_t i = 0; i < epilogue.inputs.size(); ++i) {
    const Input& input = epilogue.inputs[i];
    std::string value = stored_to_value(input.dtype);
    if (input.role != Role::Accumulator) {
      parameters += fmt::format(", const {}* operand{}", memory_type(input.dtype), i);
      fetched.insert(memory_type(input.dtype));
      value = from_memory(input.dtype,
                          fmt::format("attacca_fetch(operand{} + {})", i, place_of(input.role)));
    }
    arguments += fmt::format("{}{}", i == 0 ? "" : ", ", value);
  }
  // Under a false predicate the tail runs for the first elements, of which there may be few.
  constexpr int64_t kMostInAStore = 64;
  const int64_t elements = options.rows * options.columns;
  // A division of 32 bits costs a fifth of one of 64.
  const bool is_small = elements <= INT64_C(0x7FFFFFFF);
  const std::string_view type = is_small ? "unsigned int" : "unsigned long long";
  std::string code;
  for (const std::string_view memory : fetched) code += fetch_function(memory);
  code += emit_element(epilogue, options.cuda);
  code += fmt::format("\nextern \"C\" __device__ {} {}({}) {{\n", word, options.cuda.function,
                      parameters);
  if (elements < kMostInAStore) code += fmt::format("  if (index >= {}) index = 0;\n", elements);
  code += fmt::format(
      "  const {0} place = ({0})index, row = place / {1}u{2}, column = place % {1}u{2};\n", type,
      options.columns, is_small ? "" : "ll");
  code += "  (void)row, (void)column;\n";
  code += fmt::format("  const attacca_outputs outputs = attacca_element({});\n", arguments);
  code += fmt::format("  return {};\n}}\n", value_to_stored(result));
  std::string text = fmt::format("// Mode {}, {} x {}.\n", ir::name(options.cuda.mode),
                                 options.rows, options.columns);
  text += kWordTypes;
  for (const std::string& include : options.cuda.includes) text += '\n' + include;
  text += '\n' + helpers_for(code);
  return text + '\n' + code;
}

}  // namespace attacca::epilogue
