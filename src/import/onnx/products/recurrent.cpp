// RNN, GRU and LSTM: the inputs of all steps are one product, and the steps are unrolled.
#include <algorithm>
#include <cctype>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

constexpr int64_t kMostSteps = 1024;

struct RecurrentActivation {
  std::string_view name;
  std::optional<double> alpha, beta;  // defaults of those that it has
  Expr (*apply)(const Expr& x, double alpha, double beta);
};

Expr bounded(const Expr& x, double low, double high) {
  return emit_with(Op::Clamp, x, {low, high});
}

const RecurrentActivation kGateActivations[] = {
    {"relu", {}, {}, [](const Expr& x, double, double) { return emit(Op::Relu, x); }},
    {"tanh", {}, {}, [](const Expr& x, double, double) { return emit(Op::Tanh, x); }},
    {"sigmoid", {}, {}, [](const Expr& x, double, double) { return emit(Op::Sigmoid, x); }},
    {"softplus", {}, {}, [](const Expr& x, double, double) { return emit(Op::Softplus, x); }},
    {"softsign",
     {},
     {},
     [](const Expr& x, double, double) { return x / (emit(Op::Abs, x) + 1.0); }},
    {"affine", 1.0, 0.0, [](const Expr& x, double a, double b) { return x * a + b; }},
    {"scaledtanh", 1.0, 1.0,
     [](const Expr& x, double a, double b) { return emit(Op::Tanh, x * b) * a; }},
    {"hardsigmoid", 0.2, 0.5,
     [](const Expr& x, double a, double b) { return bounded(x * a + b, 0, 1); }},
    {"leakyrelu",
     0.01,
     {},
     [](const Expr& x, double a, double) { return emit_with(Op::LeakyRelu, x, {a}); }},
};

struct GateActivation {
  const RecurrentActivation* of;
  double alpha, beta, clip;  // clip: 0 for none
  Expr operator()(const Expr& x) const {
    return of->apply(clip > 0 ? bounded(x, -clip, clip) : x, alpha, beta);
  }
};

enum class Cell : uint8_t { Rnn, Gru, Lstm };

struct Form {
  Cell cell;
  int64_t gates;
  std::vector<std::string> activations;  // of one direction
};

const Form& form_of(std::string_view op) {
  static const Form kRnn{Cell::Rnn, 1, {"Tanh"}};
  static const Form kGru{Cell::Gru, 3, {"Sigmoid", "Tanh"}};
  static const Form kLstm{Cell::Lstm, 4, {"Sigmoid", "Tanh", "Tanh"}};
  return op == "RNN" ? kRnn : op == "GRU" ? kGru : kLstm;
}

// What all directions share.
struct Layer {
  Node& node;
  const Form& form;
  Expr x;  // [T, N, I]
  int64_t steps;
  Dim batch;
  int64_t hidden, directions;
  std::string direction;
  bool batch_first;
  std::optional<Expr> lengths;  // s32 [N, 1]
  std::vector<GateActivation> activations;
};

struct State {
  Expr h, c;
};

