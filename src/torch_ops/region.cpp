#include "torch_ops/region.hpp"

#include <algorithm>
#include <charconv>

namespace attacca::torch_ops {
namespace {

using plugin::text_of;

plugin::LayoutKey key_of(const std::vector<Operand>& inputs) {
  plugin::LayoutKey key;
  for (const Operand& input : inputs) key.add(input.data, input.shape, input.strides);
  return key;
}

}  // namespace

std::string decoded(std::string_view argument) {
  if (argument.find('"') != argument.npos) return std::string(argument);
  std::string text;
  for (size_t i = 0; i < argument.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = argument.data() + i + 1;
    const char c = argument[i];
    if (c == '%' && i + 2 < argument.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += c;
    }
  }
  for (char& c : text) c = c == '"' ? '\'' : c == '\'' ? '"' : c;
  return text;
}

Result<std::shared_ptr<Region>> Region::compile(std::string_view graph, const Options& options) {
  const auto parsed = Graph::parse(decoded(graph));
  if (!parsed) return parsed.status();
  auto plan = Plan::compile(*parsed, options);
  if (!plan) return plan.status();
  return std::shared_ptr<Region>(new Region(*std::move(plan)));
}

Region::Region(Plan plan)
    : plan_(std::move(plan)),
      inputs_(plan_.inputs()),
      outputs_(plan_.outputs()),
      symbols_(plan_.symbols()) {}

Status Region::check(const std::vector<Operand>& inputs) const {
  if (inputs.size() != inputs_.size())
    return {std::to_string(inputs.size()) + " inputs where the region has " +
                std::to_string(inputs_.size()),
            "inputs", "export the model again"};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].dtype != inputs_[i].dtype || inputs[i].shape.size() != inputs_[i].shape.size())
      return {inputs_[i].name + " is " + inputs[i].dtype + text_of(inputs[i].shape) + ", " +
                  inputs_[i].type + " is wanted",
              inputs_[i].name, "convert it, or export the model again"};
  return {};
}

Result<Instance> Region::prepare(const std::vector<Operand>& inputs) const {
  std::vector<Shape> shapes, strides;
  std::vector<int32_t> alignments;
  for (const Operand& input : inputs) {
    shapes.push_back(input.shape);
    strides.push_back(input.strides);
    alignments.push_back(alignment_of(input.data));
  }
  alignments.resize(inputs_.size() + outputs_.size(), 16);
  strides.resize(inputs_.size() + outputs_.size());
  const auto sizes = sizes_of(symbols_, inputs_, shapes);
  if (!sizes) return sizes.status();
  auto instance = plan_.prepare(*sizes, alignments, strides);
  if (!instance) return instance;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (instance->input_shape(i) != shapes[i])
      return Status(inputs_[i].name + " has shape " + text_of(shapes[i]) + ", " + inputs_[i].type +
                        " is wanted",
                    inputs_[i].name, "give it shape " + text_of(instance->input_shape(i)));
  return instance;
}

Result<Instance> Region::instance(const std::vector<Operand>& inputs) {
  if (Status status = check(inputs); !status) return status;
  return instances_.get(key_of(inputs), [&] { return prepare(inputs); });
}

}  // namespace attacca::torch_ops
