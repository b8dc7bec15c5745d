#include "ort/provider.hpp"

#include <algorithm>

#include "ort/context.hpp"
#include "ort/kernel.hpp"
#include "ort/measure.hpp"
#include "ort/shapes.hpp"
#include "ort/status.hpp"

namespace attacca::ort {
namespace {

std::vector<std::string> names_of(const std::vector<Ort::ConstValueInfo>& values) {
  std::vector<std::string> names;
  for (const Ort::ConstValueInfo& value : values) names.push_back(value.GetName());
  return names;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

// Graphs inside of If and Loop stay ONNX Runtime's. Version 1.23 tells no parent, and fails where
// the graph and one inside of it have compiled nodes.
bool is_nested(const Ort::ConstGraph& graph, const std::vector<Ort::ConstNode>& nodes) {
  if (graph.GetParentNode() != nullptr) return true;
  for (const Ort::ConstNode& node : nodes)
    for (const Ort::ConstValueInfo& input : node.GetInputs())
      if (input != nullptr && input.IsFromOuterScope()) return true;
  return false;
}

}  // namespace

Provider::Provider(Settings settings, std::shared_ptr<Gpu> gpu, const OrtLogger* logger)
    : OrtEp{}, settings_(std::move(settings)), gpu_(std::move(gpu)), logger_(logger) {
  ort_version_supported = ORT_API_VERSION;
  GetName = [](const OrtEp*) noexcept { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph,
                     OrtEpGraphSupportInfo* support) noexcept -> OrtStatus* {
    return guarded([&] { return static_cast<Provider*>(self)->claim(graph, support); });
  };
  Compile = [](OrtEp* self, const OrtGraph**, const OrtNode** fused, size_t count,
               OrtNodeComputeInfo** compiled, OrtNode** saved) noexcept -> OrtStatus* {
    return guarded([&]() -> OrtStatus* {
      for (size_t i = 0; i < count; ++i)
        if (OrtStatus* status = static_cast<Provider*>(self)->compile(
                fused[i], &compiled[i], saved == nullptr ? nullptr : &saved[i]))
          return status;
      return nullptr;
    });
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** compiled, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<Kernel*>(compiled[i]);
  };
}

Result<Choice> Provider::choice(const Ort::ConstGraph& graph) {
  try {
    GraphView view = view_of(graph);
    warn_of_unknown_dims(view);
    auto saved = saved_regions(view, settings_);
    if (!saved) return saved.status();
    if (!saved->empty()) return Choice{*std::move(saved), {}};
    if (!settings_.nodes.empty()) return choose_named(view, settings_);
    Measurer measurer(view, settings_);
    return choose(view, settings_, measurer.judge());
  } catch (const std::exception& error) {
    return Choice{{}, {std::string("takes nothing, since it failed: ") + error.what()}};
  }
}

OrtStatus* Provider::claim(const OrtGraph* raw, OrtEpGraphSupportInfo* support) {
  const Ort::ConstGraph graph{raw};
  const std::vector<Ort::ConstNode> nodes = graph.GetNodes();
  if (is_nested(graph, nodes)) return nullptr;
  const auto chosen = choice(graph);
  if (!chosen) return to_ort(chosen.status());
  for (const std::string& note : chosen->notes) log(note);
  OrtNodeFusionOptions fusion = {};
  fusion.ort_version_supported = ORT_API_VERSION;
  fusion.drop_constant_initializers = true;
  for (const Claim& claim : chosen->claims) {
    std::vector<const OrtNode*> claimed;
    for (const size_t node : claim.nodes) claimed.push_back(nodes[node]);
    if (OrtStatus* status = Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(
            support, claimed.data(), claimed.size(), &fusion))
      return status;
    claims_[sorted(claim.region->outputs())] = claim;
  }
  return nullptr;
}

OrtStatus* Provider::compile(const OrtNode* raw, OrtNodeComputeInfo** compiled, OrtNode** saved) {
  const Ort::ConstNode fused{raw};
  const std::vector<std::string> outputs = names_of(fused.GetOutputs());
  const auto found = claims_.find(sorted(outputs));
  if (found == claims_.end())
    return to_ort({"ONNX Runtime asks for a region that was not claimed", fused.GetName(),
                   "report it; a session without Attacca avoids it"});
  const Claim claim = std::move(found->second);
  claims_.erase(found);
  auto kernel = Kernel::make(claim.region, gpu_, names_of(fused.GetInputs()), outputs);
  if (!kernel) return to_ort(kernel.status());
  if (settings_.save && saved != nullptr)
    *saved = context_node(fused.GetName(), *claim.region, claim.model).release();
  *compiled = std::move(*std::move(kernel)).release();
  return nullptr;
}

void Provider::warn_of_unknown_dims(const GraphView& graph) {
  if (dims_checked_) return;  // a graph that has claimed nodes may lack some
  dims_checked_ = true;
  for (const std::string& name : unknown_dims(graph, settings_))
    log("ignores dims: the model has no dimension '" + name + "'", ORT_LOGGING_LEVEL_WARNING);
}

void Provider::log(const std::string& text, OrtLoggingLevel level) const {
  Ort::ThrowOnError(Ort::GetApi().Logger_LogMessage(logger_, level, ("Attacca " + text).c_str(),
                                                    "attacca", 0, "choose"));
}

}  // namespace attacca::ort
