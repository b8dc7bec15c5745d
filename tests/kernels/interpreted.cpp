#include "kernels/interpreted.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fmt/format.h"

namespace attacca::kernels {

using ir::Tensor;
using ptx_interpreter::Memory;

namespace {

constexpr uint64_t kMostSteps = 1'000'000;  // the table's kernels take a fifth at most

// `shift`: in elements; the memory before them belongs to no buffer.
uint64_t upload(Memory& memory, const Tensor& tensor, size_t shift = 0) {
  const size_t before = shift * static_cast<size_t>(ir::size_of(tensor.dtype()));
  const uint64_t address = memory.allocate(before + static_cast<size_t>(tensor.bytes()));
  std::ranges::copy(bytes_of(tensor), memory.bytes(address).subspan(before).begin());
  return address + before;
}

}  // namespace

Result<std::vector<Tensor>> run_interpreted(const ptx::Module& module, const Kernel& kernel,
                                            const Arguments& arguments, std::byte poison,
                                            const std::vector<Tensor>& appended, size_t shift) {
  Memory memory;
  std::vector<uint64_t> addresses;
  for (const Tensor& buffer : arguments.buffers) addresses.push_back(upload(memory, buffer));
  std::ranges::fill(memory.bytes(addresses[arguments.output]), poison);

  ptx_interpreter::Launch launch{
      std::string(kernel.entry), kernel.grid, kernel.block, kernel.shared_bytes,
      arguments.pack(addresses), kMostSteps};
  for (const Tensor& operand : appended) {
    const uint64_t address = upload(memory, operand, shift);
    std::vector<std::byte>& bytes = launch.parameters.emplace_back(sizeof address);
    std::memcpy(bytes.data(), &address, sizeof address);
  }
  ATTACCA_TRY_VOID(ptx_interpreter::run(module, launch, memory));

  std::vector<Tensor> after;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Tensor& before = arguments.buffers[i];
    ATTACCA_TRY(Tensor tensor, Tensor::make(before.dtype(), before.shape()));
    std::ranges::copy(memory.bytes(addresses[i]), bytes_of(tensor).begin());
    after.push_back(std::move(tensor));
  }
  return after;
}

std::string compare_elements(const Tensor& got, const Tensor& want) {
  const auto element = static_cast<size_t>(ir::size_of(want.dtype()));
  for (int64_t i = 0; i < want.size(); ++i) {
    const size_t at = static_cast<size_t>(i) * element;
    if (std::memcmp(got.data() + at, want.data() + at, element) == 0) continue;
    const double x = got.number_at(i), y = want.number_at(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    return fmt::format("element {} is {}, wanted {}", i, x, y);
  }
  return {};
}

}  // namespace attacca::kernels
