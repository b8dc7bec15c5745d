#include "jit/out_pointer.hpp"

#include "fmt/format.h"

namespace attacca::jit {
namespace {

constexpr size_t kOperands = 4;  // attacca::kOutOperands

// `tail` takes typed pointers, as many as it has operands; the hole takes void pointers, always
// four.
std::string filling_source(const Tail& tail, std::string_view hole, uint32_t element_bytes) {
  const std::string_view word = element_bytes == 8 ? "unsigned long long" : "unsigned int";
  std::string parameters, arguments;
  for (size_t i = 0; i < kOperands; ++i) {
    parameters += fmt::format(", const void* operand{}", i);
    if (i < tail.operands.size()) arguments += fmt::format(", attacca_any{{operand{}}}", i);
  }
  return tail.source +
         fmt::format(
             "\nstruct attacca_any {{\n  const void* pointer;\n  template <class T>\n"
             "  __device__ operator const T*() const {{ return (const T*)pointer; }}\n}};\n"
             "extern \"C\" __device__ {0} {1}({0} bits, unsigned long long index{2}) {{\n"
             "  return {3}(bits, index{4});\n}}\n",
             word, hole, parameters, tail.signature.function, arguments);
}

}  // namespace

std::string open_output(const ptx::Module& module, uint32_t element_bytes) {
  const std::string_view hole = element_bytes == 8 ? "attacca_out_64" : "attacca_out";
  for (const ptx::Item& item : module.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->name == hole && !function->body) return std::string(hole);
  }
  return {};
}

Result<ptx::Spliced> fill_output(const ptx::Module& module, uint32_t element_bytes,
                                 const Tail& tail, const Toolchain& toolchain) {
  const std::string hole = open_output(module, element_bytes);
  if (hole.empty())
    return fail("the kernel calls no hole of attacca::Out", module.source.where(size_t{0}),
                "compile it with -DATTACCA_OPEN -rdc=true and include attacca/out.cuh");
  if (tail.operands.size() > kOperands)
    return fail(fmt::format("the epilogue has {} operands, and attacca::Out carries {}",
                            tail.operands.size(), kOperands));
  ATTACCA_TRY(std::string filling,
              toolchain.compile(filling_source(tail, hole, element_bytes),
                                {.arch = target_of(module), .contract = false}));
  ATTACCA_TRY(const ptx::Module epilogue, ptx::parse(std::move(filling), "the epilogue's PTX"));
  return ptx::splice(module, epilogue, hole);
}

}  // namespace attacca::jit
