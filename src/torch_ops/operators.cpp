// libattacca_torch.so: attacca::region and attacca::region_of_one_result as torch's C++ operators,
// by its stable ABI, so that an AOTInductor package runs where attacca's Python package is not. The
// schemas are those of src/python/attacca/torch/_ops/region.py.
#include <dlfcn.h>
#include <stdexcept>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <unordered_map>

#include "torch_ops/region.hpp"

namespace attacca::torch_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

struct Named {
  ScalarType type;
  std::string_view name;
};
constexpr Named kTypes[] = {
    {ScalarType::Double, "f64"},
    {ScalarType::Float, "f32"},
    {ScalarType::Half, "f16"},
    {ScalarType::BFloat16, "bf16"},
    {ScalarType::Float8_e4m3fn, "f8e4m3"},
    {ScalarType::Float8_e5m2, "f8e5m2"},
    {ScalarType::Char, "s8"},
    {ScalarType::Byte, "u8"},
    {ScalarType::Int, "s32"},
    {ScalarType::Long, "s64"},
    {ScalarType::Bool, "bool"},
};

[[noreturn]] void raise(const Status& status) {
  throw std::runtime_error("attacca::region: " + status.text());
}

template <class T>
T value_of(Result<T> result) {
  if (!result) raise(result.status());
  return *std::move(result);
}

template <size_t N>
size_t index_of(std::string_view name, const std::string_view (&names)[N], const char* what) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return i;
  raise(
      Status("no " + std::string(what) + " " + std::string(name), what, "export the model again"));
}

Operand operand(const Tensor& tensor) {
  Operand made;
  const ScalarType type = tensor.scalar_type();
  for (const Named& each : kTypes)
    if (each.type == type) made.dtype = each.name;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    made.shape.push_back(tensor.size(axis));
    made.strides.push_back(tensor.stride(axis));
  }
  made.data = tensor.const_data_ptr();
  return made;
}

ScalarType type_named(std::string_view name) {
  for (const Named& each : kTypes)
    if (each.name == name) return each.type;
  raise(Status("no dtype " + std::string(name), "outputs", "update libattacca_torch.so"));
}

// torch's CUDA part is there where a tensor is on a GPU, and nowhere else.
void* current_stream(int32_t device) {
  using Function = int32_t (*)(int32_t, void**);
  static const auto get = [] {
    void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Function>(library ? dlsym(library, "aoti_torch_get_current_cuda_stream")
                                              : nullptr);
  }();
  void* stream = nullptr;
  if (!get || get(device, &stream) != 0)
    raise(Status("torch tells no current CUDA stream", "libtorch_cuda.so",
                 "use a PyTorch with CUDA"));
  return stream;
}

// The mode as attacca/_compile.py writes it: "fp32+batch_invariant".
void read_mode(std::string mode, Options& options) {
  constexpr std::string_view kInvariant = "+batch_invariant";
  options.batch_invariant = mode.ends_with(kInvariant);
  if (options.batch_invariant) mode.resize(mode.size() - kInvariant.size());
  options.mode = static_cast<Mode>(index_of(mode, kModeNames, "mode"));
}

// Compiled once for each device; by threads that ask at once, each for itself, since a child
// process would find a lock that is held meanwhile held for ever.
std::shared_ptr<Region> region_of(const std::string& graph, const std::string& mode,
                                  const std::string& tuning, double seconds,
                                  const std::string& device) {
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::unordered_map<std::string, std::shared_ptr<Region>>;
  std::string key =
      device + ' ' + mode + ' ' + tuning + ' ' + std::to_string(seconds) + ' ' + graph;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  Options options;
  options.device = device;
  read_mode(mode, options);
  options.tuning = static_cast<Tuning>(index_of(tuning, kTuningNames, "tuning"));
  options.tuning_seconds = seconds;
  std::shared_ptr<Region> made = value_of(Region::compile(graph, options));
  const std::lock_guard lock(mutex);
  return known.try_emplace(std::move(key), std::move(made)).first->second;
}

std::vector<Tensor> run_region(const std::vector<Tensor>& inputs, const std::string& graph,
                               const std::string& mode, const std::string& tuning, double seconds) {
  if (inputs.empty()) raise(Status("no inputs", "inputs", "export the model again"));
  const Tensor& first = inputs.front();
  const int32_t index = first.get_device();
  const std::string device = first.is_cpu() ? "cpu" : "cuda:" + std::to_string(index);
  std::vector<Operand> operands;
  std::vector<const void*> addresses;
  for (const Tensor& input : inputs) {
    if (input.is_cpu() != first.is_cpu() || input.get_device() != index)
      raise(Status("the inputs are on different devices", "inputs", "move them to " + device));
    operands.push_back(operand(input));
    addresses.push_back(operands.back().data);
  }
  const auto region = region_of(graph, mode, tuning, seconds, device);
  const Instance instance = value_of(region->instance(operands));
  std::vector<Tensor> results;
  std::vector<void*> written;
  for (size_t i = 0; i < region->outputs().size(); ++i) {
    const Shape shape = instance.output_shape(i);
    results.push_back(
        torch::stable::new_empty(first, shape, type_named(region->outputs()[i].dtype)));
    written.push_back(results.back().mutable_data_ptr());
  }
  Workspace workspace{nullptr, instance.workspace_bytes()};
  std::optional<Tensor> memory;  // torch's allocator reuses it in the stream's order
  if (workspace.bytes > 0) {
    const int64_t bytes[] = {static_cast<int64_t>(workspace.bytes)};
    memory = torch::stable::new_empty(first, bytes, ScalarType::Byte);
    workspace.data = memory->mutable_data_ptr();
  }
  const Status status =
      instance.run(addresses, written, workspace, first.is_cpu() ? nullptr : current_stream(index));
  if (!status) raise(status);
  return results;
}

Tensor run_region_of_one_result(const std::vector<Tensor>& inputs, const std::string& graph,
                                const std::string& mode, const std::string& tuning,
                                double seconds) {
  std::vector<Tensor> results = run_region(inputs, graph, mode, tuning, seconds);
  if (results.size() != 1)
    raise(Status("a region of several results", "graph", "export the model again"));
  return std::move(results.front());
}

#define ATTACCA_ARGUMENTS "(Tensor[] inputs, str graph, str mode, str tuning, float tuning_seconds)"

STABLE_TORCH_LIBRARY_FRAGMENT(attacca, library) {
  library.def("region.import_attacca_torch" ATTACCA_ARGUMENTS " -> Tensor[]");
  library.def("region_of_one_result.import_attacca_torch" ATTACCA_ARGUMENTS " -> Tensor");
}

void implement(torch::stable::detail::StableLibrary& library) {
  library.impl("region.import_attacca_torch", TORCH_BOX(&run_region));
  library.impl("region_of_one_result.import_attacca_torch", TORCH_BOX(&run_region_of_one_result));
}

STABLE_TORCH_LIBRARY_IMPL(attacca, CPU, library) {
  implement(library);
}
STABLE_TORCH_LIBRARY_IMPL(attacca, CUDA, library) {
  implement(library);
}

}  // namespace
}  // namespace attacca::torch_ops
