#include "reference.hpp"

#include "fmt/format.h"

#include "ir/interpret/last_place.hpp"
#include "run/check/compare.hpp"
#include "support/check.hpp"

namespace attacca::testing {

ir::Tensor operand_of(const ir::Graph& graph, ir::Value value, const ir::Bindings& inputs) {
  const ir::Node& node = graph[value];
  if (node.literal) return ir::Tensor::of(node.type.dtype, {}, {node.literal->value});
  return node.tensor ? *node.tensor : inputs.at(node.name);
}

Reference make_reference(const ir::Graph& graph, const ir::Bindings& inputs) {
  const auto exact = ir::interpret(graph, inputs);
  const auto unfused =
      ir::interpret(graph, inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  ATTACCA_CHECK(exact.has_value() && unfused.has_value(), "the interpreter failed");
  return {*exact, *unfused};
}

std::string compare_with_reference(const Reference& reference,
                                   const std::vector<ir::Tensor>& outputs, double slack) {
  std::string report;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const run::Difference got = run::compare(outputs[i], reference.exact[i]);
    const run::Difference want = run::compare(reference.unfused[i], reference.exact[i]);
    const ir::DType dtype = outputs[i].dtype();
    // Sums of f32 are taken in another order.
    const double places = dtype == ir::DType::F32 ? 2 : 1;
    const double place = ir::is_float(dtype) ? places * ir::last_place(dtype) * got.scale : 1;
    if (got.largest > want.largest + place + slack * got.scale ||
        got.mismatched_nan > want.mismatched_nan)
      report += fmt::format(
          "output {}: error {:.3g} against {:.3g} unfused (largest value {:.3g}), {} NaN "
          "mismatches against {}; ",
          i, got.largest, want.largest, got.scale, got.mismatched_nan, want.mismatched_nan);
  }
  return report;
}

}  // namespace attacca::testing
