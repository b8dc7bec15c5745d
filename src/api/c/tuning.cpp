// The C interface: tuning by many processes.
#include "api/tuning.hpp"

#include "fmt/format.h"

#include "api/c/handles.hpp"
#include "api/c/sizes.hpp"
#include "api/c/status.hpp"
#include "templates/catalog.hpp"
#include "tune/exchange.hpp"
#include "tune/timer.hpp"

namespace tune = attacca::tune;

namespace {

Status give_json(Result<attacca::json::Value> made, attacca_bytes** into) {
  if (!made) return tl::make_unexpected(std::move(made).error());
  *into = new attacca_bytes{attacca::json::dump(*made, -1)};
  return {};
}

}  // namespace

extern "C" {

attacca_status* attacca_machine_json(const char* device, attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device, json);
    ATTACCA_TRY(const attacca::run::DeviceId parsed, api::parse_device(device));
    return give_json(api::machine_json(parsed), json);
  });
}

attacca_status* attacca_graph_symbols(const attacca_graph* graph, attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(graph, json);
    auto symbols = attacca::json::Value::array();
    for (const std::string& symbol : graph->graph.symbols()) symbols.push(symbol);
    return give_json(std::move(symbols), json);
  });
}

attacca_status* attacca_graph_problems(const attacca_graph* graph, const char* device,
                                       const char* mode, const attacca_size* sizes, size_t count,
                                       attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(graph, device, json);
    ATTACCA_TRY(const attacca::run::Target target,
                api::tuning_target(device, text_or(mode, "fp32")));
    ATTACCA_TRY(const attacca::ir::SymbolValues values, api::read_sizes(sizes, count));
    return give_json(api::problems_json(graph->graph, target, values), json);
  });
}

attacca_status* attacca_problem_tune(const char* problem, const char* device, const char* tuning,
                                     double seconds, attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(problem, device, json);
    api::Options options;
    ATTACCA_TRY(options.device, api::parse_device(device));
    ATTACCA_TRY(options.tuning, api::parse_tuning(text_or(tuning, "measure")));
    ATTACCA_TRY_VOID(api::check_seconds(seconds, "seconds", "seconds"));
    if (seconds > 0) options.tuning_seconds = seconds;
    return give_json(api::tune_problem(problem, options), json);
  });
}

void attacca_workers_keep(void) {
  tune::keep_workers();
}

void attacca_workers_release(void) {
  tune::release_workers();
}

attacca_status* attacca_choices_list(attacca_bytes** json) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(json);
    return give_json(api::rows_json(), json);
  });
}

attacca_status* attacca_choices_store(const char* json, int64_t* count) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(json);
    ATTACCA_TRY(const size_t stored, api::store_rows(json));
    if (count != nullptr) *count = static_cast<int64_t>(stored);
    return {};
  });
}

attacca_status* attacca_choices_write(const char* device, const char* tools, const char* path,
                                      int64_t* count) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(device, tools, path);
    ATTACCA_TRY(const auto catalog, attacca::templates::Catalog::open(nullptr));
    ATTACCA_TRY(const tune::Exported made, tune::export_to_file(device, tools, catalog, path));
    if (count != nullptr) *count = static_cast<int64_t>(made.file.choices.size());
    return {};
  });
}

}  // extern "C"
