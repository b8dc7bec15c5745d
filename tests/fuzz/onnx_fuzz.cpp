// Mutates models as models half of the time: bytes alone rarely stay a graph.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "fuzz/entries.hpp"
#include "onnx/onnx.pb.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Random = std::minstd_rand;

constexpr std::string_view kOps[] = {
#define DIRECT(NAME, ...) NAME,
#define VIA(NAME, ...) NAME,
#define CUSTOM(NAME, ...) NAME,
#include "import/onnx/ops.def"
};

constexpr int64_t kIntegers[] = {0, 1, -1, 2, -2, 3, 7, 16, 64, INT32_MAX, INT64_MAX, INT64_MIN};

size_t below(Random& random, size_t bound) {
  return bound == 0 ? 0 : random() % bound;
}

int64_t any_integer(Random& random) {
  return kIntegers[below(random, std::size(kIntegers))];
}

// Any name that some node or the graph defines.
std::string any_value(const onnx::GraphProto& graph, Random& random) {
  std::vector<std::string> names{""};
  for (const auto& input : graph.input()) names.push_back(input.name());
  for (const auto& weight : graph.initializer()) names.push_back(weight.name());
  for (const auto& node : graph.node())
    names.insert(names.end(), node.output().begin(), node.output().end());
  return names[below(random, names.size())];
}

template <class List>
auto* any_of(List* list, Random& random) {
  return list->empty() ? nullptr : list->Mutable(static_cast<int>(below(random, list->size())));
}

void mutate_attribute(onnx::NodeProto& node, Random& random) {
  constexpr std::string_view kNames[] = {"axis", "axes", "keepdims", "perm", "alpha", "to"};
  auto* attribute = any_of(node.mutable_attribute(), random);
  if (attribute == nullptr) {
    attribute = node.add_attribute();
    attribute->set_name(std::string(kNames[below(random, std::size(kNames))]));
    attribute->set_type(random() % 2 ? onnx::AttributeProto::INT : onnx::AttributeProto::INTS);
  }
  if (attribute->has_i() || attribute->type() == onnx::AttributeProto::INT)
    attribute->set_i(any_integer(random));
  else if (attribute->ints_size() > 0 && random() % 2)
    attribute->set_ints(static_cast<int>(below(random, attribute->ints_size())),
                        any_integer(random));
  else
    attribute->add_ints(any_integer(random));
}

void mutate_node(onnx::GraphProto& graph, Random& random) {
  auto* node = any_of(graph.mutable_node(), random);
  if (node == nullptr) return;
  switch (random() % 5) {
    case 0:
      node->set_op_type(std::string(kOps[below(random, std::size(kOps))]));
      return;
    case 1:
      if (node->input_size() > 0)
        node->set_input(static_cast<int>(below(random, node->input_size())),
                        any_value(graph, random));
      return;
    case 2:
      node->add_input(any_value(graph, random));
      return;
    default:
      mutate_attribute(*node, random);
  }
}

// Appends a copy of a node that reads the last one's result, and returns it instead.
void extend(onnx::GraphProto& graph, Random& random) {
  if (graph.node().empty() || graph.node_size() > 40) return;
  onnx::NodeProto copy = graph.node(static_cast<int>(below(random, graph.node_size())));
  const auto& last = graph.node(graph.node_size() - 1);
  if (last.output().empty() || copy.input().empty() || copy.output().empty()) return;
  copy.set_input(static_cast<int>(below(random, copy.input_size())), last.output(0));
  for (std::string& output : *copy.mutable_output())
    output = "n" + std::to_string(graph.node_size()) + output.substr(0, 8);
  if (graph.output_size() > 0) graph.mutable_output(0)->set_name(copy.output(0));
  *graph.add_node() = std::move(copy);
}

void mutate_shape(onnx::GraphProto& graph, Random& random) {
  auto* input = any_of(graph.mutable_input(), random);
  if (input == nullptr) return;
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  if (random() % 4 == 0) tensor->set_elem_type(static_cast<int>(random() % 20));
  auto* shape = tensor->mutable_shape();
  auto* dim = random() % 4 == 0 ? shape->add_dim() : any_of(shape->mutable_dim(), random);
  if (dim == nullptr) return;
  if (random() % 2)
    dim->set_dim_param(std::string(1, static_cast<char>('M' + random() % 3)));
  else
    dim->set_dim_value(any_integer(random));
}

void mutate_weight(onnx::GraphProto& graph, Random& random) {
  auto* weight = any_of(graph.mutable_initializer(), random);
  // A graph input becomes an integer weight: shapes and axes must be known while reading.
  if (weight == nullptr || random() % 4 == 0) {
    weight = graph.add_initializer();
    weight->set_name(any_value(graph, random));
    weight->set_data_type(onnx::TensorProto::INT64);
    for (size_t i = 0, n = below(random, 4); i < n; ++i)
      weight->add_int64_data(any_integer(random));
    if (weight->int64_data_size() != 1 || random() % 2) weight->add_dims(weight->int64_data_size());
    return;
  }
  if (weight->int64_data_size() > 0)
    weight->set_int64_data(static_cast<int>(below(random, weight->int64_data_size())),
                           any_integer(random));
  else if (weight->dims_size() > 0)
    weight->set_dims(static_cast<int>(below(random, weight->dims_size())), any_integer(random));
}

void mutate(onnx::ModelProto& model, Random& random) {
  auto& graph = *model.mutable_graph();
  switch (random() % 8) {
    case 0:
      mutate_shape(graph, random);
      return;
    case 1:
      mutate_weight(graph, random);
      return;
    case 2:
      extend(graph, random);
      return;
    case 3:
      if (model.opset_import_size() == 0) model.add_opset_import();
      model.mutable_opset_import(0)->set_version(1 + random() % 23);
      return;
    default:
      mutate_node(graph, random);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  Random random(seed);
  onnx::ModelProto model;
  if (random() % 4 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, max_size);
  for (size_t i = 0, n = 1 + below(random, 3); i < n; ++i) mutate(model, random);
  const std::string bytes = model.SerializeAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attacca::fuzz::try_format("onnx", {reinterpret_cast<const char*>(data), size});
  return 0;
}
