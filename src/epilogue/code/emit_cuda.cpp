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

constexpr std::string_view kContext = R"(struct attacca_operand {{
  void* pointer;
  long long row_stride, column_stride, batch_stride;
}};
struct attacca_hole_context {{
  int32_t rows, columns, batches, reserved;
  attacca_operand operand[{}];
}};
)";

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
                                   options_.function, fmt::join(parameters(), ", "));
    for (int element = 0; element < 2; ++element)
      text += fmt::format("  const attacca_outputs d{} = attacca_element({});\n", element,
                          fmt::join(arguments(element), ", "));
    text += fmt::format("  attacca_results results{};\n", words() == 0 ? " = {}" : "");
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i) text += output(i);
    text += maximum();
    return text + "  return results;\n}\n";
  }

 private:
  std::vector<std::string> parameters() const {
    std::vector<std::string> list;
    const auto pair = [&](std::string_view kind, size_t slot) {
      list.push_back(fmt::format("uint32_t {}{}_0", kind, slot));
      list.push_back(fmt::format("uint32_t {}{}_1", kind, slot));
    };
    for (int set = 0; set < signature_.accumulators; ++set) pair("acc", static_cast<size_t>(set));
    for (size_t slot = 0; slot < signature_.full_bits.size(); ++slot) {
      if (signature_.full_bits[slot] == 16)
        list.push_back(fmt::format("uint32_t full{}", slot));
      else
        pair("full", slot);
    }
    for (int slot = 0; slot < signature_.rows; ++slot) pair("row", static_cast<size_t>(slot));
    for (int slot = 0; slot < signature_.columns; ++slot)
      list.push_back(fmt::format("uint32_t col{}", slot));
    for (const char* coordinate : {"row", "column", "batch"})
      list.push_back(fmt::format("int32_t {}", coordinate));
    list.emplace_back("const attacca_hole_context* context");
    return list;
  }

  std::string coordinates(int element) const {
    if (element == 0) return "row, column, batch";
    return signature_.swapped ? "row + 1, column, batch" : "row, column + 1, batch";
  }

  std::vector<std::string> arguments(int element) const {
    std::vector<std::string> list;
    for (size_t i = 0; i < epilogue_.inputs.size(); ++i)
      list.push_back(argument(epilogue_.inputs[i].dtype, binding_.inputs[i], element));
    return list;
  }

  std::string argument(DType dtype, const Placement& at, int element) const {
    switch (at.place) {
      case Place::Accumulator:
        return from_bits(dtype, fmt::format("acc{}_{}", at.slot, element));
      case Place::Full:
        if (signature_.full_bits[static_cast<size_t>(at.slot)] == 32)
          return from_bits(dtype, fmt::format("full{}_{}", at.slot, element));
        return from_bits(dtype,
                         fmt::format("full{} {}", at.slot, element == 0 ? "& 0xFFFFu" : ">> 16"));
      case Place::Row:
        return from_bits(dtype, fmt::format("row{}_{}", at.slot, element));
      case Place::Column:
        return from_bits(dtype, fmt::format("col{}", at.slot));
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

  // The word that follows the results. A kernel does not count it where the first element is
  // outside.
  std::string maximum() const {
    if (signature_.maxima == 0) return {};
    const int word = words() - 1;
    for (size_t i = 0; i < epilogue_.outputs.size(); ++i)
      if (binding_.outputs[i].place == Place::Maximum)
        return fmt::format(
            "  const uint32_t m0 = attacca_amax_bits(d0.out{0}), m1 = attacca_inside(context, {1}) "
            "? "
            "attacca_amax_bits(d1.out{0}) : 0u;\n  results.word[{2}] = m0 > m1 ? m0 : m1;\n",
            i, signature_.swapped ? "row + 1, column" : "row, column + 1", word);
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
                    binding.outputs.size() == epilogue.outputs.size(),
                "a binding of another epilogue");
  const HoleWriter hole(epilogue, signature, binding, options);
  std::string code = emit_element(epilogue, options);
  code += '\n' + hole.run();
  std::string text = fmt::format("// Mode {}.\n", ir::name(options.mode));
  text += kWordTypes;
  text += fmt::format(kContext, kContextOperands);
  text +=
      fmt::format("struct attacca_results {{ uint32_t word[{}]; }};\n", std::max(hole.words(), 1));
  for (const std::string& include : options.includes) text += '\n' + include;
  text += '\n' + helpers_for(code);
  return text + '\n' + code;
}

}  // namespace attacca::epilogue
