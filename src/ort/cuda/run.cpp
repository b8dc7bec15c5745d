#include "ort/cuda/run.hpp"

#include "ort/status.hpp"

namespace attacca::ort {
namespace {

// The address of what has no bytes.
alignas(256) char empty[256];

// Blocks of the pool that a run needs until its work is on the stream.
class Blocks {
 public:
  Blocks(Pool& pool, void* stream) : pool_(pool), stream_(stream) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    for (void* const block : blocks_) pool_.give_back(block);
  }

  Result<void*> allocate(size_t bytes) {
    if (bytes == 0) return static_cast<void*>(empty);
    blocks_.reserve(blocks_.size() + 1);
    auto made = pool_.allocate(bytes, stream_);
    if (made) blocks_.push_back(*made);
    return made;
  }

 private:
  Pool& pool_;
  void* stream_;
  std::vector<void*> blocks_;
};

struct Tensor {
  void* data = nullptr;  // never null
  size_t bytes = 0;
  bool host = false;
};

struct Output {
  Tensor tensor;
  void* on_gpu = nullptr;
};

Result<Tensor> tensor_of(const OrtValue* value, const void* data, const std::string& name) {
  Tensor tensor;
  Ort::ThrowOnError(Ort::GetApi().GetTensorSizeInBytes(value, &tensor.bytes));
  const auto place = place_of(Ort::GetEpApi().Value_GetMemoryDevice(value));
  if (!place)
    return Status(name + " lies in the memory of a device that Attacca cannot read", name,
                  "report it");
  if (data == nullptr && tensor.bytes != 0)
    return Status(
        "there is no memory for the " + std::to_string(tensor.bytes) + " bytes of " + name, name,
        "run with smaller sizes, or free memory on the GPU");
  tensor.host = place->host;
  tensor.data = tensor.bytes == 0 ? empty : const_cast<void*>(data);
  return tensor;
}

class Run {
 public:
  Run(Gpu& gpu, Region& region, OrtKernelContext* context)
      : gpu_(gpu),
        region_(region),
        context_(context),
        stream_(context_.GetGPUComputeStream()),
        blocks_(gpu.memory(), stream_) {}

  Status run(const std::vector<size_t>& inputs, const std::vector<size_t>& outputs) {
    gpu_.busy(stream_);
    Status status = launch(inputs, outputs);
    // What was launched before a failure may use the blocks, and host memory, too.
    if (wait_ || stream_ == nullptr || !status) {
      const Status waited = gpu_.synchronize(stream_);
      if (status) status = waited;
    }
    return status;
  }

  OrtErrorCode code() const { return code_; }

 private:
  Status launch(const std::vector<size_t>& inputs, const std::vector<size_t>& outputs) {
    std::vector<Given> given;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (Status status = read(region_.inputs()[i], context_.GetInput(inputs[i]), given); !status)
        return status;
    const auto instance = region_.instance(given);
    if (!instance) code_ = ORT_INVALID_ARGUMENT;
    if (!instance) return instance.status();
    std::vector<Output> results;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (Status status = place(i, outputs[i], instance->output_shape(i), results); !status)
        return status;
    if (Status status = launch(*instance, given, results); !status) return status;
    for (const Output& result : results)
      if (Status status = write(result); !status) return status;
    return {};
  }

  Status launch(const Instance& instance, const std::vector<Given>& given,
                const std::vector<Output>& results) {
    std::vector<void*> addresses;
    for (const Output& result : results) addresses.push_back(result.on_gpu);
    const size_t bytes = instance.workspace_bytes();
    const auto workspace = blocks_.allocate(bytes);
    if (!workspace) return workspace.status();
    return Region::run(instance, given, addresses, {*workspace, bytes}, stream_);
  }

  // ONNX Runtime's memory for an output, and a block where that is on the host.
  Status place(size_t output, size_t index, const Shape& shape, std::vector<Output>& results) {
    auto value = context_.GetOutput(index, shape);
    const auto tensor =
        tensor_of(value, value.GetTensorMutableRawData(), region_.outputs()[output]);
    if (!tensor) return tensor.status();
    const auto on_gpu =
        tensor->host ? blocks_.allocate(tensor->bytes) : Result<void*>(tensor->data);
    if (!on_gpu) return on_gpu.status();
    results.push_back({*tensor, *on_gpu});
    return {};
  }

  // An input on the host is copied.
  Status read(const std::string& name, const Ort::ConstValue& value, std::vector<Given>& given) {
    const auto type = value.GetTensorTypeAndShapeInfo();
    const auto tensor = tensor_of(value, value.GetTensorRawData(), name);
    if (!tensor) return tensor.status();
    void* data = tensor->data;
    if (tensor->host && tensor->bytes != 0) {
      const auto block = blocks_.allocate(tensor->bytes);
      if (!block) return block.status();
      data = *block;
      wait_ = true;  // the host's memory may be gone afterwards
      if (Status status = gpu_.device().upload(data, tensor->data, tensor->bytes, stream_); !status)
        return status;
    }
    given.push_back({data, type.GetElementType(), type.GetShape()});
    return {};
  }

  Status write(const Output& output) {
    const Tensor& tensor = output.tensor;
    if (!tensor.host) return {};
    wait_ = true;
    return gpu_.device().download(tensor.data, output.on_gpu, tensor.bytes, stream_);
  }

  Gpu& gpu_;
  Region& region_;
  Ort::KernelContext context_;
  void* stream_;
  Blocks blocks_;
  bool wait_ = false;
  OrtErrorCode code_ = kGpuFailed;
};

}  // namespace

OrtStatus* run_on_gpu(Gpu& gpu, Region& region, OrtKernelContext* context,
                      const std::vector<size_t>& inputs, const std::vector<size_t>& outputs) {
  Run run(gpu, region, context);
  const Status status = run.run(inputs, outputs);
  return to_ort(status, run.code());
}

}  // namespace attacca::ort
