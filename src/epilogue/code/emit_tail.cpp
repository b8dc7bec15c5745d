#include <set>

#include "fmt/format.h"

#include "epilogue/code/device_code.hpp"
#include "epilogue/code/element.hpp"
#include "epilogue/code/memory_code.hpp"
#include "epilogue/code/tail_fetch.hpp"
#include "epilogue/code/tail_function.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;

std::string stored_to_value(DType dtype, const std::string& bits) {
  if (dtype == DType::F64) return fmt::format("__longlong_as_double((long long){})", bits);
  if (dtype == DType::S64) return fmt::format("(long long){}", bits);
  return from_bits(dtype, bits);
}

std::string value_to_stored(DType dtype, const std::string& value) {
  if (dtype == DType::F64)
    return fmt::format("(unsigned long long)__double_as_longlong({})", value);
  if (dtype == DType::S64) return fmt::format("(unsigned long long){}", value);
  if (ir::info(dtype).bits == 32) return to_word(dtype, value);
  const std::string_view zero_extended =
      ir::info(dtype).bits == 16 ? "unsigned short" : "unsigned char";
  return fmt::format("(uint32_t)({}){}", zero_extended, to_memory(dtype, value));
}

// Under a false predicate the tail runs for the first elements, of which the output may have few.
constexpr int64_t kMostInAStore = 64;
// A division of 32 bits costs a fifth of one of 64.
constexpr int64_t kMostInWord = 0x7FFFFFFF;

class TailWriter {
 public:
  TailWriter(const Epilogue& epilogue, const TailOptions& options)
      : epilogue_(epilogue), options_(options), result_(epilogue.outputs[0].dtype) {
    word_ = ir::info(result_).bits == 64 ? "unsigned long long" : "uint32_t";
    const bool is_small = elements() <= kMostInWord;
    index_type_ = is_small ? "unsigned int" : "unsigned long long";
    columns_ = fmt::format("{}u{}", options.columns, is_small ? "" : "ll");
  }

  std::string single() const {
    std::string code = fetch_functions() + emit_element(epilogue_, options_.cuda);
    code += fmt::format("\nextern \"C\" __device__ {0} {1}({0} out, {2}) {{\n", word_,
                        options_.cuda.function, parameters());
    code += place();
    code += fmt::format("  const attacca_outputs outputs = attacca_element({});\n",
                        arguments([&](size_t i) { return argument(i, "out", "row", "column"); }));
    code += fmt::format("  return {};\n}}\n", value_to_stored(result_, "outputs.out0"));
    return code;
  }

