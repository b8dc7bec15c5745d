// The hole as CUDA C++: the types, the helpers in use, the expression of one element, and the
// function that a kernel calls for two.
#include <algorithm>
#include <set>

#include "fmt/format.h"

#include "epilogue/code/device_code.hpp"
#include "epilogue/code/element.hpp"
#include "epilogue/code/memory_code.hpp"
#include "epilogue/hole.hpp"
#include "support/check.hpp"

namespace attacca::epilogue {
namespace {

using ir::DType;

// The text that a macro of hole_abi.h expands to.
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)
#define MEMBER_TEXT(...) "  " TEXT(__VA_ARGS__) ";\n"

constexpr std::string_view kContext =
    "struct attacca_operand {\n" ATTACCA_OPERAND_MEMBERS(MEMBER_TEXT, long long)
    "};\nstruct attacca_hole_context {\n" ATTACCA_HOLE_CONTEXT_MEMBERS(MEMBER_TEXT) "};\n";

// Texts with SLOT and ELEMENT in place of numbers.
constexpr std::string_view kAccumulator = TEXT(ATTACCA_HOLE_ACCUMULATOR(SLOT, ELEMENT));
constexpr std::string_view kFull16 = TEXT(ATTACCA_HOLE_FULL_16(SLOT));
constexpr std::string_view kFull32 = TEXT(ATTACCA_HOLE_FULL_32(SLOT, ELEMENT));
constexpr std::string_view kRow = TEXT(ATTACCA_HOLE_ROW(SLOT, ELEMENT));
constexpr std::string_view kColumn = TEXT(ATTACCA_HOLE_COLUMN(SLOT));
constexpr std::string_view kAccumulatorParameters = TEXT(ATTACCA_HOLE_ACCUMULATOR_PARAMETERS(SLOT));
constexpr std::string_view kFull16Parameters = TEXT(ATTACCA_HOLE_FULL_PARAMETERS_16(SLOT));
constexpr std::string_view kFull32Parameters = TEXT(ATTACCA_HOLE_FULL_PARAMETERS_32(SLOT));
constexpr std::string_view kRowParameters = TEXT(ATTACCA_HOLE_ROW_PARAMETERS(SLOT));
constexpr std::string_view kColumnParameters = TEXT(ATTACCA_HOLE_COLUMN_PARAMETERS(SLOT));
constexpr std::string_view kParameters =
    TEXT(ATTACCA_HOLE_PARAMETERS(ACCUMULATORS, FULLS, ROWS, COLUMNS));

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string named(std::string_view text, int slot, int element = 0) {
  return replaced(replaced(std::string(text), "SLOT", std::to_string(slot)), "ELEMENT",
                  std::to_string(element));
}

// The hole's own function: unpacks, calls the element twice, packs.
class HoleWriter {
 public:
  HoleWriter(const Epilogue& epilogue, const HoleSignature& signature, const Binding& binding,
             const CudaOptions& options)
      : epilogue_(epilogue), signature_(signature), binding_(binding), options_(options) {}

  int words() const {
    int count = 0;
    for (const int bits : signature_.result_bits) count += result_words(bits);
    return count + signature_.maxima;
  }

  std::string run() const {
    std::string text = fmt::format("extern \"C\" __device__ attacca_results {}({}) {{\n",
                                   options_.function, parameters());
    text += named_rows();
    for (int element = 0; element < 2; ++element)
      text += fmt::format("  const attacca_outputs d{} = attacca_element({});\n", element,
                          fmt::join(arguments(element), ", "));
    text += fmt::format("  attacca_results results{};\n", words() == 0 ? " = {}" : "");
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) text += output(i);
    text += maximum();
    return text + "  return results;\n}\n";
  }

 private:
  std::string parameters() const {
    const auto each = [](int count, std::string_view text) {
      std::string all;
      for (int slot = 0; slot < count; ++slot) all += named(text, slot) + ' ';
      return all;
    };
    std::string fulls;
    for (size_t slot = 0; slot < signature_.full_bits.size(); ++slot)
      fulls += named(signature_.full_bits[slot] == 16 ? kFull16Parameters : kFull32Parameters,
                     static_cast<int>(slot)) +
               ' ';
    std::string all(kParameters);
    all = replaced(all, "ACCUMULATORS ", each(signature_.accumulators, kAccumulatorParameters));
    all = replaced(all, "FULLS ", fulls);
    all = replaced(all, "ROWS ", each(signature_.rows, kRowParameters));
    return replaced(all, "COLUMNS ", each(signature_.columns, kColumnParameters));
  }

  std::string row_of(int element) const {
    return element == 1 && signature_.swapped ? "row + 1" : "row";
  }
  std::string column_of(int element) const {
    return element == 1 && !signature_.swapped ? "column + 1" : "column";
  }

  std::string matrix_coordinates(int element) const {
    return row_of(element) + ", " + column_of(element);
  }

  std::string coordinates(int element) const { return matrix_coordinates(element) + ", batch"; }

