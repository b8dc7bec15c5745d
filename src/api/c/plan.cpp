// The C interface: plans.
#include <cstddef>

#include "fmt/format.h"

#include "api/c/handles.hpp"
#include "api/c/status.hpp"
#include "api/matmul.hpp"
#include "api/plan_file.hpp"
#include "ir/text/text.hpp"
#include "support/files/file.hpp"
#include "support/files/paths.hpp"
#include "templates/catalog.hpp"

namespace ir = attacca::ir;

attacca_plan::attacca_plan(std::shared_ptr<const api::Plan> made)
    : plan(std::move(made)), device(attacca::run::to_string(plan->options().device)) {
  const auto view = [](const std::vector<api::TensorInfo>& infos, std::vector<Tensor>& into) {
    into.resize(infos.size());  // at once: the infos point into the vectors
    for (size_t i = 0; i < infos.size(); ++i) {
      for (const std::string& dim : infos[i].shape) into[i].shape.push_back(dim.c_str());
      into[i].info = {infos[i].name.c_str(), ir::name(infos[i].dtype).data(), infos[i].type.c_str(),
                      infos[i].shape.size(), into[i].shape.data()};
    }
  };
  view(plan->inputs(), inputs);
  view(plan->outputs(), outputs);
}

namespace {

using PlanResult = Result<std::shared_ptr<const api::Plan>>;

Status give_plan(PlanResult plan, attacca_plan** into) {
  if (!plan) return tl::make_unexpected(std::move(plan).error());
  *into = new attacca_plan(*std::move(plan));
  return {};
}

Result<api::Options> read_options(const attacca_options* given) {
  api::Options options;
  if (given == nullptr) return options;
  // The structure of 0.1 ends before this member.
  constexpr size_t kBefore = offsetof(attacca_options, batch_invariant);
  if (given->size != sizeof(attacca_options) && given->size != kBefore)
    return fail(fmt::format("attacca_options of {} bytes, this library's have {}", given->size,
                            sizeof(attacca_options)),
                "options", "set size to sizeof(attacca_options), with this version's header");
  ATTACCA_TRY(options.device, api::parse_device(text_or(given->device, "cpu")));
  ATTACCA_TRY(options.mode, api::parse_mode(text_or(given->mode, "fp32")));
  ATTACCA_TRY(options.tuning, api::parse_tuning(text_or(given->tuning, "known")));
  ATTACCA_TRY_VOID(api::check_seconds(given->tuning_seconds, "tuning_seconds", "options"));
  if (given->tuning_seconds > 0) options.tuning_seconds = given->tuning_seconds;
  ATTACCA_TRY(options.threads, api::check_threads(given->threads, "options"));
  options.fuse = given->unfused_graph == 0;
  options.batch_invariant = given->size > kBefore && given->batch_invariant != 0;
  return options;
}

Result<std::optional<attacca::run::DeviceId>> read_device(const char* device) {
  if (device == nullptr) return std::nullopt;
  ATTACCA_TRY(const attacca::run::DeviceId parsed, api::parse_device(device));
  return parsed;
}

attacca_status* give_tensor(const attacca_plan* plan,
                            std::vector<attacca_plan::Tensor> attacca_plan::*tensors,
                            std::string_view what, size_t index, attacca_tensor_info* info) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, info);
    if (index >= (plan->*tensors).size())
      return fail(fmt::format("no {} {}: the plan has {}", what, index, (plan->*tensors).size()),
                  "index", "count from 0");
    *info = (plan->*tensors)[index].info;
    return {};
  });
}

}  // namespace

extern "C" {

attacca_status* attacca_template_directory(attacca_bytes** path) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path);
    *path = new attacca_bytes{attacca::templates::Catalog::default_directory()};
    return {};
  });
}

attacca_status* attacca_cache_directory(attacca_bytes** path) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path);
    *path = new attacca_bytes{attacca::cache_directory()};
    return {};
  });
}

attacca_status* attacca_device_check(const char* device) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device);
    ATTACCA_TRY(const attacca::run::DeviceId parsed, api::parse_device(device));
    return api::check_device(parsed);
  });
}

attacca_status* attacca_plan_compile(const attacca_graph* graph, const attacca_options* options,
                                     attacca_plan** plan) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(graph, plan);
    ATTACCA_TRY(const api::Options chosen, read_options(options));
    return give_plan(api::Plan::compile(graph->graph, chosen), plan);
  });
}

