#include <iostream>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "gpu/devices.hpp"
#include "support/text/json.hpp"
#include "tune/candidates.hpp"
#include "tune/model/cost_model.hpp"
#include "tune/worker.hpp"

namespace attacca::cli {
namespace {

Result<json::Value> describe(const std::string& line, const templates::Catalog& catalog,
                             const gpu::DeviceInfo& device) {
  ATTACCA_TRY(const tune::TimingRequest request, tune::read_request(line));
  ATTACCA_TRY(const problem::Problem problem, read_problem(request.problem));
  json::Value features = json::Value::object(), expected = json::Value::object();
  const launch::Candidates found = tune::fused_candidates(problem, catalog, device);
  for (size_t i = 0; i < found.ranked.size(); ++i) {
    const launch::Candidate& each = found.ranked[i];
    json::Value values = json::Value::array();
    for (const double value :
         tune::features(problem, *catalog.find(each.kernel), *each.binding, device))
      values.push(value);
    features.set(each.kernel, std::move(values));
    expected.set(each.kernel, found.expected[i]);
  }
  return json::Value::object()
      .set("features", std::move(features))
      .set("expected", std::move(expected));
}

Result<int> try_features() {
  ATTACCA_TRY(const templates::Catalog catalog, templates::Catalog::open(nullptr));
  const gpu::DeviceInfo device = *gpu::known_device("h200");
  json::Value names = json::Value::array();
  for (const std::string_view name : tune::kFeatureNames) names.push(name);
  fmt::print("{}\n", json::dump(json::Value::object().set("names", std::move(names)), -1));
  for (std::string line; std::getline(std::cin, line);) {
    auto described = describe(line, catalog, device);
    fmt::print("{}\n",
               json::dump(described ? *described
                                    : json::Value::object().set("failed", described.error().what),
                          -1));
    std::fflush(stdout);
  }
  return kOk;
}

}  // namespace

int bench_features() {
  const auto code = try_features();
  return code ? *code : report(code.error());
}

}  // namespace attacca::cli
