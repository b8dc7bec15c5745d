#include "fold/saturate.hpp"

#include <algorithm>
#include <cmath>

#include "fold/match.hpp"
#include "support/immortal.hpp"

namespace attacca::fold {
namespace {

constexpr int kMaxRounds = 6;

// What a class must contain for a rule's pattern to be tried.
struct Trigger {
  const Rule* rule;
  size_t form;               // of the pattern's normal form: index into Form::node
  std::optional<ir::Op> op;  // if that is an Apply
  uint64_t ops = 0;
};

void collect_ops(const Pattern& pattern, uint64_t& ops) {
  if (pattern.kind == Pattern::Kind::Apply) {
    const bool flips = pattern.op == ir::Op::Max || pattern.op == ir::Op::Min;
    if (!flips) ops |= op_bit(pattern.op);
    return;
  }
  for (const Pattern& child : pattern.children) collect_ops(child, ops);
}

// The rules that normal forms do not cover: those that define their op, and those whose sides
// differ under arbitrary bindings.
std::vector<Trigger> make_triggers() {
  std::vector<Trigger> triggers;
  EGraph scratch;
  Bindings bindings;
  for (uint32_t i = 0; i < kVariables.size(); ++i)
    bindings.variables[i] = scratch.leaf(ir::Value{i});
  bindings.captures = {0.37, 0.61, -1.3, 2.9};
  for (const Rule& rule : rules()) {
    if (rule.text.differs == Differs::Nan) continue;
    const auto pattern = scratch.instantiate(rule.pattern, bindings);
    const auto result = scratch.instantiate(rule.result, bindings);
    if (!pattern || !result || (!rule.defines && same(*pattern, *result))) continue;
    const Form& normal = scratch[pattern->cls].forms[0];
    const auto* apply = std::get_if<Apply>(&normal.node);
    Trigger trigger{&rule, normal.node.index(), apply ? std::optional(apply->op) : std::nullopt};
    collect_ops(rule.pattern, trigger.ops);
    triggers.push_back(trigger);
  }
  return triggers;
}

class Saturator {
 public:
  Saturator(EGraph& graph, ClassId cls) : graph_(graph), cls_(cls) {}

  void run() {
    const auto& triggers = immortal([] { return make_triggers(); });
    for (int round = 0; round < kMaxRounds; ++round) {
      changed_ = false;
      for (const Trigger& trigger : triggers) {
        cls_ = graph_.find({1, cls_}).cls;
        if (!applies(trigger)) continue;
        const Rule& rule = *trigger.rule;
        Matcher(graph_).propose(rule.pattern, cls_,
                                [&](const Bindings& bindings) { fire(rule, bindings); });
      }
      if (!changed_) return;
    }
  }

 private:
  bool applies(const Trigger& trigger) const {
    const Class& cls = graph_[cls_];
    if ((trigger.ops & ~cls.ops) != 0) return false;
    return std::any_of(cls.forms.begin(), cls.forms.end(), [&](const Form& form) {
      if (form.node.index() != trigger.form) return false;
      const auto* apply = std::get_if<Apply>(&form.node);
      const auto op = apply ? apply->op : ir::Op::Add;
      const bool flipped = (op == ir::Op::Max && trigger.op == ir::Op::Min) ||
                           (op == ir::Op::Min && trigger.op == ir::Op::Max);
      return !apply || op == *trigger.op || flipped;
    });
  }

  void fire(const Rule& rule, Bindings bindings) {
    if (rule.text.differs == Differs::Single && graph_.computed() == ir::DType::F64) return;
    if (!condition_holds(rule, bindings) || !values_at_hand(rule, bindings)) return;
    cls_ = graph_.find({1, cls_}).cls;
    if (!bind_rest(rule, bindings)) return;
    const auto pattern = instantiate(rule, bindings);
    if (!pattern || is_constant(*pattern) || pattern->scale == 0) return;
    std::vector<Quotient> rests;
    if (pattern->cls != cls_) {
      if (rule.whole) return;
      rests = quotients(pattern->cls);
      if (rests.empty()) return;
    }
    record(rule, bindings, *pattern);
    for (Quotient& rest : rests)
      record_product(rule, graph_.find({1, pattern->cls}), std::move(rest));
  }

  // The rule's pattern under the bindings. Each round proposes what the one before it did.
  std::optional<Ref> instantiate(const Rule& rule, const Bindings& bindings) {
    for (const Instance& known : instances_)
      if (known.rule == &rule && known.bindings == bindings)
        return known.pattern ? std::optional(graph_.find(*known.pattern)) : std::nullopt;
    const auto pattern = graph_.instantiate(rule.pattern, bindings);
    instances_.push_back({&rule, bindings, pattern});
    return pattern;
  }

  bool condition_holds(const Rule& rule, const Bindings& bindings) const {
    std::array<double, kCaptures.size()> values = {};
    for (size_t i = 0; i < values.size(); ++i) values[i] = bindings.captures[i].value_or(0);
    return std::all_of(values.begin(), values.end(),
                       [](double value) { return !std::isnan(value); }) &&
           rule.text.holds(values[0], values[1], values[2], values[3]);
  }