  std::string pack(int count) const {
    std::string code, body;
    std::set<std::pair<int, int>> packs;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) {
      if (!is_packed(i, count)) continue;
      const int bytes = bytes_of(i);
      if (packs.emplace(bytes, count).second) code += fetch_pack_function(bytes, count);
      body += fmt::format(
          "  const attacca_pack_{0}x{1} pack{2} = attacca_fetch_{0}x{1}(operand{2} "
          "+ index);\n",
          bytes, count, i);
    }
    const std::string words = fmt::format("attacca_words_{}", count);
    code += fmt::format("struct {} {{ {} word[{}]; }};\n", words, word_, count);
    code += fmt::format("extern \"C\" __device__ {0} {1}_{2}({0} out, {3}) {{\n", words,
                        options_.cuda.function, count, parameters());
    code += place() + body + fmt::format("  {} results;\n", words);
    for (int j = 0; j < count; ++j) code += pack_element_lines(j, count);
    return code + "  return results;\n}\n";
  }

 private:
  int64_t elements() const { return options_.rows * options_.columns; }

  int bytes_of(size_t input) const { return ir::info(epilogue_.inputs[input].dtype).bits / 8; }

  bool is_packed(size_t input, int count) const {
    return epilogue_.inputs[input].role == Role::Full && can_fetch_pack(bytes_of(input), count);
  }

  std::string fetch_functions() const {
    std::set<std::string_view> types;
    for (const Input& input : epilogue_.inputs)
      if (input.role != Role::Accumulator) types.insert(memory_type(input.dtype));
    std::string code;
    for (const std::string_view type : types) code += fetch_function(type);
    return code;
  }

  std::string parameters() const {
    std::string text = "unsigned long long index";
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      if (epilogue_.inputs[i].role != Role::Accumulator)
        text += fmt::format(", const {}* operand{}", memory_type(epilogue_.inputs[i].dtype), i);
    return text;
  }

  // Of the first element.
  std::string place() const {
    std::string code;
    if (elements() < kMostInAStore)
      code += fmt::format("  if (index >= {}) index = 0;\n", elements());
    code +=
        fmt::format("  const {0} place = ({0})index, row = place / {1}, column = place % {1};\n",
                    index_type_, columns_);
    return code + "  (void)row, (void)column;\n";
  }

  template <class Each>
  std::string arguments(Each each) const {
    std::string text;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", each(i));
    return text;
  }

  std::string argument(size_t i, const std::string& out, const std::string& row,
                       const std::string& column, const std::string& index = "index") const {
    const Input& input = epilogue_.inputs[i];
    const auto fetched = [&](const std::string& place) {
      return from_memory(input.dtype, fmt::format("attacca_fetch(operand{} + {})", i, place));
    };
    switch (input.role) {
      case Role::Accumulator:
        return stored_to_value(input.dtype, out);
      case Role::Row:
        return fetched(column);
      case Role::Column:
        return fetched(row);
      case Role::Full:
        return fetched(index);
      case Role::Scalar:
        return fetched("0");
    }
    return {};
  }

  // A store may reach into the next row, but not further: a pack is not longer than a row.
  std::string pack_element_lines(int j, int count) const {
    std::string code = "  {\n";
    std::string row = "row", column = "column";
    if (j > 0) {
      code += fmt::format("    const bool wraps = column + {} >= {};\n", j, columns_);
      code += fmt::format(
          "    const {} column{} = column + {} - (wraps ? {} : 0), row{} = row + "
          "wraps;\n    (void)column{}, (void)row{};\n",
          index_type_, j, j, columns_, j, j, j);
      row = fmt::format("row{}", j);
      column = fmt::format("column{}", j);
    }
    const auto each = [&](size_t i) {
      const Input& input = epilogue_.inputs[i];
      if (!is_packed(i, count))
        return argument(i, fmt::format("out.word[{}]", j), row, column,
                        fmt::format("index + {}", j));
      const int bytes = bytes_of(i);
      const std::string raw = pack_element(bytes, fmt::format("pack{}", i), j);
      return bytes == 4 ? from_bits(input.dtype, raw) : from_memory(input.dtype, raw);
    };
    code +=
        fmt::format("    const attacca_outputs outputs = attacca_element({});\n", arguments(each));
    code +=
        fmt::format("    results.word[{}] = {};\n", j, value_to_stored(result_, "outputs.out0"));
    return code + "  }\n";
  }

  const Epilogue& epilogue_;
  const TailOptions& options_;
  DType result_;
  std::string_view word_, index_type_;
  std::string columns_;
};

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

int64_t rows_in_code(int64_t rows, int64_t columns) {
  const int64_t least = (kMostInAStore + columns - 1) / columns;
  return rows <= least || rows > kMostInWord / columns ? rows : least;
}

std::string emit_tail_function(const Epilogue& epilogue, const TailOptions& options) {
  const std::string code = TailWriter(epilogue, options).single();
  std::string text = fmt::format("// Mode {}, {} x {}.\n", ir::name(options.cuda.mode),
                                 options.rows, options.columns);
  text += kWordTypes;
  for (const std::string& include : options.cuda.includes) text += '\n' + include;
  text += '\n' + helpers_for(code);
  return text + '\n' + code;
}

std::string emit_tail_pack(const Epilogue& epilogue, const TailOptions& options, int count) {
  if (count < 2 || count > kMostInAStore || count > options.columns ||
      options.rows * options.columns < kMostInAStore)
    return {};
  return TailWriter(epilogue, options).pack(count);
}

}  // namespace attacca::epilogue