attacca_status* attacca_matmul_plan(const char* dtype, const char* b_layout, const char* epilogue,
                                    const char* out_dtype, const attacca_options* options,
                                    attacca_plan** plan) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan);
    ATTACCA_TRY(const api::Options chosen, read_options(options));
    ATTACCA_TRY(ir::Graph graph,
                api::matmul_graph(text_or(dtype, "bf16"), text_or(b_layout, "nk"),
                                  text_or(epilogue, "acc"), text_or(out_dtype, "")));
    return give_plan(api::Plan::compile(std::move(graph), chosen), plan);
  });
}

attacca_status* attacca_plan_serialize(const attacca_plan* plan, attacca_bytes** file) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, file);
    ATTACCA_TRY(std::string bytes, api::write_plan(*plan->plan));
    *file = new attacca_bytes{std::move(bytes)};
    return {};
  });
}

attacca_status* attacca_plan_deserialize(const void* data, size_t bytes, const char* device,
                                         attacca_plan** plan) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(data, plan);
    ATTACCA_TRY(const auto chosen, read_device(device));
    return give_plan(api::read_plan({static_cast<const char*>(data), bytes}, "plan", chosen), plan);
  });
}

attacca_status* attacca_plan_save(const attacca_plan* plan, const char* path) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, path);
    return api::save_plan(*plan->plan, path);
  });
}

attacca_status* attacca_plan_save_bundle(const attacca_plan* plan, const char* path) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, path);
    return api::save_plan(*plan->plan, path, api::Kernels::With);
  });
}

attacca_status* attacca_plan_load(const char* path, const char* device, attacca_plan** plan) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path, plan);
    ATTACCA_TRY(const auto chosen, read_device(device));
    ATTACCA_TRY(const std::string bytes, attacca::read_file(path));
    return give_plan(api::read_plan(bytes, path, chosen), plan);
  });
}

void attacca_plan_free(attacca_plan* plan) {
  delete plan;
}

const char* attacca_plan_device(const attacca_plan* plan) {
  return plan != nullptr ? plan->device.c_str() : "";
}

const char* attacca_plan_mode(const attacca_plan* plan) {
  return plan != nullptr ? ir::name(plan->plan->options().mode).data() : "";
}

int32_t attacca_plan_batch_invariant(const attacca_plan* plan) {
  return plan != nullptr && plan->plan->options().batch_invariant ? 1 : 0;
}

size_t attacca_plan_input_count(const attacca_plan* plan) {
  return plan != nullptr ? plan->inputs.size() : 0;
}

attacca_status* attacca_plan_input(const attacca_plan* plan, size_t index,
                                   attacca_tensor_info* info) {
  return give_tensor(plan, &attacca_plan::inputs, "input", index, info);
}

size_t attacca_plan_output_count(const attacca_plan* plan) {
  return plan != nullptr ? plan->outputs.size() : 0;
}

attacca_status* attacca_plan_output(const attacca_plan* plan, size_t index,
                                    attacca_tensor_info* info) {
  return give_tensor(plan, &attacca_plan::outputs, "output", index, info);
}

size_t attacca_plan_symbol_count(const attacca_plan* plan) {
  return plan != nullptr ? plan->plan->symbols().size() : 0;
}

const char* attacca_plan_symbol(const attacca_plan* plan, size_t index) {
  if (index >= attacca_plan_symbol_count(plan)) return nullptr;
  return plan->plan->symbols()[index].c_str();
}

attacca_status* attacca_plan_graph_text(const attacca_plan* plan, attacca_bytes** text) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, text);
    *text = new attacca_bytes{ir::print_graph(plan->plan->graph())};
    return {};
  });
}

attacca_status* attacca_plan_explain_text(const attacca_plan* plan, attacca_bytes** text) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, text);
    *text = new attacca_bytes{plan->plan->explain_text()};
    return {};
  });
}

attacca_status* attacca_plan_explain_json(const attacca_plan* plan, attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, json);
    *json = new attacca_bytes{plan->plan->explain_json()};
    return {};
  });
}

attacca_status* attacca_plan_explain_dot(const attacca_plan* plan, attacca_bytes** dot) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(plan, dot);
    *dot = new attacca_bytes{plan->plan->explain_dot()};
    return {};
  });
}

}  // extern "C"