  // x * 0.5 * (1 + erf(x * 0.7)) is also a multiple of gelu(0.98995 * x), which is not a useful
  // result.
  bool values_at_hand(const Rule& rule, const Bindings& bindings) const {
    for (size_t i = 0; i < kVariables.size(); ++i) {
      if (!rule.bare[i] || !bindings.variables[i]) continue;
      const Ref ref = graph_.find(*bindings.variables[i]);
      const auto& anchors = graph_[ref.cls].anchors;
      if (!anchors.empty() &&
          std::none_of(anchors.begin(), anchors.end(),
                       [&](const Anchor& anchor) { return same(anchor.scale, ref.scale); }))
        return false;
    }
    return true;
  }

  // A gate's linear half is the rest of the product beside the activation.
  bool bind_rest(const Rule& rule, Bindings& bindings) {
    if (is_bound(rule.pattern, bindings)) return true;
    if (!rule.gate || bindings.variables[1] || !bindings.variables[0]) return false;
    bindings.variables[1] = constant(1);
    const auto activation = graph_.instantiate(rule.pattern, bindings);
    if (!activation || is_constant(*activation)) return false;
    for (const Quotient& rest : quotients(activation->cls)) {
      std::vector<EGraph::Power> powers;
      for (const auto& factor : rest.factors) powers.push_back({{1, factor.cls}, factor.exponent});
      const auto linear = graph_.product(powers, Cancel::Allow);
      if (!linear || is_constant(*linear) || linear->cls == bindings.variables[0]->cls) continue;
      const auto& anchors = graph_[linear->cls].anchors;
      bindings.variables[1] = {anchors.empty() ? 1 : anchors[0].scale, linear->cls};
      return true;
    }
    return false;
  }

  // The rest of a product form without a part of it, with the form's scale.
  struct Quotient {
    double scale;
    std::vector<Product::Factor> factors;
  };

  std::vector<Quotient> quotients(ClassId part) const {
    std::vector<Quotient> result;
    const Product* parts = graph_.as_product(part);
    for (const Form& form : graph_[cls_].forms) {
      const auto* product = std::get_if<Product>(&form.node);
      if (!product) continue;
      const Product::Factor whole = {part, 1};
      for (const auto divisor :
           {std::span(&whole, 1),
            parts ? std::span(parts->factors) : std::span<const Product::Factor>()}) {
        if (divisor.empty()) continue;
        auto rest = divide(product->factors, divisor);
        if (!rest || rest->empty()) continue;
        result.push_back({form.scale, std::move(*rest)});
        break;
      }
    }
    return result;
  }

  static std::optional<std::vector<Product::Factor>> divide(
      std::span<const Product::Factor> dividend, std::span<const Product::Factor> divisor) {
    std::vector<Product::Factor> factors(dividend.begin(), dividend.end());
    for (const auto& part : divisor) {
      const auto found = std::find_if(factors.begin(), factors.end(), [&](const auto& factor) {
        return factor.cls == part.cls && (factor.exponent > 0) == (part.exponent > 0) &&
               std::abs(factor.exponent) >= std::abs(part.exponent);
      });
      if (found == factors.end()) return std::nullopt;
      found->exponent -= part.exponent;
    }
    std::erase_if(factors, [](const auto& factor) { return factor.exponent == 0; });
    return factors;
  }

  void record(const Rule& rule, const Bindings& bindings, Ref pattern) {
    const auto result = graph_.instantiate(rule.result, bindings);
    if (!result) return;
    Apply apply{rule.op, {}, {}};
    for (const Number& param : rule.result.params)
      apply.params.push_back(*param.value(bindings.captures));
    for (const Pattern& child : rule.result.children)
      apply.args.push_back(*graph_.instantiate(child, bindings));
    const size_t before = graph_[graph_.find(pattern).cls].forms.size();
    graph_.merge(pattern, *result);
    graph_.add_form(*result,
                    {.node = std::move(apply), .scale = 1, .rule = &rule, .whole = rule.whole});
    changed_ |= graph_[graph_.find(*result).cls].forms.size() != before;
  }

  // Adds part * rest to the class's forms.
  void record_product(const Rule& rule, Ref part, Quotient rest) {
    cls_ = graph_.find({1, cls_}).cls;
    auto& factors = rest.factors;
    const auto again = std::find_if(factors.begin(), factors.end(),
                                    [&](const auto& factor) { return factor.cls == part.cls; });
    if (again == factors.end()) {
      factors.push_back({part.cls, 1});
    } else if (++again->exponent == 0) {
      return;
    }
    std::sort(factors.begin(), factors.end(),
              [](const auto& a, const auto& b) { return a.cls < b.cls; });
    const size_t before = graph_[cls_].forms.size();
    graph_.add_form(
        {rest.scale / part.scale, cls_},
        {.node = Product{std::move(factors)}, .scale = 1, .rule = &rule, .recovered = part.cls});
    changed_ |= graph_[cls_].forms.size() != before;
  }

  struct Instance {
    const Rule* rule;
    Bindings bindings;
    std::optional<Ref> pattern;
  };

  EGraph& graph_;
  ClassId cls_;
  bool changed_ = false;
  std::vector<Instance> instances_;
};

}  // namespace

void saturate(EGraph& graph, ClassId cls) {
  cls = graph.find({1, cls}).cls;
  if (cls == kOne || !graph.mark_saturated(cls)) return;
  Saturator(graph, cls).run();
}

}  // namespace attacca::fold
