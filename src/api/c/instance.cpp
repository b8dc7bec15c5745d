// The C interface: instances.
#include <algorithm>
#include <span>

#include "fmt/format.h"

#include "api/c/handles.hpp"
#include "api/c/sizes.hpp"
#include "api/c/status.hpp"
#include "run/cuda/decision.hpp"

attacca_instance::attacca_instance(std::shared_ptr<const api::Instance> made)
    : instance(std::move(made)) {
  for (const attacca::run::Decision& decision : instance->decisions())
    candidates.push_back(to_string(decision.used()));
}

namespace {

using Tensors = std::vector<api::Tensor>;

const int64_t* shape_of(const Tensors& tensors, size_t index, size_t* rank) {
  static constexpr int64_t kScalar = 1;  // what the strides of a scalar point to
  if (index >= tensors.size()) return nullptr;
  const std::vector<int64_t>& shape = tensors[index].shape;
  if (rank != nullptr) *rank = shape.size();
  return shape.empty() ? &kScalar : shape.data();
}

size_t bytes_of(const Tensors& tensors, size_t index) {
  return index < tensors.size() ? tensors[index].bytes : 0;
}

api::Layouts read_strides(const api::Plan& plan, const int64_t* const* strides, size_t count) {
  const size_t inputs = plan.inputs().size(), all = inputs + plan.outputs().size();
  api::Layouts layouts(count);
  if (count != all) return layouts;  // the plan refuses it
  for (size_t i = 0; i < count; ++i) {
    if (strides[i] == nullptr) continue;
    const api::TensorInfo& info = i < inputs ? plan.inputs()[i] : plan.outputs()[i - inputs];
    layouts[i].emplace(strides[i], strides[i] + info.shape.size());
  }
  return layouts;
}

}  // namespace

extern "C" {

attacca_status* attacca_plan_prepare(const attacca_plan* plan, const attacca_size* sizes,
                                     size_t count, const int32_t* alignments,
                                     size_t alignment_count, attacca_instance** instance) {
  return attacca_plan_prepare_strided(plan, sizes, count, alignments, alignment_count, nullptr, 0,
                                      instance);
}

attacca_status* attacca_plan_prepare_strided(const attacca_plan* plan, const attacca_size* sizes,
                                             size_t count, const int32_t* alignments,
                                             size_t alignment_count, const int64_t* const* strides,
                                             size_t stride_count, attacca_instance** instance) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, instance);
    ATTACCA_TRY(const attacca::ir::SymbolValues values, api::read_sizes(sizes, count));
    if (alignment_count > 0) ATTACCA_REQUIRE(alignments);
    if (stride_count > 0) ATTACCA_REQUIRE(strides);
    const api::Layouts layouts = read_strides(*plan->plan, strides, stride_count);
    ATTACCA_TRY(auto made,
                plan->plan->prepare(values, {alignments, alignments + alignment_count}, layouts));
    *instance = new attacca_instance(std::move(made));
    return {};
  });
}

void attacca_instance_free(attacca_instance* instance) {
  delete instance;
}

size_t attacca_instance_workspace(const attacca_instance* instance) {
  return instance != nullptr ? instance->instance->workspace_bytes() : 0;
}

const int64_t* attacca_instance_input_shape(const attacca_instance* instance, size_t index,
                                            size_t* rank) {
  return instance != nullptr ? shape_of(instance->instance->inputs(), index, rank) : nullptr;
}

const int64_t* attacca_instance_output_shape(const attacca_instance* instance, size_t index,
                                             size_t* rank) {
  return instance != nullptr ? shape_of(instance->instance->outputs(), index, rank) : nullptr;
}

size_t attacca_instance_input_bytes(const attacca_instance* instance, size_t index) {
  return instance != nullptr ? bytes_of(instance->instance->inputs(), index) : 0;
}

size_t attacca_instance_output_bytes(const attacca_instance* instance, size_t index) {
  return instance != nullptr ? bytes_of(instance->instance->outputs(), index) : 0;
}

