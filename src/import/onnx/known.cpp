// Shape arithmetic on numbers known while importing, symbols included.
#include <algorithm>
#include <functional>
#include <tuple>

#include "import/onnx/ops.hpp"
#include "import/onnx/tensor.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;

bool is_index(DType dtype) {
  return dtype == DType::S64 || dtype == DType::S32;
}

// Arithmetic that wraps around is done by the interpreter.
bool fits(const Dim& dim, DType dtype) {
  if (dim.overflowed()) return false;
  return !dim.is_static() || ir::to_integer(dtype, dim.value()) == dim.value();
}

using Pair = std::function<std::optional<Dim>(const Dim&, const Dim&)>;

std::optional<Known> elementwise(const std::vector<Known>& in, const Pair& function,
                                 bool compares = false) {
  if (in.size() != 2) return std::nullopt;
  const Known &a = in[0], &b = in[1];
  const size_t na = a.elements.size(), nb = b.elements.size();
  if (a.dtype != b.dtype || !is_index(a.dtype) || (na != nb && na != 1 && nb != 1))
    return std::nullopt;
  Known result{compares ? DType::Bool : a.dtype, {}, a.scalar && b.scalar};
  const size_t count = na == 1 ? nb : na;
  for (size_t i = 0; i < count; ++i) {
    const auto element = function(a.elements[na == 1 ? 0 : i], b.elements[nb == 1 ? 0 : i]);
    if (!element || !fits(*element, a.dtype)) return std::nullopt;
    result.elements.push_back(*element);
  }
  return result;
}

bool never_negative(const Dim& dim) {
  return ir::lower_bound(dim).value_or(-1) >= 0;
}

// Rounded towards 0. What may be divided by 0 or a negative number is left to the run.
std::optional<Dim> quotient(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static())
    return b.is(0) || b.is(-1) ? std::nullopt : std::optional(Dim(a.value() / b.value()));
  if (const auto exact = divide(a, b)) return exact;
  if (ir::lower_bound(b).value_or(0) < 1) return std::nullopt;
  if (never_negative(a)) return ir::floor_div(a, b);
  return ir::floor_div(ir::maximum(a, 0), b) - ir::floor_div(ir::maximum(Dim(0) - a, 0), b);
}

// With the divisor's sign, as fmod=0 says.
std::optional<Dim> remainder(const Dim& a, const Dim& b) {
  if (ir::lower_bound(b).value_or(0) < 1) return std::nullopt;
  return a - b * ir::floor_div(a, b);
}

// Whether a > b, as 0 or 1.
Dim greater(const Dim& a, const Dim& b) {
  return ir::minimum(ir::maximum(a - b, 0), 1);
}

std::optional<Dim> product(const Dim& a, const Dim& b) {
  return a * b;
}

std::optional<std::vector<int64_t>> numbers(const Known& known) {
  std::vector<int64_t> values;
  for (const Dim& element : known.elements) {
    if (!element.is_static()) return std::nullopt;
    values.push_back(element.value());
  }
  return values;
}

int64_t clamp_bound(int64_t bound, int64_t size, int64_t low, int64_t high) {
  if (bound < 0) bound += size;
  return std::clamp(bound, low, high);
}

std::optional<Known> sliced(const Known& x, int64_t begin, int64_t end, int64_t step) {
  const auto size = static_cast<int64_t>(x.elements.size());
  if (step == 0 || step < -kMaxKnownElements || step > (int64_t{1} << 40)) return std::nullopt;
  if (size == 0) return Known{x.dtype, {}, false};
  // With a negative step, a start before the first element means the first element, unlike in
  // Python.
  const int64_t last = step > 0 ? size : size - 1;
  begin = clamp_bound(begin, size, 0, last);
  end = step < 0 && is_range_end(end) ? -1 : clamp_bound(end, size, step > 0 ? 0 : -1, last);
  Known result{x.dtype, {}, false};
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
    result.elements.push_back(x.elements[static_cast<size_t>(i)]);
  return result;
}

}  // namespace

