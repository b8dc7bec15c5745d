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
                        arguments([&](size_t i) { return argument(i); }));
    code += fmt::format("  return {};\n}}\n", value_to_stored(result_, "outputs.out0"));
    return code;
  }

  TailPack pack(int count) const {
    TailPack made;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      if (epilogue_.inputs[i].role != Role::Accumulator) made.words += words_of(i, count);
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      made.is_wide = made.is_wide || is_wide(i, count);
    if (made.words > 0) {
      made.source +=
          fmt::format("struct attacca_fetched_{} {{ uint32_t word[{}]; }};\n", count, made.words);
      made.source += fetch(count, made.is_wide, "");
      if (made.is_wide) made.source += fetch(count, false, "_apart");
    }
    made.source += compute(count, made.words > 0);
    return made;
  }

 private:
  int64_t elements() const { return options_.rows * options_.columns; }

  int bytes_of(size_t input) const { return ir::info(epilogue_.inputs[input].dtype).bits / 8; }

  // ---- The words in which the operands of `count` elements travel

  size_t words_of(size_t input, int count) const {
    const int values = epilogue_.inputs[input].role == Role::Scalar ? 1 : count;
    return static_cast<size_t>(words_of_values(bytes_of(input), values));
  }

  // Whether the operand is read by vectors where everything is aligned: then a store begins at a
  // multiple of `count`, and no row ends inside it.
  bool is_wide(size_t input, int count) const {
    const Role role = epilogue_.inputs[input].role;
    return count > 1 && can_fetch_pack(bytes_of(input), count) &&
           (role == Role::Full || (role == Role::Row && options_.columns % count == 0));
  }

  // The function that loads them: with vectors, or each value for itself.
  std::string fetch(int count, bool wide, std::string_view suffix) const {
    std::string code =
        fmt::format("extern \"C\" __device__ attacca_fetched_{0} {1}_fetch_{0}{2}({3}) {{\n", count,
                    options_.cuda.function, suffix, parameters());
    code += place() + fmt::format("  attacca_fetched_{} to = {{}};\n", count);
    // A store may reach into the next row, but not further: it is not longer than a row.
    if (!wide || options_.columns % count != 0)
      for (int j = 1; j < count; ++j)
        code += fmt::format(
            "  const bool wraps{0} = column + {0} >= {1};\n"
            "  const {2} column{0} = column + {0} - (wraps{0} ? {1} : 0), row{0} = row + "
            "wraps{0};\n"
            "  (void)column{0}, (void)row{0};\n",
            j, columns_, index_type_);
    size_t word = 0;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) {
      if (epilogue_.inputs[i].role == Role::Accumulator) continue;
      code += fetch_lines(i, count, wide, word);
      word += words_of(i, count);
    }
    return code + "  return to;\n}\n";
  }

  std::string fetch_lines(size_t i, int count, bool wide, size_t word) const {
    const Role role = epilogue_.inputs[i].role;
    const int bytes = bytes_of(i);
    if (wide && is_wide(i, count))
      return fetch_vectors(fmt::format("operand{} + {}", i, role == Role::Row ? "column" : "index"),
                           bytes * count / 4, word);
    const bool one_row = wide && options_.columns % count == 0;
    std::string code;
    for (int j = 0; j < (role == Role::Scalar ? 1 : count); ++j) {
      const std::string number = j == 0 || one_row ? "" : std::to_string(j);
      const std::string at = role == Role::Row      ? fmt::format("column{}", number)
                             : role == Role::Column ? fmt::format("row{}", number)
                             : role == Role::Full   ? fmt::format("index + {}", j)
                                                    : "0";
      code += put_value(fmt::format("attacca_fetch_here(operand{} + {})", i, at), bytes, count, j,
                        word);
    }
    return code;
  }

  // What the elements become, of the words of all operands.
  std::string compute(int count, bool has_operands) const {
    const std::string words = fmt::format("attacca_words_{}", count);
    std::string code = fmt::format("struct {} {{ {} word[{}]; }};\n", words, word_, count);
    code += fmt::format("extern \"C\" __device__ {0} {1}_{2}({0} out{3}) {{\n", words,
                        options_.cuda.function, count,
                        has_operands ? fmt::format(", attacca_fetched_{} from", count) : "");
    code += fmt::format("  {} results;\n", words);
    for (int j = 0; j < count; ++j) {
      size_t word = 0;
      const auto each = [&](size_t i) {
        const Input& input = epilogue_.inputs[i];
        if (input.role == Role::Accumulator)
          return stored_to_value(input.dtype, fmt::format("out.word[{}]", j));
        const bool is_one = input.role == Role::Scalar;
        const std::string bits =
            value_in_words(bytes_of(i), is_one ? 1 : count, is_one ? 0 : j, word);
        word += words_of(i, count);
        return stored_to_value(input.dtype, bits);
      };
      code += fmt::format(
          "  results.word[{}] = {};\n", j,
          value_to_stored(result_, fmt::format("attacca_element({}).out0", arguments(each))));
    }
    return code + "  return results;\n}\n";
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

  std::string argument(size_t i) const {
    const Input& input = epilogue_.inputs[i];
    const auto fetched = [&](const std::string& place) {
      return from_memory(input.dtype, fmt::format("attacca_fetch(operand{} + {})", i, place));
    };
    switch (input.role) {
      case Role::Accumulator:
        return stored_to_value(input.dtype, "out");
      case Role::Row:
        return fetched("column");
      case Role::Column:
        return fetched("row");
      case Role::Full:
        return fetched("index");
      case Role::Scalar:
        return fetched("0");
    }
    return {};
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

std::optional<TailPack> emit_tail_pack(const Epilogue& epilogue, const TailOptions& options,
                                       int count) {
  const bool is_small = options.rows * options.columns < kMostInAStore;
  if (count > 1 && (count > kMostInAStore || count > options.columns || is_small))
    return std::nullopt;
  return TailWriter(epilogue, options).pack(count);
}

}  // namespace attacca::epilogue
