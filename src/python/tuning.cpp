// Tuning by many processes, for attacca._tuning.
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/binding.hpp"

namespace nb = nanobind;

namespace attacca::python {

void bind_tuning(nb::module_& module) {
  module.def(
      "machine_json",
      [](const std::string& device) {
        return check_and_warn(unlocked([&] { return machine_json(device); }));
      },
      nb::arg("device"));
  module.def(
      "graph_symbols", [](const Graph& graph) { return check(graph_symbols(graph)); },
      nb::arg("graph"));
  module.def(
      "graph_problems",
      [](const Graph& graph, const std::string& device, const std::string& mode,
         const std::vector<std::pair<std::string, int64_t>>& sizes, bool batch_invariant) {
        const auto chosen = static_cast<Mode>(index_of(mode, kModeNames, "mode"));
        return check(unlocked(
            [&] { return graph_problems(graph, device, chosen, sizes, batch_invariant); }));
      },
      nb::arg("graph"), nb::arg("device"), nb::arg("mode"), nb::arg("sizes"),
      nb::arg("batch_invariant"));
  module.def(
      "tune_problem",
      [](const std::string& problem, const std::string& device, const std::string& tuning,
         double seconds) {
        const auto chosen = static_cast<Tuning>(index_of(tuning, kTuningNames, "tuning"));
        return check_and_warn(
            unlocked([&] { return tune_problem(problem, device, chosen, seconds); }));
      },
      nb::arg("problem"), nb::arg("device"), nb::arg("tuning"), nb::arg("seconds"));
  module.def("keep_workers", attacca_workers_keep);
  module.def("release_workers", [] { unlocked([] { attacca_workers_release(); }); });
  module.def("list_choices",
             [] { return check_and_warn(unlocked([] { return list_choices(); })); });
  module.def(
      "store_choices",
      [](const std::string& json) {
        return check_and_warn(unlocked([&] { return store_choices(json); }));
      },
      nb::arg("json"));
  module.def(
      "write_choices",
      [](const std::string& device, const std::string& tools, const std::string& path) {
        return check(unlocked([&] { return write_choices(device, tools, path); }));
      },
      nb::arg("device"), nb::arg("tools"), nb::arg("path"));
}

}  // namespace attacca::python