struct Direction {
  bool backwards;
  Expr weights, recurrence;              // [gates * H, I or H]
  std::optional<Expr> bias, state_bias;  // [gates * H]
  std::optional<Expr> peepholes;         // [3 * H]
  const GateActivation* activations;
  State start;
};

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The activations of all directions, each with the next numbers of activation_alpha and _beta if it
// has such. clip= is of those of gates: ONNX Runtime does not clip the cell state from which an
// LSTM's third one computes the output.
Result<std::vector<GateActivation>> read_activations(Node& node, const Form& form,
                                                     int64_t directions) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < directions; ++i)
    names.insert(names.end(), form.activations.begin(), form.activations.end());
  if (const auto* given = node.typed("activations", onnx::AttributeProto::STRINGS)) {
    if (given->strings_size() != static_cast<int>(names.size()))
      return fail(fmt::format("{} activations, wanted {}", given->strings_size(), names.size()));
    names.assign(given->strings().begin(), given->strings().end());
  }
  const double clip = node.real("clip", 0);
  int taken[2] = {0, 0};
  const auto number = [&](int which, const std::optional<double>& otherwise) {
    if (!otherwise) return 0.0;
    const auto* given = node.attribute(which == 0 ? "activation_alpha" : "activation_beta");
    const int at = taken[which]++;
    return given && at < given->floats_size() ? static_cast<double>(given->floats(at)) : *otherwise;
  };
  std::vector<GateActivation> activations;
  for (const std::string& name : names) {
    const auto* found = std::find_if(std::begin(kGateActivations), std::end(kGateActivations),
                                     [&](const auto& each) { return each.name == lowered(name); });
    if (found == std::end(kGateActivations))
      return fail(fmt::format("the activation {} is not supported", name), {},
                  "run the file with ONNX Runtime");
    const double alpha = number(0, found->alpha), beta = number(1, found->beta);
    const bool of_gate = activations.size() % form.activations.size() < 2;
    activations.push_back({found, alpha, beta, of_gate ? clip : 0});
  }
  return activations;
}

std::string length_fix(const Dim& steps) {
  std::vector<std::string> symbols;
  steps.collect_symbols(symbols);
  return fmt::format(
      "give the length of the sequence, such as --dim {0}=64, in Python dims={{\"{0}\": 64}}, or "
      "export "
      "the model with it",
      symbols.empty() ? "T" : symbols[0]);
}

Result<Layer> read_layer(Node& node) {
  const Form& form = form_of(node.proto().op_type());
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value recurrence, node.input(2));
  const bool batch_first = node.integer("layout", 0) != 0;
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return fail(fmt::format("direction={} is not supported", direction));
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const Shape shape = node.shape(x), of = node.shape(recurrence);
  if (shape.size() != 3 || of.size() != 3 || !of.back().is_static() ||
      !(of == Shape{directions, form.gates * of.back().value(), of.back()}) ||
      !ir::is_float(node.dtype(x)))
    return fail(fmt::format("x of shape {} with recurrence weights of shape {}",
                            ir::to_string(shape), ir::to_string(of)),
                {}, "give floats of [length, batch, size] and [directions, gates, hidden]");
  const Dim steps = shape[batch_first ? 1 : 0];
  if (!steps.is_static() || steps.value() > kMostSteps)
    return fail(fmt::format("{} steps: they are unrolled, so that their number must be known, and "
                            "at most {}",
                            ir::to_string(steps), kMostSteps),
                {}, steps.is_static() ? "run the file with ONNX Runtime" : length_fix(steps));
  Layer layer{node,
              form,
              batch_first ? permute(node.expr(x), {1, 0, 2}) : node.expr(x),
              steps.value(),
              shape[batch_first ? 0 : 1],
              of.back().value(),
              directions,
              direction,
              batch_first,
              {},
              {}};
  if (node.has(4)) layer.lengths = reshape(cast(node.x(4), DType::S32), {layer.batch, 1});
  ATTACCA_TRY(layer.activations, read_activations(node, form, directions));
  return layer;
}

// One direction's part of an input.
Expr part_of(const Layer& layer, size_t input, int64_t direction) {
  Node& node = layer.node;
  const Expr whole = node.x(input);
  if (!whole.value) return whole;
  Shape rest = node.shape(*whole.value);
  if (!rest.empty()) rest.erase(rest.begin());
  const Expr one = slice_axis(whole, 0, direction, direction + 1);
  return folded(reshape(one, rest));
}

std::optional<Expr> given_part_of(const Layer& layer, size_t input, int64_t direction) {
  if (!layer.node.has(input)) return std::nullopt;
  return part_of(layer, input, direction);
}

