#include "fold/egraph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "support/check.hpp"

namespace attacca::fold {
namespace {

constexpr size_t kMaxForms = 12;   // of one class; more are ignored
constexpr size_t kMaxAnchors = 8;  // likewise
constexpr size_t kMaxRenewals =
    64;  // classes updated by one merge; the others keep old normal forms

}  // namespace

bool same(double a, double b) {
  return a == b || std::fabs(a - b) < kNoise * std::max(std::fabs(a), std::fabs(b));
}

size_t EGraph::KeyHash::operator()(const Key& key) const {
  uint64_t hash = key.size();
  for (const uint64_t word : key) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Numbers that are the same have one key, so that 2 * 0.1 equals 0.2.
uint64_t EGraph::bits(double number) {
  if (number == 0 || std::isnan(number)) return number == 0 ? 0 : 1;
  const auto after = numbers_.lower_bound(number);
  if (after != numbers_.end() && same(*after, number)) return std::bit_cast<uint64_t>(*after);
  if (after != numbers_.begin() && same(*std::prev(after), number))
    return std::bit_cast<uint64_t>(*std::prev(after));
  numbers_.insert(after, number);
  return std::bit_cast<uint64_t>(number);
}

const EGraph::Key& EGraph::key_of(const Leaf& leaf) {
  key_ = {0, leaf.value.id};
  return key_;
}

const EGraph::Key& EGraph::key_of(const Sum& sum) {
  key_ = {1};
  for (const auto& term : sum.terms) key_.insert(key_.end(), {term.cls, bits(term.coefficient)});
  return key_;
}

const EGraph::Key& EGraph::key_of(const Product& product) {
  key_ = {2};
  for (const auto& factor : product.factors)
    key_.push_back(uint64_t{factor.cls} << 32 | static_cast<uint32_t>(factor.exponent));
  return key_;
}

const EGraph::Key& EGraph::key_of(const Apply& apply) {
  key_ = {3 | static_cast<uint64_t>(apply.op) << 8};
  for (const double param : apply.params) key_.push_back(bits(param));
  for (const Ref arg : apply.args) key_.insert(key_.end(), {arg.cls, bits(arg.scale)});
  return key_;
}

const EGraph::Key& EGraph::key_of(const Form& form) {
  return std::visit([&](const auto& node) -> const Key& { return key_of(node); }, form.node);
}

EGraph::EGraph(ir::DType computed) : computed_(computed) {
  classes_.push_back({.parent = {1, kOne},
                      .forms = {},
                      .anchors = {},
                      .users = {},
                      .exponential_of = kNone,
                      .itself = {kOne, 1},
                      .ops = 0,
                      .saturated = true});
}

Ref EGraph::find(Ref ref) const {
  while (classes_[ref.cls].parent.cls != ref.cls) {
    const Ref parent = classes_[ref.cls].parent;
    ref = {ref.scale * parent.scale, parent.cls};
  }
  return ref;
}

ClassId EGraph::make(Form form, const Key& key, ClassId exponential_of, uint64_t ops) {
  const auto cls = static_cast<ClassId>(classes_.size());
  classes_.push_back({.parent = {1, cls},
                      .forms = {},
                      .anchors = {},
                      .users = {},
                      .exponential_of = exponential_of,
                      .itself = {cls, 1},
                      .ops = ops,
                      .saturated = false});
  classes_.back().forms.push_back(std::move(form));
  interned_.emplace(key, cls);
  return cls;
}

Ref EGraph::leaf(ir::Value value) {
  const Key& key = key_of(Leaf{value});
  const auto found = interned_.find(key);
  return find(
      {1, found != interned_.end() ? found->second : make({.node = Leaf{value}}, key, kNone, 0)});
}

ClassId EGraph::intern_sum(std::vector<Sum::Term> terms) {
  Sum sum{std::move(terms)};
  const Key& key = key_of(sum);
  if (const auto found = interned_.find(key); found != interned_.end()) return found->second;
  uint64_t ops = 0;
  ClassId exponential_of = kNone;
  bool polynomial = true;
  for (const auto& term : sum.terms) {
    ops |= classes_[term.cls].ops;
    if (term.cls == kOne) continue;
    const ClassId base = classes_[term.cls].exponential_of;
    polynomial &= base != kNone && (exponential_of == kNone || exponential_of == base);
    exponential_of = base;
  }
  const auto terms_copy = sum.terms;
  const ClassId cls = make({.node = std::move(sum)}, key, polynomial ? exponential_of : kNone, ops);
  for (const auto& term : terms_copy) classes_[term.cls].users.push_back(cls);
  return cls;
}

ClassId EGraph::intern_product(std::vector<Product::Factor> factors) {
  Product product{std::move(factors)};
  const Key& key = key_of(product);
  if (const auto found = interned_.find(key); found != interned_.end()) return found->second;
  uint64_t ops = 0;
  ClassId exponential_of = classes_[product.factors[0].cls].exponential_of;
  for (const auto& factor : product.factors) {
    ops |= classes_[factor.cls].ops;
    if (classes_[factor.cls].exponential_of != exponential_of) exponential_of = kNone;
  }
  const auto factors_copy = product.factors;
  const ClassId cls = make({.node = std::move(product)}, key, exponential_of, ops);
  for (const auto& factor : factors_copy) classes_[factor.cls].users.push_back(cls);
  return cls;
}

ClassId EGraph::intern_apply(ir::Op op, std::vector<double> params, std::vector<Ref> args) {
  Apply apply{op, std::move(params), std::move(args)};
  const Key& key = key_of(apply);
  if (const auto found = interned_.find(key); found != interned_.end()) return found->second;
  const bool exponential = op == ir::Op::Exp && !is_constant(apply.args[0]);
  const ClassId exponential_of = exponential ? apply.args[0].cls : kNone;
  const auto args_copy = apply.args;
  const ClassId cls = make({.node = std::move(apply)}, key, exponential_of, op_bit(op));
  for (const Ref arg : args_copy) classes_[arg.cls].users.push_back(cls);
  return cls;
}

Ref EGraph::opaque(ir::Op op, std::vector<double> params, std::vector<Ref> args) {
  for (Ref& arg : args) arg = find(arg);
  return find({1, intern_apply(op, std::move(params), std::move(args))});
}

void EGraph::anchor(Ref ref, ir::Value value) {
  ref = find(ref);
  if (is_constant(ref) || ref.scale == 0) return;
  add_anchor(ref.cls, {value, ref.scale});
}

// Keeps the latest values of each scale, which are the nearest to later uses.
void EGraph::add_anchor(ClassId cls, Anchor anchor) {
  auto& anchors = classes_[cls].anchors;
  if (anchors.size() >= kMaxAnchors) {
    const auto older = std::find_if(anchors.begin(), anchors.end(), [&](const Anchor& known) {
      return same(known.scale, anchor.scale);
    });
    if (older == anchors.end()) return;
    anchors.erase(older);
  }
  anchors.push_back(anchor);
}

void EGraph::add_form(Ref ref, Form form) {
  ref = find(ref);
  if (is_constant(ref) || ref.scale == 0) return;
  Class& cls = classes_[ref.cls];
  form.scale = ref.scale;
  const Key new_key = key_of(form);
  for (Form& old : cls.forms)
    if (same(old.scale, form.scale) && key_of(old) == new_key) {
      if (!old.rule) old.rule = form.rule;
      return;
    }
  if (cls.forms.size() >= kMaxForms) return;
  if (const auto* apply = std::get_if<Apply>(&form.node)) cls.ops |= op_bit(apply->op);
  if (const auto* product = std::get_if<Product>(&form.node))
    for (const auto& factor : product->factors) cls.ops |= classes_[factor.cls].ops;
  classes_[ref.cls].forms.push_back(std::move(form));
}

void EGraph::merge(Ref a, Ref b) {
  a = find(a);
  b = find(b);
  // Equal classes with different scales would be zero everywhere: this is rounding noise.
  if (a.cls == b.cls || is_constant(a) || is_constant(b) || a.scale == 0 || b.scale == 0) return;
  const double ratio = b.scale / a.scale;  // class a == ratio * class b
  classes_[a.cls].parent = {ratio, b.cls};
  Class absorbed = std::move(classes_[a.cls]);
  classes_[a.cls].parent = {ratio, b.cls};
  for (Form& form : absorbed.forms) {
    const double scale = form.scale * ratio;
    add_form({scale, b.cls}, std::move(form));
  }
  for (const Anchor& value : absorbed.anchors)
    add_anchor(b.cls, {value.value, value.scale * ratio});
  classes_[b.cls].ops |= absorbed.ops;
  const bool outermost = stale_.empty();
  stale_.insert(stale_.end(), absorbed.users.begin(), absorbed.users.end());
  if (!outermost) return;
  for (size_t i = 0; i < stale_.size() && i < kMaxRenewals; ++i) renew(stale_[i]);
  stale_.clear();
}

void EGraph::renew(ClassId cls) {
  if (classes_[cls].parent.cls != cls) return;
  const Form normal = classes_[cls].forms[0];
  std::optional<Ref> renewed;
  if (const auto* sum = std::get_if<Sum>(&normal.node)) {
    std::vector<Ref> addends;
    for (const auto& term : sum->terms) addends.push_back({term.coefficient, term.cls});
    renewed = this->sum(addends, Cancel::Allow);
  } else if (const auto* product = std::get_if<Product>(&normal.node)) {
    std::vector<Power> powers;
    for (const auto& factor : product->factors)
      powers.push_back({{1, factor.cls}, factor.exponent});
    renewed = this->product(powers, Cancel::Allow);
  } else if (const auto* apply = std::get_if<Apply>(&normal.node)) {
    renewed = this->apply(apply->op, apply->params, apply->args, Cancel::Allow);
  }
  if (renewed && !is_constant(*renewed)) merge({normal.scale, cls}, *renewed);
}

bool EGraph::mark_saturated(ClassId cls) {
  return !std::exchange(classes_[cls].saturated, true);
}

const Sum* EGraph::as_sum(ClassId cls) const {
  const auto& forms = classes_[cls].forms;
  return forms.empty() ? nullptr : std::get_if<Sum>(&forms[0].node);
}

const Product* EGraph::as_product(ClassId cls) const {
  const auto& forms = classes_[cls].forms;
  return forms.empty() ? nullptr : std::get_if<Product>(&forms[0].node);
}

const Apply* EGraph::as_apply(ClassId cls, ir::Op op) const {
  const auto& forms = classes_[cls].forms;
  const auto* apply = forms.empty() ? nullptr : std::get_if<Apply>(&forms[0].node);
  return apply && apply->op == op ? apply : nullptr;
}

std::span<const Product::Factor> EGraph::factors(ClassId cls) const {
  if (cls == kOne) return {};
  const Product* product = as_product(cls);
  if (product && product->factors.size() <= kMaxFlattenedFactors) return product->factors;
  return {&classes_[cls].itself, 1};
}

}  // namespace attacca::fold
