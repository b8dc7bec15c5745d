#include "api/instance.hpp"

#include "fmt/format.h"

#include "api/layout.hpp"

namespace attacca::api {
namespace {

Status check_addresses(std::span<const void* const> addresses, const std::vector<Tensor>& tensors,
                       std::string_view what) {
  if (addresses.size() != tensors.size())
    return fail(fmt::format("{} addresses for {} {}s", addresses.size(), tensors.size(), what),
                fmt::format("{}s", what), "give one for each, in the graph's order");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    if (address == 0 && tensors[i].bytes > 0)
      return fail(fmt::format("{} {} has no address", what, tensors[i].name), tensors[i].name,
                  fmt::format("give the address of {} bytes", tensors[i].bytes));
    if (address % static_cast<uintptr_t>(ir::size_of(tensors[i].dtype)) != 0)
      return fail(fmt::format("{} {} at {:#x} is not aligned to its elements' {} bytes", what,
                              tensors[i].name, address, ir::size_of(tensors[i].dtype)),
                  tensors[i].name, "copy it to an aligned place");
  }
  return {};
}

}  // namespace

Instance::Instance(std::shared_ptr<const run::Compiled> compiled, std::vector<Tensor> inputs,
                   std::vector<Tensor> outputs, std::shared_ptr<const run::CpuInstance> cpu,
                   std::shared_ptr<const run::CudaInstance> cuda)
    : compiled_(std::move(compiled)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      cpu_(std::move(cpu)),
      cuda_(std::move(cuda)) {
  for (const Tensor& each : outputs_)
    row_major_.push_back(
        reach_the_same(each.shape, each.strides, ir::contiguous_strides(each.shape)));
}

size_t Instance::workspace_bytes() const {
  return cuda_ ? cuda_->workspace_bytes() : 0;
}

std::span<const run::Decision> Instance::decisions() const {
  if (!cuda_) return {};
  return cuda_->decisions();
}

Status Instance::check_overlap(std::span<const void* const> inputs, std::span<void* const> outputs,
                               const void* workspace) const {
  const auto extent = [](const Tensor& tensor, const void* address) {
    return Extent{reinterpret_cast<uintptr_t>(address), ir::size_of(tensor.dtype), tensor.shape,
                  tensor.strides};
  };
  const auto refuse = [&](size_t output, std::string_view what, const std::string& other) {
    const std::string& name = outputs_[output].name;
    return fail(fmt::format("output {} overlaps {}{}", name, what, other), name,
                "give it memory of its own");
  };
  const int64_t bytes[] = {static_cast<int64_t>(workspace_bytes())}, steps[] = {1};
  const Extent scratch{reinterpret_cast<uintptr_t>(workspace), 1, bytes, steps};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Extent output = extent(outputs_[i], outputs[i]);
    for (size_t k = 0; k < inputs.size(); ++k)
      if (may_share(output, extent(inputs_[k], inputs[k])))
        return refuse(i, "input ", inputs_[k].name);
    for (size_t k = 0; k < i; ++k)
      if (may_share(output, extent(outputs_[k], outputs[k])))
        return refuse(i, "output ", outputs_[k].name);
    if (may_share(output, scratch)) return refuse(i, "the workspace", "");
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (may_share(extent(inputs_[k], inputs[k]), scratch))
      return fail(fmt::format("input {} overlaps the workspace", inputs_[k].name), inputs_[k].name,
                  "give the workspace memory of its own");
  return {};
}

Status Instance::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                     void* workspace, size_t workspace_bytes, void* stream) const {
  ATTACCA_TRY_VOID(check_addresses(inputs, inputs_, "input"));
  ATTACCA_TRY_VOID(check_addresses({outputs.data(), outputs.size()}, outputs_, "output"));
  ATTACCA_TRY_VOID(check_overlap(inputs, outputs, workspace));
  if (!cuda_) {
    if (stream != nullptr) return fail("a stream for a plan on the CPU", "stream", "give NULL");
    return run_on_cpu(inputs, outputs);
  }
  if (workspace_bytes < this->workspace_bytes())
    return fail(fmt::format("a workspace of {} bytes where {} are needed", workspace_bytes,
                            this->workspace_bytes()),
                "workspace", "ask the instance how many it needs");
  if (workspace == nullptr && this->workspace_bytes() > 0)
    return fail("the workspace has no address", "workspace",
                fmt::format("give {} bytes of the device's memory", this->workspace_bytes()));
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return fail("the workspace is not aligned to 256 bytes", "workspace",
                "memory of cuMemAlloc is");
  // The kernels' arguments have one type for inputs and outputs. Nothing is written to an input.
  const std::span<void* const> given(const_cast<void* const*>(inputs.data()), inputs.size());
  return cuda_->launch(given, outputs, workspace, stream);
}

Status Instance::run_on_cpu(std::span<const void* const> inputs,
                            std::span<void* const> outputs) const {
  std::vector<void*> places(outputs.begin(), outputs.end());
  for (size_t i = 0; i < places.size(); ++i)
    if (!row_major_[i]) places[i] = nullptr;
  ATTACCA_TRY(const std::vector<ir::Tensor> results, cpu_->run(inputs, places));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (results[i].data() == outputs[i]) continue;
    ATTACCA_TRY(const ir::Tensor result, results[i].contiguous());
    scatter(result, outputs_[i].strides, static_cast<std::byte*>(outputs[i]));
  }
  return {};
}

}  // namespace attacca::api