// [N, H]: an initial state, or zeros.
Expr initial(const Layer& layer, size_t input, int64_t direction) {
  Node& node = layer.node;
  const Shape shape{layer.batch, layer.hidden};
  if (!node.has(input)) return broadcast_to(scalar_like(layer.x, 0), shape);
  const int64_t axis = layer.batch_first ? 1 : 0;
  return reshape(slice_axis(node.x(input), axis, direction, direction + 1), shape);
}

Direction read_direction(const Layer& layer, int64_t index) {
  Direction one{layer.direction == "reverse" || index == 1,
                part_of(layer, 1, index),
                part_of(layer, 2, index),
                {},
                {},
                {},
                &layer.activations[static_cast<size_t>(index) * layer.form.activations.size()],
                {initial(layer, 5, index), layer.x}};
  const int64_t width = layer.form.gates * layer.hidden;
  if (const auto both = given_part_of(layer, 3, index)) {
    one.bias = folded(slice_axis(*both, 0, 0, width));
    one.state_bias = folded(slice_axis(*both, 0, width, 2 * width));
  }
  if (layer.form.cell == Cell::Lstm) {
    one.start.c = initial(layer, 6, index);
    one.peepholes = given_part_of(layer, 7, index);
  }
  return one;
}

// Of values side by side, those of one gate, or of some.
Expr gate(const Layer& layer, const Expr& x, int64_t index, int64_t count = 1) {
  return slice_axis(x, 1, index * layer.hidden, (index + count) * layer.hidden);
}

// The rows of one gate, or of some, of the recurrence, as the second operand of a product.
Expr recurrence_of(const Layer& layer, const Direction& one, int64_t index, int64_t count) {
  const Expr rows = count == layer.form.gates ? one.recurrence
                                              : slice_axis(one.recurrence, 0, index * layer.hidden,
                                                           (index + count) * layer.hidden);
  return emit(Op::Transpose, folded(rows));
}

State rnn_step(const Layer& layer, const Direction& one, const Expr& x, const State& before) {
  const Expr sum = matmul(before.h, recurrence_of(layer, one, 0, 1)) + x;
  return {one.activations[0](sum), before.c};
}

// Gates: update, reset, hidden. linear_before_reset: the reset gates the product, not its operand.
State gru_step(const Layer& layer, const Direction& one, const Expr& x, const State& before) {
  const bool late = layer.node.integer("linear_before_reset", 0) != 0;
  const Expr h = before.h;
  const Expr all = matmul(h, recurrence_of(layer, one, 0, late ? 3 : 2));
  const Expr update = one.activations[0](gate(layer, all, 0) + gate(layer, x, 0));
  const Expr reset = one.activations[0](gate(layer, all, 1) + gate(layer, x, 1));
  Expr through = h;
  if (late) {
    through = gate(layer, all, 2);
    if (one.state_bias)
      through =
          through + folded(slice_axis(*one.state_bias, 0, 2 * layer.hidden, 3 * layer.hidden));
    through = reset * through;
  } else {
    through = matmul(reset * h, recurrence_of(layer, one, 2, 1));
  }
  const Expr hidden = one.activations[1](through + gate(layer, x, 2));
  return {(1.0 - update) * hidden + update * h, before.c};
}

// Gates: input, output, forget, cell.
State lstm_step(const Layer& layer, const Direction& one, const Expr& x, const State& before) {
  const Expr all = matmul(before.h, recurrence_of(layer, one, 0, 4)) + x;
  const auto peep = [&](const Expr& sum, int64_t index, const Expr& c) {
    if (!one.peepholes) return sum;
    const Expr weights =
        slice_axis(*one.peepholes, 0, index * layer.hidden, (index + 1) * layer.hidden);
    return sum + folded(weights) * c;
  };
  const GateActivation& squash = one.activations[0];
  const Expr input = squash(peep(gate(layer, all, 0), 0, before.c));
  const bool coupled = layer.node.integer("input_forget", 0) != 0;
  const Expr forget = coupled ? 1.0 - input : squash(peep(gate(layer, all, 2), 2, before.c));
  const Expr c = forget * before.c + input * one.activations[1](gate(layer, all, 3));
  const Expr output = squash(peep(gate(layer, all, 1), 1, c));
  return {output * one.activations[2](c), c};
}

