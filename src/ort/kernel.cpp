#include "ort/kernel.hpp"

#include <algorithm>

#include "ort/cuda/run.hpp"
#include "ort/status.hpp"

namespace attacca::ort {
namespace {

// A value of the region's that has no bytes may have no address.
alignas(16) char nothing[16];

Result<std::vector<size_t>> places(const std::vector<std::string>& wanted,
                                   const std::vector<std::string>& among) {
  std::vector<size_t> all;
  for (const std::string& name : wanted) {
    const auto found = std::find(among.begin(), among.end(), name);
    if (found == among.end())
      return Status("ONNX Runtime's fused node lacks " + name, name, "report it");
    all.push_back(static_cast<size_t>(found - among.begin()));
  }
  return all;
}

Given given(const Ort::ConstValue& value) {
  const auto type = value.GetTensorTypeAndShapeInfo();
  const void* const data = value.GetTensorRawData();
  return {data == nullptr ? nothing : data, type.GetElementType(), type.GetShape()};
}

}  // namespace

Kernel::Kernel(std::shared_ptr<Region> region, std::shared_ptr<Gpu> gpu)
    : OrtNodeComputeInfo{}, region_(std::move(region)), gpu_(std::move(gpu)) {
  ort_version_supported = ORT_API_VERSION;
  CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) -> OrtStatus* {
    *state = self;
    return nullptr;
  };
  Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) -> OrtStatus* {
    return guarded([&] { return static_cast<Kernel*>(self)->run(context); });
  };
  ReleaseState = [](OrtNodeComputeInfo*, void*) {};
}

Result<std::unique_ptr<Kernel>> Kernel::make(std::shared_ptr<Region> region,
                                             std::shared_ptr<Gpu> gpu,
                                             const std::vector<std::string>& inputs,
                                             const std::vector<std::string>& outputs) {
  std::unique_ptr<Kernel> kernel(new Kernel(std::move(region), std::move(gpu)));
  auto ins = places(kernel->region_->inputs(), inputs);
  if (!ins) return ins.status();
  auto outs = places(kernel->region_->outputs(), outputs);
  if (!outs) return outs.status();
  kernel->inputs_ = *std::move(ins);
  kernel->outputs_ = *std::move(outs);
  return kernel;
}

OrtStatus* Kernel::run(OrtKernelContext* context) const {
  if (gpu_ == nullptr) return run_on_cpu(context);
  return run_on_gpu(*gpu_, *region_, context, inputs_, outputs_);
}

OrtStatus* Kernel::run_on_cpu(OrtKernelContext* raw) const {
  const Ort::KernelContext context{raw};
  std::vector<Given> inputs;
  for (const size_t input : inputs_) inputs.push_back(given(context.GetInput(input)));
  const auto instance = region_->instance(inputs);
  if (!instance) return to_ort(instance.status(), ORT_INVALID_ARGUMENT);
  std::vector<void*> outputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    auto output = context.GetOutput(outputs_[i], instance->output_shape(i));
    void* const data = output.GetTensorMutableRawData();
    outputs.push_back(data == nullptr ? nothing : data);
  }
  return to_ort(Region::run(*instance, inputs, outputs));
}

}  // namespace attacca::ort
