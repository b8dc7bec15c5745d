// Every eligible kernel of tests/kernels on the device: with its epilogue spliced in, bit for bit
// what the kernel alone followed by the epilogue, op by op in eager mode, gives.
#include <cstring>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/driver/device.hpp"
#include "kernels/every_number.hpp"
#include "kernels/fused.hpp"
#include "kernels/interpreted.hpp"
#include "support/check.hpp"

namespace attacca::kernels {
namespace {

using ir::Tensor;

const gpu::Device& device() {
  static const gpu::Device opened = [] {
    auto made = gpu::Device::open(0);
    ATTACCA_CHECK(made.has_value(), "the GPU tests need a GPU");
    return *std::move(made);
  }();
  return opened;
}

Result<gpu::DeviceMemory> upload(const Tensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.bytes());
  ATTACCA_TRY(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device(), bytes));
  ATTACCA_TRY_VOID(memory.copy_from(tensor.data(), bytes));
  return memory;
}

// The buffers after the kernel ran, as run_interpreted() has it.
Result<std::vector<Tensor>> run_on_device(const std::string& ptx, const Kernel& kernel,
                                          const Arguments& arguments, uint8_t poison,
                                          const std::vector<Tensor>& appended = {}) {
  ATTACCA_TRY(const std::vector<char> image, gpu::assemble(ptx, "sm_90a"));
  ATTACCA_TRY(const gpu::Module module, gpu::Module::load(device(), image));
  ATTACCA_TRY(const gpu::Function function, module.function(std::string(kernel.entry)));

  std::vector<gpu::DeviceMemory> buffers, operands;
  std::vector<uint64_t> addresses;
  for (const Tensor& buffer : arguments.buffers) {
    ATTACCA_TRY(gpu::DeviceMemory memory, upload(buffer));
    addresses.push_back(memory.address());
    buffers.push_back(std::move(memory));
  }
  ATTACCA_TRY_VOID(buffers[arguments.output].fill(poison));
  std::vector<std::vector<std::byte>> parameters = arguments.pack(addresses);
  for (const Tensor& operand : appended) {
    ATTACCA_TRY(gpu::DeviceMemory memory, upload(operand));
    const uint64_t address = memory.address();
    std::memcpy(parameters.emplace_back(sizeof address).data(), &address, sizeof address);
    operands.push_back(std::move(memory));
  }

  std::vector<void*> pointers;
  for (std::vector<std::byte>& parameter : parameters) pointers.push_back(parameter.data());
  const auto [gx, gy, gz] = kernel.grid;
  const auto [bx, by, bz] = kernel.block;
  ATTACCA_TRY_VOID(device().make_current());
  ATTACCA_TRY_VOID(
      function.launch({{gx, gy, gz}, {bx, by, bz}, kernel.shared_bytes}, nullptr, pointers.data()));
  ATTACCA_TRY_VOID(device().synchronize());

  std::vector<Tensor> after;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Tensor& before = arguments.buffers[i];
    ATTACCA_TRY(Tensor tensor, Tensor::make(before.dtype(), before.shape()));
    ATTACCA_TRY_VOID(buffers[i].copy_to(tensor.data(), static_cast<size_t>(tensor.bytes())));
    after.push_back(std::move(tensor));
  }
  ATTACCA_TRY_VOID(device().synchronize());
  return after;
}

std::string compare_on_device(const Kernel& kernel, const Fused& fused, uint64_t seed,
                              bool special) {
  const auto arguments = make_arguments(kernel, seed, special);
  if (!arguments) return to_string(arguments.error());
  const std::vector<Tensor> operands = operand_tensors(kernel, fused.tail, seed + 100, special);
  const auto alone = run_on_device(text_of(kernel), kernel, *arguments, 0xFF);
  const auto joined = run_on_device(fused.ptx, kernel, *arguments, 0xAA, operands);
  return compare_with_epilogue(kernel, fused.tail, alone, joined, arguments->output, operands);
}

struct UserKernelOnDevice : testing::TestWithParam<Kernel> {};

TEST_P(UserKernelOnDevice, IsTheKernelThenTheEpilogue) {
  const Kernel& kernel = GetParam();
  const auto fused = fuse(kernel);
  ASSERT_TRUE(fused) << to_string(fused.error());
  for (uint64_t seed = 1; seed <= 4; ++seed)
    for (const bool special : {false, true})
      EXPECT_EQ(compare_on_device(kernel, *fused, seed, special), "")
          << kernel.epilogue << ", seed " << seed << (special ? ", special numbers" : "");
}

INSTANTIATE_TEST_SUITE_P(Table, UserKernelOnDevice, testing::ValuesIn(eligible_kernels()),
                         [](const auto& info) { return test_name(info.param); });

struct NarrowOpOnDevice : testing::TestWithParam<std::tuple<std::string_view, ir::DType>> {};

TEST_P(NarrowOpOnDevice, HasTheInterpretersBitsOfEveryNumber) {
  const auto& [op, dtype] = GetParam();
  for (uint32_t part = 0; part < kNumberParts; ++part) {
    const auto numbers = number_part(dtype, op, part);
    ASSERT_TRUE(numbers) << to_string(numbers.error());
    const auto& [kernel, arguments] = *numbers;
    const auto fused = fuse(kernel);
    ASSERT_TRUE(fused) << to_string(fused.error());
    const std::vector<Tensor> operands = operand_tensors(kernel, fused->tail, 5, false);
    EXPECT_EQ(compare_with_epilogue(kernel, fused->tail,
                                    run_on_device(text_of(kernel), kernel, arguments, 0xFF),
                                    run_on_device(fused->ptx, kernel, arguments, 0xAA, operands),
                                    arguments.output, operands),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, NarrowOpOnDevice,
                         testing::Combine(testing::ValuesIn(kNarrowOps),
                                          testing::Values(ir::DType::BF16, ir::DType::F16)),
                         [](const auto& info) {
                           return narrow_op_name(std::get<0>(info.param), std::get<1>(info.param));
                         });

}  // namespace
}  // namespace attacca::kernels