// The products of the inputs of all steps with the weights, and what is added to each.
Expr inputs_of_steps(const Layer& layer, const Direction& one) {
  Expr sums = matmul(layer.x, emit(Op::Transpose, one.weights));
  if (!one.bias) return sums;
  sums = sums + *one.bias;
  const bool late =
      layer.form.cell == Cell::Gru && layer.node.integer("linear_before_reset", 0) != 0;
  if (!late) return sums + *one.state_bias;
  // The last gate's is added to its product before the reset.
  const int64_t width = 2 * layer.hidden;
  const Expr zeros = broadcast_to(scalar_like(layer.x, 0), {layer.hidden});
  return sums + folded(concat({slice_axis(*one.state_bias, 0, 0, width), zeros}, 0));
}

struct Steps {
  std::vector<Expr> results;  // [1, 1, N, H] by time
  State last;
};

Steps run_direction(const Layer& layer, const Direction& one) {
  const Expr sums = inputs_of_steps(layer, one);
  const int64_t width = layer.form.gates * layer.hidden;
  Steps steps{{}, one.start};
  for (int64_t i = 0; i < layer.steps; ++i) {
    const int64_t t = one.backwards ? layer.steps - 1 - i : i;
    const Expr x = reshape(slice_axis(sums, 0, t, t + 1), {layer.batch, width});
    State next = layer.form.cell == Cell::Rnn   ? rnn_step(layer, one, x, steps.last)
                 : layer.form.cell == Cell::Gru ? gru_step(layer, one, x, steps.last)
                                                : lstm_step(layer, one, x, steps.last);
    Expr result = next.h;
    if (layer.lengths) {  // what is beyond a sequence leaves its state as it is
      const Expr within = *layer.lengths > static_cast<double>(t);
      result.value = where(within, next.h, scalar_like(next.h, 0)).value;
      next.h.value = where(within, next.h, steps.last.h).value;
      if (layer.form.cell == Cell::Lstm) next.c.value = where(within, next.c, steps.last.c).value;
    }
    steps.last.h.value = next.h.value;
    steps.last.c.value = next.c.value;
    steps.results.push_back(reshape(result, {1, 1, layer.batch, layer.hidden}));
  }
  if (one.backwards) std::reverse(steps.results.begin(), steps.results.end());
  return steps;
}

// One direction's state as a part of all of them.
Expr as_part(const Layer& layer, const Expr& state) {
  return reshape(state, layer.batch_first ? Shape{layer.batch, 1, layer.hidden}
                                          : Shape{1, layer.batch, layer.hidden});
}

}  // namespace

Result<Outputs> recurrent(Node& node) {
  ATTACCA_TRY(const Layer layer, read_layer(node));
  std::vector<Expr> results, states, cells;
  for (int64_t i = 0; i < layer.directions; ++i) {
    const Steps steps = run_direction(layer, read_direction(layer, i));
    if (!steps.results.empty()) results.push_back(concat(steps.results, 0));
    states.push_back(as_part(layer, steps.last.h));
    cells.push_back(as_part(layer, steps.last.c));
  }
  std::vector<Value> outputs;
  const Shape nothing{0, layer.directions, layer.batch, layer.hidden};
  Expr all = results.empty() ? broadcast_to(scalar_like(layer.x, 0), nothing) : concat(results, 1);
  if (layer.batch_first) all.value = permute(all, {2, 0, 1, 3}).value;
  ATTACCA_TRY(outputs.emplace_back(), all.value);
  const int64_t axis = layer.batch_first ? 1 : 0;
  ATTACCA_TRY(outputs.emplace_back(), concat(states, axis).value);
  if (layer.form.cell == Cell::Lstm) {
    ATTACCA_TRY(outputs.emplace_back(), concat(cells, axis).value);
  }
  return Outputs(outputs);
}

}  // namespace attacca::import
