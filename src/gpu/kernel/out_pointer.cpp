#include "gpu/kernel/out_pointer.hpp"

#include <algorithm>

#include "fmt/format.h"

namespace attacca::gpu {
namespace {

constexpr size_t kOperands = 4;  // attacca::kOutOperands

std::string hole_name(uint32_t element_bytes) {
  return element_bytes == 8 ? "attacca_out_64" : "attacca_out";
}

// The hole's definition: always four void pointers. `result`: an expression of `bits`, `index` and
// `operand0` to `operand3`.
std::string define_hole(uint32_t element_bytes, const std::string& result) {
  std::string parameters;
  for (size_t i = 0; i < kOperands; ++i) parameters += fmt::format(", const void* operand{}", i);
  return fmt::format(
      "extern \"C\" __device__ {0} {1}({0} bits, unsigned long long index{2}) {{ return {3}; }}\n",
      element_bytes == 8 ? "unsigned long long" : "unsigned int", hole_name(element_bytes),
      parameters, result);
}

// `tail` takes one typed pointer for each of its operands.
std::string filling_source(const Tail& tail, uint32_t element_bytes) {
  std::string arguments = "bits, index";
  for (size_t i = 0; i < tail.operands.size(); ++i)
    arguments += fmt::format(", attacca_any{{operand{}}}", i);
  return tail.source +
         "\nstruct attacca_any {\n  const void* pointer;\n  template <class T>\n"
         "  __device__ operator const T*() const { return (const T*)pointer; }\n};\n" +
         define_hole(element_bytes, fmt::format("{}({})", tail.signature.function, arguments));
}

Result<ptx::Spliced> fill_hole(const ptx::Module& module, uint32_t element_bytes,
                               const std::string& source, const Toolchain& toolchain) {
  ATTACCA_TRY(std::string filling,
              toolchain.compile(source, {.arch = target_of(module), .contract = false}));
  ATTACCA_TRY(const ptx::Module epilogue, ptx::parse(std::move(filling), "the epilogue's PTX"));
  return ptx::splice(module, epilogue, hole_name(element_bytes));
}

}  // namespace

std::string open_output(const ptx::Module& module, uint32_t element_bytes) {
  const std::string hole = hole_name(element_bytes);
  // Once where it is declared, again where it is called.
  const auto mentions =
      std::count_if(module.tokens.begin(), module.tokens.end(),
                    [&](const ptx::Token& token) { return token.text() == hole; });
  for (const ptx::Item& item : module.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->name == hole && !function->body && mentions > 1)
      return hole;
  }
  return {};
}

Result<ptx::Spliced> fill_output(const ptx::Module& module, uint32_t element_bytes,
                                 const Tail& tail, const Toolchain& toolchain) {
  if (open_output(module, element_bytes).empty())
    return fail("the kernel calls no hole of attacca::Out", module.source.where(size_t{0}),
                "compile it with -DATTACCA_OPEN and include attacca/out.cuh");
  if (tail.operands.size() > kOperands)
    return fail(fmt::format("the epilogue has {} operands, and attacca::Out carries {}",
                            tail.operands.size(), kOperands));
  ATTACCA_TRY(ptx::Spliced filled,
              fill_hole(module, element_bytes, filling_source(tail, element_bytes), toolchain));
  const uint32_t other_bytes = element_bytes == 8 ? 4 : 8;
  if (open_output(module, other_bytes).empty()) return filled;
  ATTACCA_TRY(const ptx::Module half, ptx::parse(std::move(filled.ptx), "the filled PTX"));
  ATTACCA_TRY(ptx::Spliced whole,
              fill_hole(half, other_bytes, define_hole(other_bytes, "bits"), toolchain));
  filled.ptx = std::move(whole.ptx);
  return filled;
}

}  // namespace attacca::gpu