  std::vector<std::string> arguments(int element) const {
    std::vector<std::string> list;
    size_t indices = 0;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i) {
      const Input& input = epilogue_.inputs[i];
      list.push_back(input.rows ? argument_by(input, binding_.inputs[i].slot, indices++, element)
                                : argument(input.dtype, binding_.inputs[i], element));
    }
    return list;
  }

  // Of element 0, and of element 1 where that is in another row.
  int rows_of_a_pair() const { return signature_.swapped ? 2 : 1; }

  // The rows that the indices name, once for all that reads them.
  std::string named_rows() const {
    std::string text;
    const std::vector<size_t> indexed = indexed_inputs(epilogue_);
    for (size_t i = 0; i < indexed.size(); ++i)
      for (int row = 0; row < rows_of_a_pair(); ++row)
        text += fmt::format("  const long long named{}_{} = attacca_named<{}>(context, {}, {});\n",
                            i, row, memory_type(epilogue_.inputs[indexed[i]].rows->dtype),
                            binding_.indices[i].slot, row_of(row));
    return text;
  }

  // An input whose rows an index names: the `number`th of these.
  std::string argument_by(const Input& input, int slot, size_t number, int element) const {
    return from_memory(
        input.dtype,
        fmt::format("attacca_load_by<{}>(context, {}, {}, named{}_{}, {})",
                    memory_type(input.dtype), slot, binding_.indices[number].slot, number,
                    std::min(element, rows_of_a_pair() - 1), column_of(element)));
  }

  std::string argument(DType dtype, const Placement& at, int element) const {
    switch (at.place) {
      case Place::Accumulator:
        return from_bits(dtype, named(kAccumulator, at.slot, element));
      case Place::Full:
        if (signature_.full_bits[static_cast<size_t>(at.slot)] == 32)
          return from_bits(dtype, named(kFull32, at.slot, element));
        return from_bits(dtype, named(kFull16, at.slot) + (element == 0 ? " & 0xFFFFu" : " >> 16"));
      case Place::Row:
        return from_bits(dtype, named(kRow, at.slot, element));
      case Place::Column:
        return from_bits(dtype, named(kColumn, at.slot));
      case Place::Context:
        return from_memory(dtype, fmt::format("attacca_load<{}>(context, {}, {})",
                                              memory_type(dtype), at.slot, coordinates(element)));
      case Place::Result:
      case Place::Maximum:
        break;
    }
    ATTACCA_CHECK(false, "an input in a result");
  }

  std::string output(size_t i) const {
    const DType dtype = epilogue_.outputs[i].dtype;
    const Placement& at = binding_.outputs[i];
    std::string text;
    if (at.place == Place::Maximum) return text;
    if (at.place == Place::Context) {
      for (int element = 0; element < 2; ++element)
        text +=
            fmt::format("  attacca_store(context, {}, {}, {});\n", at.slot, coordinates(element),
                        to_memory(dtype, fmt::format("d{}.out{}", element, i)));
      return text;
    }
    int word = 0;
    for (int slot = 0; slot < at.slot; ++slot)
      word += result_words(signature_.result_bits[static_cast<size_t>(slot)]);
    if (ir::info(dtype).bits == 8)
      return fmt::format(
          "  results.word[{}] = (uint32_t)(unsigned char){} | (uint32_t)(unsigned char){} << 8;\n",
          word, to_memory(dtype, fmt::format("d0.out{}", i)),
          to_memory(dtype, fmt::format("d1.out{}", i)));
    if (ir::info(dtype).bits == 16)
      return fmt::format("  results.word[{0}] = attacca_pack_{1}(d0.out{2}, d1.out{2});\n", word,
                         ir::name(dtype), i);
    for (int element = 0; element < 2; ++element)
      text += fmt::format("  results.word[{}] = {};\n", word + element,
                          to_word(dtype, fmt::format("d{}.out{}", element, i)));
    return text;
  }

  // The word after the results. A kernel ignores it if the first element is outside.
  std::string maximum() const {
    if (signature_.maxima == 0) return {};
    const int word = words() - 1;
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i)
      if (binding_.outputs[i].place == Place::Maximum)
        return fmt::format(
            "  const uint32_t m0 = attacca_amax_bits(d0.out{0}), m1 = attacca_inside(context, {1}) "
            "? "
            "attacca_amax_bits(d1.out{0}) : 0u;\n  results.word[{2}] = m0 > m1 ? m0 : m1;\n",
            i, matrix_coordinates(1), word);
    return fmt::format("  results.word[{}] = 0u;\n", word);
  }

  const Epilogue& epilogue_;
  const HoleSignature& signature_;
  const Binding& binding_;
  const CudaOptions& options_;
};

}  // namespace

std::string emit_cuda(const Epilogue& epilogue, const HoleSignature& signature,
                      const Binding& binding, const CudaOptions& options) {
  ATTACCA_CHECK(binding.inputs.size() == epilogue.inputs.size() &&
                    binding.outputs.size() == epilogue.outputs.size() &&
                    binding.indices.size() == indexed_inputs(epilogue).size(),
                "a binding of another epilogue");
  const HoleWriter hole(epilogue, signature, binding, options);
  std::string code = emit_element(epilogue, options);
  code += '\n' + hole.run();
  std::string text = fmt::format("// Mode {}.\n", ir::name(options.mode));
  text += kWordTypes;
  text += kContext;
  text +=
      fmt::format("struct attacca_results {{ uint32_t word[{}]; }};\n", std::max(hole.words(), 1));
  for (const std::string& include : options.includes) text += '\n' + include;
  text += '\n' + helpers_for(code);
  return text + '\n' + code;
}

}  // namespace attacca::epilogue