std::optional<Known> known_add(Node&, const std::vector<Known>& in) {
  return elementwise(in, [](const Dim& a, const Dim& b) { return std::optional(a + b); });
}
std::optional<Known> known_sub(Node&, const std::vector<Known>& in) {
  return elementwise(in, [](const Dim& a, const Dim& b) { return std::optional(a - b); });
}
std::optional<Known> known_mul(Node&, const std::vector<Known>& in) {
  return elementwise(in, product);
}
std::optional<Known> known_div(Node&, const std::vector<Known>& in) {
  return elementwise(in, quotient);
}
std::optional<Known> known_mod(Node& node, const std::vector<Known>& in) {
  return node.integer("fmod", 0) != 0 ? std::nullopt : elementwise(in, remainder);
}
std::optional<Known> known_equal(Node& node, const std::vector<Known>& in) {
  const std::vector<Dim>& slices = node.assumptions().of_slices;
  const auto differ = [&](const Dim& extent, const Dim& number) {
    return number.maybe_value().value_or(0) < 0 &&
           std::find(slices.begin(), slices.end(), extent) != slices.end();
  };
  const Pair equal = [&](const Dim& a, const Dim& b) {
    if (differ(a, b) || differ(b, a)) return std::optional(Dim(0));
    return std::optional(Dim(1) - greater(a, b) - greater(b, a));
  };
  return elementwise(in, equal, true);
}
std::optional<Known> known_greater(Node&, const std::vector<Known>& in) {
  return elementwise(
      in, [](const Dim& a, const Dim& b) { return std::optional(greater(a, b)); }, true);
}
std::optional<Known> known_less(Node&, const std::vector<Known>& in) {
  return elementwise(
      in, [](const Dim& a, const Dim& b) { return std::optional(greater(b, a)); }, true);
}
std::optional<Known> known_greater_or_equal(Node&, const std::vector<Known>& in) {
  return elementwise(
      in, [](const Dim& a, const Dim& b) { return std::optional(Dim(1) - greater(b, a)); }, true);
}
std::optional<Known> known_less_or_equal(Node&, const std::vector<Known>& in) {
  return elementwise(
      in, [](const Dim& a, const Dim& b) { return std::optional(Dim(1) - greater(a, b)); }, true);
}
std::optional<Known> known_min(Node&, const std::vector<Known>& in) {
  return elementwise(in,
                     [](const Dim& a, const Dim& b) { return std::optional(ir::minimum(a, b)); });
}
std::optional<Known> known_max(Node&, const std::vector<Known>& in) {
  return elementwise(in,
                     [](const Dim& a, const Dim& b) { return std::optional(ir::maximum(a, b)); });
}

std::optional<Known> known_neg(Node&, const std::vector<Known>& in) {
  if (in.size() != 1 || !is_index(in[0].dtype)) return std::nullopt;
  Known result = in[0];
  for (Dim& element : result.elements) {
    element = Dim(0) - element;
    if (!fits(element, result.dtype)) return std::nullopt;
  }
  return result;
}

std::optional<Known> known_where(Node&, const std::vector<Known>& in) {
  if (in.size() != 3 || in[0].dtype != DType::Bool || in[1].dtype != in[2].dtype)
    return std::nullopt;
  size_t count = 1;
  bool scalar = true;
  for (const Known& operand : in) {
    scalar &= operand.scalar;
    if (operand.elements.size() == 1) continue;
    if (count != 1 && operand.elements.size() != count) return std::nullopt;
    count = operand.elements.size();
  }
  Known result{in[1].dtype, {}, scalar};
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](size_t operand) -> const Dim& {
      const auto& elements = in[operand].elements;
      return elements[elements.size() == 1 ? 0 : i];
    };
    // A condition is 0 or 1 also where it is a symbol's. It may not choose between a size and what
    // stands for one: 0 and -1 in the shape of a Reshape.
    const bool decided = at(0).is_static();
    for (const size_t operand : {1, 2})
      if (!decided && at(operand).is_static() && at(operand).value() <= 0) return std::nullopt;
    const Dim element = decided ? at(at(0).is(0) ? 2 : 1) : at(2) + at(0) * (at(1) - at(2));
    if (element.overflowed()) return std::nullopt;
    result.elements.push_back(element);
  }
  return result;
}