attacca_status* attacca_instance_run(const attacca_instance* instance, const void* const* inputs,
                                     size_t input_count, void* const* outputs, size_t output_count,
                                     void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(instance);
    if (input_count > 0) ATTACCA_REQUIRE(inputs);
    if (output_count > 0) ATTACCA_REQUIRE(outputs);
    return instance->instance->run({inputs, input_count}, {outputs, output_count}, workspace,
                                   workspace_bytes, stream);
  });
}

attacca_status* attacca_plan_prepare_parts(const attacca_plan* plan, const attacca_size* sizes,
                                           size_t count, const int32_t* alignments,
                                           size_t alignment_count, size_t parts,
                                           attacca_parts** made) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, made);
    ATTACCA_TRY(const attacca::ir::SymbolValues values, api::read_sizes(sizes, count));
    if (alignment_count > 0) ATTACCA_REQUIRE(alignments);
    ATTACCA_TRY(auto prepared, plan->plan->prepare_parts(
                                   values, {alignments, alignments + alignment_count}, parts));
    std::string candidate = to_string(prepared->candidate());
    *made = new attacca_parts{std::move(prepared), std::move(candidate)};
    return {};
  });
}

void attacca_parts_free(attacca_parts* parts) {
  delete parts;
}

const char* attacca_parts_candidate(const attacca_parts* parts) {
  return parts != nullptr ? parts->candidate.c_str() : "";
}

int32_t attacca_parts_input_may_be_null(const attacca_parts* parts, size_t input) {
  return parts != nullptr && parts->parts->may_be_absent(input);
}

attacca_status* attacca_parts_run(const attacca_parts* parts, const void* const* inputs,
                                  size_t input_count, void* const* outputs, size_t output_count,
                                  const attacca_awaited* awaited, size_t awaited_count,
                                  const attacca_reported* reported, size_t reported_count,
                                  void* stream) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(parts);
    if (input_count > 0) ATTACCA_REQUIRE(inputs);
    if (output_count > 0) ATTACCA_REQUIRE(outputs);
    if (awaited_count > 0) ATTACCA_REQUIRE(awaited);
    if (reported_count > 0) ATTACCA_REQUIRE(reported);
    std::vector<attacca::ptx::AwaitedWord> before;
    for (const attacca_awaited& each : std::span(awaited, awaited_count))
      before.push_back({reinterpret_cast<uintptr_t>(each.word), each.value, each.most_ms,
                        std::max(each.count, uint32_t{1})});
    std::vector<attacca::ptx::ReportedWord> behind;
    for (const attacca_reported& each : std::span(reported, reported_count))
      behind.push_back({reinterpret_cast<uintptr_t>(each.word),
                        reinterpret_cast<uintptr_t>(each.counter), each.value});
    return parts->parts->run({inputs, input_count}, {outputs, output_count}, before, behind,
                             stream);
  });
}

size_t attacca_instance_decision_count(const attacca_instance* instance) {
  return instance != nullptr ? instance->candidates.size() : 0;
}

attacca_status* attacca_instance_decision(const attacca_instance* instance, size_t index,
                                          attacca_decision* decision) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(instance, decision);
    if (index >= instance->candidates.size())
      return fail(fmt::format("no decision {}: there are {}", index, instance->candidates.size()),
                  "index", "count from 0");
    const attacca::run::Decision& made = instance->instance->decisions()[index];
    *decision = {instance->candidates[index].c_str(), to_string(made.source).data(), made.seconds,
                 made.unfused_seconds};
    return {};
  });
}

const char* attacca_instance_decision_remark(const attacca_instance* instance, size_t index) {
  if (index >= attacca_instance_decision_count(instance)) return nullptr;
  return instance->instance->decisions()[index].remark.c_str();
}

int32_t attacca_instance_decision_together(const attacca_instance* instance, size_t index) {
  if (index >= attacca_instance_decision_count(instance)) return 0;
  return static_cast<int32_t>(instance->instance->decisions()[index].together());
}

attacca_status* attacca_instance_decisions_json(const attacca_instance* instance,
                                                attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(instance, json);
    *json = new attacca_bytes{
        attacca::json::dump(attacca::run::decisions_json(instance->instance->decisions(),
                                                         instance->instance->partition()),
                            2)};
    return {};
  });
}

}  // extern "C"
