#include "onnx_backend/cases.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fmt/format.h"

#include "import/onnx/tensor.hpp"
#include "onnx/onnx.pb.h"

namespace attacca::backend {
namespace {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

Result<ir::Tensor> read_tensor_file(const fs::path& path, const onnx::ValueInfoProto& declared) {
  if (!declared.type().has_tensor_type()) return fail("a sequence or optional, not a tensor");
  onnx::TensorProto proto;
  if (!proto.ParseFromString(read_bytes(path)))
    return fail(fmt::format("{} is broken", path.string()));
  return import::read_tensor(proto, {});
}

// Reads NAME_0.pb, NAME_1.pb, ... as the values of `declared`, in order.
template <class Declared>
Result<std::vector<NamedTensor>> read_files(const fs::path& set, std::string_view name,
                                            const Declared& declared) {
  std::vector<NamedTensor> tensors;
  for (const onnx::ValueInfoProto* value : declared) {
    const fs::path file = set / fmt::format("{}_{}.pb", name, tensors.size());
    if (!fs::exists(file)) return fail(fmt::format("{} is missing", file.string()));
    ATTACCA_TRY(ir::Tensor tensor, read_tensor_file(file, *value));
    tensors.push_back({value->name(), std::move(tensor)});
  }
  return tensors;
}

}  // namespace

std::vector<Case> find_cases(const std::string& root) {
  std::vector<Case> cases;
  for (const auto& group : fs::directory_iterator(root))
    if (group.is_directory())
      for (const auto& entry : fs::directory_iterator(group))
        if (fs::exists(entry.path() / "model.onnx"))
          cases.push_back({(group.path().filename() / entry.path().filename()).string(),
                           entry.path().string()});
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

Result<std::vector<DataSet>> read_data(const Case& test) {
  onnx::ModelProto model;
  if (!model.ParseFromString(read_bytes(fs::path(test.directory) / "model.onnx")))
    return fail("the model is broken");
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  std::vector<const onnx::ValueInfoProto*> inputs, outputs;
  for (const auto& input : model.graph().input())
    if (!initialized.count(input.name())) inputs.push_back(&input);
  for (const auto& output : model.graph().output()) outputs.push_back(&output);
  std::vector<DataSet> sets;
  for (int i = 0; fs::exists(fs::path(test.directory) / fmt::format("test_data_set_{}", i)); ++i) {
    const fs::path set = fs::path(test.directory) / fmt::format("test_data_set_{}", i);
    DataSet data;
    ATTACCA_TRY(data.inputs, read_files(set, "input", inputs));
    ATTACCA_TRY(data.outputs, read_files(set, "output", outputs));
    sets.push_back(std::move(data));
  }
  return sets;
}

}  // namespace attacca::backend