std::optional<Known> known_cast(Node& node, const std::vector<Known>& in) {
  const auto dtype = read_dtype(static_cast<int32_t>(node.integer("to", 0)));
  // A narrowing of symbols stays exact: sizes beyond 2^31 do not occur in s32 tensors.
  if (in.size() != 1 || !dtype || !is_index(*dtype) || in[0].dtype == DType::Bool)
    return std::nullopt;
  Known result = in[0];
  result.dtype = *dtype;
  for (Dim& element : result.elements)
    if (element.is_static()) element = ir::to_integer(*dtype, element.value());
  return result;
}

std::optional<Known> known_concat(Node& node, const std::vector<Known>& in) {
  const int64_t axis = node.integer("axis", node.opset() < 4 ? 1 : 0);
  if (in.empty() || (axis != 0 && axis != -1)) return std::nullopt;
  Known result{in[0].dtype, {}, false};
  for (const Known& part : in) {
    if (part.scalar || part.dtype != result.dtype) return std::nullopt;
    result.elements.insert(result.elements.end(), part.elements.begin(), part.elements.end());
    if (result.elements.size() > static_cast<size_t>(kMaxKnownElements)) return std::nullopt;
  }
  return result;
}

std::optional<Known> known_gather(Node&, const std::vector<Known>& in) {
  if (in.size() != 2 || in[0].scalar) return std::nullopt;
  const auto indices = numbers(in[1]);
  if (!indices) return std::nullopt;
  const auto size = static_cast<int64_t>(in[0].elements.size());
  Known result{in[0].dtype, {}, in[1].scalar};
  for (int64_t index : *indices) {
    if (index < -size || index >= size) return std::nullopt;
    result.elements.push_back(
        in[0].elements[static_cast<size_t>(index < 0 ? index + size : index)]);
  }
  return result;
}

std::optional<Known> known_slice(Node& node, const std::vector<Known>& in) {
  if (in.empty() || in[0].scalar) return std::nullopt;
  std::vector<int64_t> bounds;
  if (node.opset() < 10) {
    for (const char* name : {"starts", "ends"}) {
      const auto values = node.integer_list(name);
      if (in.size() != 1 || !values || values->size() != 1) return std::nullopt;
      bounds.push_back((*values)[0]);
    }
    return sliced(in[0], bounds[0], bounds[1], 1);
  }
  // Inputs: data, starts, ends, axes (axis 0 is the only one), steps.
  for (size_t i = 1; i < in.size(); ++i) {
    const auto values = numbers(in[i]);
    if (!values || values->size() != 1) return std::nullopt;
    bounds.push_back((*values)[0]);
  }
  if (bounds.size() < 2) return std::nullopt;
  return sliced(in[0], bounds[0], bounds[1], bounds.size() > 3 ? bounds[3] : 1);
}

std::optional<Known> known_squeeze(Node&, const std::vector<Known>& in) {
  if (in.empty() || in[0].elements.size() != 1) return std::nullopt;
  return Known{in[0].dtype, in[0].elements, true};
}

std::optional<Known> known_unsqueeze(Node& node, const std::vector<Known>& in) {
  if (in.empty() || !in[0].scalar) return std::nullopt;
  const size_t added = in.size() > 1
                           ? in[1].elements.size()
                           : node.integer_list("axes").value_or(std::vector<int64_t>{}).size();
  if (added != 1) return std::nullopt;
  return Known{in[0].dtype, in[0].elements, false};
}

std::optional<Known> known_reshape(Node&, const std::vector<Known>& in) {
  if (in.size() != 2 || in[1].elements.size() > 1) return std::nullopt;
  const bool scalar = in[1].elements.empty();
  if (scalar && in[0].elements.size() != 1) return std::nullopt;
  const auto count = static_cast<int64_t>(in[0].elements.size());
  if (!scalar && !in[1].elements[0].is(-1) && !in[1].elements[0].is(count)) return std::nullopt;
  return Known{in[0].dtype, in[0].elements, scalar};
}

std::optional<Known> known_product(Node& node, const std::vector<Known>& in) {
  if (in.empty() || !is_index(in[0].dtype)) return std::nullopt;
  if (node.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
  Dim total = 1;
  for (const Dim& element : in[0].elements) total = total * element;
  if (!fits(total, in[0].dtype)) return std::nullopt;
  return Known{in[0].dtype, {total}, node.integer("keepdims", 1) == 0 || in[0].scalar};
}

}  // namespace attacca::import
