#include "api/parts.hpp"

#include "fmt/format.h"

namespace attacca::api {
namespace {

Status check_present(std::span<const void* const> addresses, const std::vector<Tensor>& tensors,
                     std::string_view what) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Tensor& tensor = tensors[i % tensors.size()];
    if (addresses[i] == nullptr && tensor.bytes > 0)
      return fail(
          fmt::format("{} {} of part {} has no address", what, tensor.name, i / tensors.size()),
          tensor.name, fmt::format("give the address of {} bytes", tensor.bytes));
  }
  return {};
}

}  // namespace

Parts::Parts(std::shared_ptr<const run::Compiled> compiled, std::vector<Tensor> inputs,
             std::vector<Tensor> outputs, std::shared_ptr<const run::CudaParts> parts)
    : compiled_(std::move(compiled)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      parts_(std::move(parts)) {}

Status Parts::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                  std::span<const ptx::AwaitedWord> words, void* stream) const {
  ATTACCA_TRY_VOID(check_present(inputs, inputs_, "input"));
  ATTACCA_TRY_VOID(check_present({outputs.data(), outputs.size()}, outputs_, "output"));
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i].address % sizeof(uint32_t) != 0)
      return fail(fmt::format("the word of part {} at {:#x} is not aligned to 4 bytes", i,
                              words[i].address),
                  "awaited", "give the address of a uint32_t");
  const std::vector<ptx::AwaitedWord> none(words.empty() ? parts_->count() : 0);
  // The kernels' arguments have one type for inputs and outputs. Nothing is written to an input.
  const std::span<void* const> given(const_cast<void* const*>(inputs.data()), inputs.size());
  return parts_->launch(given, outputs, words.empty() ? none : words, stream);
}

}  // namespace attacca::api
