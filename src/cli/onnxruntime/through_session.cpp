#include "cli/onnxruntime/through_session.hpp"

#include <cstring>
#include <optional>

#include "fmt/format.h"

#include "cli/onnxruntime/library.hpp"

namespace attacca::cli {
namespace {

constexpr std::string_view kNote = "Attacca ";
constexpr char kAttaccaProvider[] = "AttaccaExecutionProvider";

struct ElementRow {
  ONNXTensorElementDataType onnx;
  ir::DType dtype;
};
constexpr ElementRow kElements[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ir::DType::F32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, ir::DType::F64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ir::DType::F16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ir::DType::BF16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, ir::DType::F8E4M3},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2, ir::DType::F8E5M2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, ir::DType::S8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ir::DType::U8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ir::DType::S32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, ir::DType::S64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, ir::DType::Bool},
};

Result<ir::DType> dtype_of(ONNXTensorElementDataType onnx, const std::string& name) {
  for (const ElementRow& row : kElements)
    if (row.onnx == onnx) return row.dtype;
  return fail(fmt::format("{} has ONNX's element type {}, which Attacca lacks", name,
                          static_cast<int>(onnx)),
              name, "run the model in ONNX Runtime itself");
}

ONNXTensorElementDataType onnx_of(ir::DType dtype) {
  for (const ElementRow& row : kElements)
    if (row.dtype == dtype) return row.onnx;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

void collect_note(void* notes, OrtLoggingLevel, const char*, const char*, const char*,
                  const char* message) {
  if (std::string_view(message).starts_with(kNote))
    static_cast<std::vector<std::string>*>(notes)->emplace_back(message);
}

Ort::SessionOptions options_of(OnnxRuntime& runtime, int threads,
                               const std::unordered_map<std::string, std::string>* attacca) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(threads);
  // Threads of one session that spin would slow the other.
  options.AddConfigEntry("session.force_spinning_stop", "1");
  options.SetLogSeverityLevel(attacca ? ORT_LOGGING_LEVEL_INFO : ORT_LOGGING_LEVEL_ERROR);
  if (attacca)
    options.AppendExecutionProvider_V2(const_cast<Ort::Env&>(runtime.env()),
                                       {runtime.attacca(attacca->at("device"))}, *attacca);
  return options;
}

}  // namespace

Result<OnnxRuntime> OnnxRuntime::open() {
  ATTACCA_TRY(const OnnxRuntimeLibrary library, open_onnxruntime());
  const auto get = reinterpret_cast<const OrtApiBase* (*)()>(library.get_api_base);
  const OrtApi* const api = get()->GetApi(ORT_API_VERSION);
  if (api == nullptr)
    return fail(fmt::format("ONNX Runtime {} takes no plug-ins", get()->GetVersionString()),
                library.path, "install version 1.23 or newer");
  Ort::InitApi(api);
  return OnnxRuntime(library.path, library.plugin);
}

OnnxRuntime::OnnxRuntime(std::string path, const std::string& plugin)
    : path_(std::move(path)),
      notes_(std::make_unique<std::vector<std::string>>()),
      env_(ORT_LOGGING_LEVEL_WARNING, "attacca", collect_note, notes_.get()) {
  env_.RegisterExecutionProviderLibrary("Attacca", plugin);
}

Ort::ConstEpDevice OnnxRuntime::attacca(const std::string& device) const {
  for (const Ort::ConstEpDevice& each : env_.GetEpDevices()) {
    if (std::string_view(each.EpName()) != kAttaccaProvider) continue;
    const char* const where = each.EpMetadata().GetValue("device");
    if (where != nullptr && device == where) return each;
  }
  throw Ort::Exception("ONNX Runtime does not show Attacca's device " + device, ORT_FAIL);
}

std::vector<std::string> OnnxRuntime::take_notes() {
  return std::exchange(*notes_, {});
}

OnnxSession::OnnxSession(OnnxRuntime& runtime, const std::string& file, int threads,
                         const std::unordered_map<std::string, std::string>* attacca)
    : session_(runtime.env(), file.c_str(), options_of(runtime, threads, attacca)),
      inputs_(session_.GetInputNames()),
      outputs_(session_.GetOutputNames()) {}

Result<ir::Graph> OnnxSession::inputs() const {
  ir::Graph graph;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Ort::TypeInfo info = session_.GetInputTypeInfo(i);
    if (info.GetONNXType() != ONNX_TYPE_TENSOR)
      return fail(fmt::format("input {} is not a tensor", inputs_[i]), inputs_[i],
                  "run the model in ONNX Runtime itself");
    const auto tensor = info.GetTensorTypeAndShapeInfo();
    ir::Type type;
    ATTACCA_TRY(type.dtype, dtype_of(tensor.GetElementType(), inputs_[i]));
    const std::vector<const char*> symbols = tensor.GetSymbolicDimensions();
    const std::vector<int64_t> shape = tensor.GetShape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string symbol = symbols[axis] && symbols[axis][0] != '\0'
                                     ? symbols[axis]
                                     : fmt::format("{}_d{}", inputs_[i], axis);
      type.shape.push_back(shape[axis] < 0 ? ir::Dim::symbol(symbol) : ir::Dim(shape[axis]));
    }
    ATTACCA_TRY_VOID(graph.input(inputs_[i], std::move(type)));
  }
  return graph;
}

void OnnxSession::run(const ir::Bindings& inputs, std::vector<Ort::Value>& results) {
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<Ort::Value> values;
  std::vector<const char*> in, out;
  for (const std::string& name : inputs_) {
    const ir::Tensor& tensor = inputs.at(name);
    values.push_back(Ort::Value::CreateTensor(
        memory, const_cast<std::byte*>(tensor.data()), static_cast<size_t>(tensor.bytes()),
        tensor.shape().data(), tensor.shape().size(), onnx_of(tensor.dtype())));
    in.push_back(name.c_str());
  }
  for (const std::string& name : outputs_) out.push_back(name.c_str());
  results = session_.Run(Ort::RunOptions{nullptr}, in.data(), values.data(), in.size(), out.data(),
                         out.size());
}

Result<ir::Tensor> tensor_of(const Ort::Value& value, const std::string& name) {
  if (!value.IsTensor())
    return fail(fmt::format("output {} is not a tensor", name), name,
                "run the model in ONNX Runtime itself");
  const auto type = value.GetTensorTypeAndShapeInfo();
  ATTACCA_TRY(const ir::DType dtype, dtype_of(type.GetElementType(), name));
  ATTACCA_TRY(ir::Tensor tensor, ir::Tensor::make(dtype, type.GetShape()));
  if (tensor.bytes() > 0)
    std::memcpy(tensor.data(), value.GetTensorRawData(), static_cast<size_t>(tensor.bytes()));
  return tensor;
}

}  // namespace attacca::cli
