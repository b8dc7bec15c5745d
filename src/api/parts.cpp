#include "api/parts.hpp"

#include "fmt/format.h"

namespace attacca::api {
namespace {

// `may_be_absent`: whether this one of `tensors` may have no address.
template <class MayBeAbsent>
Status check_present(std::span<const void* const> addresses, const std::vector<Tensor>& tensors,
                     std::string_view what, const MayBeAbsent& may_be_absent) {
  if (tensors.empty() && !addresses.empty())
    return fail(fmt::format("{} {}s for a plan without any", addresses.size(), what),
                std::string(what), "give none");
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Tensor& tensor = tensors[i % tensors.size()];
    if (addresses[i] == nullptr && tensor.bytes > 0 && !may_be_absent(i % tensors.size()))
      return fail(
          fmt::format("{} {} of part {} has no address", what, tensor.name, i / tensors.size()),
          tensor.name, fmt::format("give the address of {} bytes", tensor.bytes));
  }
  return {};
}

Status check_word(uint64_t address, size_t part, std::string_view where) {
  if (address % sizeof(uint32_t) == 0) return {};
  return fail(fmt::format("the word of part {} at {:#x} is not aligned to 4 bytes", part, address),
              std::string(where), "give the address of a uint32_t");
}

Result<std::vector<ptx::Signals>> signals_of(size_t parts,
                                             std::span<const ptx::AwaitedWord> awaited,
                                             std::span<const ptx::ReportedWord> reported) {
  for (const auto& [count, where] :
       {std::pair{awaited.size(), "awaited"}, std::pair{reported.size(), "reported"}})
    if (count != 0 && count != parts)
      return fail(fmt::format("{} words for {} parts", count, parts), where,
                  "give one for each part");
  std::vector<ptx::Signals> signals(parts);
  for (size_t i = 0; i < awaited.size(); ++i) {
    ATTACCA_TRY_VOID(check_word(awaited[i].address, i, "awaited"));
    signals[i].awaited = awaited[i];
  }
  for (size_t i = 0; i < reported.size(); ++i) {
    ATTACCA_TRY_VOID(check_word(reported[i].address, i, "reported"));
    ATTACCA_TRY_VOID(check_word(reported[i].counter, i, "reported"));
    if (reported[i].address != 0 && reported[i].counter == 0)
      return fail(fmt::format("the word of part {} has no counter", i), "reported",
                  "give the address of a uint32_t that is 0");
    signals[i].reported = reported[i];
  }
  return signals;
}

}  // namespace

Parts::Parts(std::shared_ptr<const run::Compiled> compiled, std::vector<Tensor> inputs,
             std::vector<Tensor> outputs, std::shared_ptr<const run::CudaParts> parts)
    : compiled_(std::move(compiled)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      parts_(std::move(parts)) {}

Status Parts::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                  std::span<const ptx::AwaitedWord> awaited,
                  std::span<const ptx::ReportedWord> reported, void* stream) const {
  ATTACCA_TRY_VOID(check_present(inputs, inputs_, "input",
                                 [this](size_t i) { return parts_->may_be_absent(i); }));
  ATTACCA_TRY_VOID(check_present({outputs.data(), outputs.size()}, outputs_, "output",
                                 [](size_t) { return false; }));
  ATTACCA_TRY(const std::vector<ptx::Signals> signals,
              signals_of(parts_->count(), awaited, reported));
  // The kernels' arguments have one type for inputs and outputs. Nothing is written to an input.
  const std::span<void* const> given(const_cast<void* const*>(inputs.data()), inputs.size());
  return parts_->launch(given, outputs, signals, stream);
}

}  // namespace attacca::api
