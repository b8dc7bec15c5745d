#include "ir/graph/kernel_call.hpp"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::ir {
namespace {

constexpr size_t kMostAxes = 3;
constexpr int64_t kMostThreads = 1024;  // of a block

template <class T>
size_t count_of(const KernelCall& call) {
  return static_cast<size_t>(
      std::count_if(call.arguments.begin(), call.arguments.end(),
                    [](const auto& each) { return std::holds_alternative<T>(each); }));
}

Status verify_source(const KernelCall& call) {
  const bool is_ptx = call.file.ends_with(".ptx");
  if (!is_ptx && !call.file.ends_with(".cu"))
    return fail(fmt::format("kernel of the file \"{}\"", call.file), {}, "name a .ptx or a .cu");
  if (!is_ptx && call.entry.empty())
    return fail(fmt::format("kernel does not say which of {}", call.file), {},
                "add entry=NAME, or entry=\"my::gemm<float, 16>\"");
  if (is_ptx && !call.options.empty())
    return fail("kernel gives options for a file that is PTX already", {}, "leave options= out");
  return {};
}

Status verify_arguments(const KernelCall& call, size_t operands) {
  if (const size_t outputs = count_of<OutputArgument>(call); outputs != 1)
    return fail(fmt::format("kernel has {} outputs", outputs), {},
                "write the result's type, such as f32[M, 4096], where its address is passed, once");
  if (const size_t tensors = count_of<TensorArgument>(call); tensors != operands)
    return fail(fmt::format("kernel passes {} tensors and has {} operands", tensors, operands));
  for (const KernelArgument& argument : call.arguments) {
    const auto* scalar = std::get_if<ScalarArgument>(&argument);
    if (scalar == nullptr) continue;
    if (is_fp8(scalar->dtype) || scalar->dtype == DType::Bool)
      return fail(fmt::format("kernel passes a number of {}", name(scalar->dtype)), {},
                  "pass its bits as u8(...)");
    ATTACCA_CHECK(is_float(scalar->dtype) == std::holds_alternative<double>(scalar->number),
                  "a kernel's number of another kind than its dtype");
  }
  return {};
}

Status verify_launch(const KernelCall& call) {
  if (call.grid.empty() || call.grid.size() > kMostAxes)
    return fail(fmt::format("kernel has a grid of {} axes", call.grid.size()), {},
                "give one to three: grid=[ceildiv(M, 64), 4]");
  if (call.block.empty() || call.block.size() > kMostAxes)
    return fail(fmt::format("kernel has a block of {} axes", call.block.size()), {},
                "give one to three: block=[256]");
  int64_t threads = 1;
  for (const int64_t extent : call.block)
    threads *= std::clamp<int64_t>(extent, 0, kMostThreads + 1);
  if (threads < 1 || threads > kMostThreads)
    return fail(fmt::format("kernel has a block of {} threads", fmt::join(call.block, " x ")), {},
                fmt::format("give 1 to {} threads", kMostThreads));
  if (call.shared < 0 || call.shared > INT32_MAX)
    return fail(fmt::format("kernel asks for {} bytes of shared memory", call.shared));
  return {};
}

bool is_sum(const Dim& dim) {
  return to_string(dim).find(' ') != std::string::npos;
}

}  // namespace

Result<int64_t> LaunchSize::evaluate(const SymbolValues& symbols) const {
  if (quotients.empty() && scale.is_static()) return scale.value();
  ATTACCA_TRY(int64_t product, scale.evaluate(symbols));
  for (const Quotient& quotient : quotients) {
    ATTACCA_TRY(const int64_t of, quotient.of.evaluate(symbols));
    ATTACCA_TRY(const int64_t by, quotient.by.evaluate(symbols));
    if (by == 0) return fail(fmt::format("{} divides by 0", to_string(*this)));
    if (__builtin_mul_overflow(product, of / by + (of % by != 0), &product))
      return fail(fmt::format("{} overflows 64 bits", to_string(*this)), {},
                  "use smaller dimensions");
  }
  return product;
}

void LaunchSize::collect_symbols(std::vector<std::string>& into) const {
  scale.collect_symbols(into);
  for (const Quotient& quotient : quotients) {
    quotient.of.collect_symbols(into);
    quotient.by.collect_symbols(into);
  }
}

std::string to_string(const LaunchSize& size) {
  std::string text;
  if (size.quotients.empty() || !size.scale.is(1)) {
    text = to_string(size.scale);
    if (!size.quotients.empty() && is_sum(size.scale)) text = "(" + text + ")";
  }
  for (const LaunchSize::Quotient& each : size.quotients)
    text += fmt::format("{}ceildiv({}, {})", text.empty() ? "" : " * ", to_string(each.of),
                        to_string(each.by));
  return text;
}

std::string to_string(const ScalarArgument& scalar) {
  const auto* number = std::get_if<double>(&scalar.number);
  return fmt::format("{}({})", name(scalar.dtype),
                     number == nullptr     ? to_string(std::get<LaunchSize>(scalar.number))
                     : std::isnan(*number) ? "nan"
                                           : fmt::format("{}", *number));
}

size_t KernelCall::output() const {
  const auto found = std::find_if(
      arguments.begin(), arguments.end(),
      [](const KernelArgument& each) { return std::holds_alternative<OutputArgument>(each); });
  ATTACCA_CHECK(found != arguments.end(), "a kernel without an output");
  return static_cast<size_t>(found - arguments.begin());
}

void KernelCall::collect_symbols(std::vector<std::string>& into) const {
  for (const LaunchSize& size : grid) size.collect_symbols(into);
  for (const KernelArgument& argument : arguments)
    if (const auto* scalar = std::get_if<ScalarArgument>(&argument))
      if (const auto* size = std::get_if<LaunchSize>(&scalar->number)) size->collect_symbols(into);
}

Status verify(const KernelCall& call, size_t operands) {
  ATTACCA_TRY_VOID(verify_source(call));
  ATTACCA_TRY_VOID(verify_arguments(call, operands));
  return verify_launch(call);
}

}  // namespace attacca::ir
