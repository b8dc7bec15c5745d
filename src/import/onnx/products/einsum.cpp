// Einsum as sums, products and permutations: operands are joined one after the other, and each
// label that nothing later needs is summed as soon as it can be.
#include <algorithm>
#include <map>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::Op;
using ir::Shape;
using ir::Value;

// Letters; the axes of an ellipsis are '0', '1' ... from the last one on.
using Labels = std::string;

struct Term {
  Labels labels;  // one an axis, all different
  Value x;
};

struct Equation {
  std::vector<std::string> terms;
  std::optional<std::string> result;
};

bool has(const Labels& labels, char label) {
  return labels.find(label) != Labels::npos;
}

// Without spaces, each ellipsis as one dot.
Result<Equation> parse_equation(const std::string& given) {
  std::string text;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == ' ') continue;
    const bool dots = given.compare(i, 3, "...") == 0;
    const bool known = std::isalpha(static_cast<unsigned char>(given[i])) || given[i] == ',' ||
                       given.compare(i, 2, "->") == 0 || (given[i] == '>' && i > 0);
    if (!dots && !known) return fail("the equation holds other characters than letters, \"...\"");
    text += given[i];
    if (dots) i += 2;
  }
  Equation equation;
  if (const size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
    text.resize(arrow);
  }
  if (text.find('>') != std::string::npos ||
      (equation.result && equation.result->find_first_of(",->") != std::string::npos))
    return fail("the equation has its arrow or a comma in the wrong place");
  size_t begin = 0;
  for (size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1)
    equation.terms.push_back(text.substr(begin, comma - begin));
  equation.terms.push_back(text.substr(begin));
  return equation;
}

// The dot as the labels of so many axes.
Result<Labels> spelled(const std::string& term, int64_t dotted) {
  const auto dots = std::count(term.begin(), term.end(), '.');
  if (dots > 1 || dotted < 0 || dotted > 9 || (dots == 0 && dotted != 0))
    return fail(fmt::format("the equation's {} does not fit its operand", term));
  Labels labels;
  for (const char c : term) {
    if (c != '.') labels += c;
    for (int64_t i = dotted; c == '.' && i-- > 0;) labels += static_cast<char>('0' + i);
  }
  return labels;
}

int64_t axis_of(const Labels& labels, char label) {
  return static_cast<int64_t>(labels.find(label));
}

// The elements in which axes of one label have the same place.
Result<Term> diagonals(Node& node, Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const size_t again = term.labels.find(term.labels[i], i + 1);
    if (again == Labels::npos) continue;
    const Shape shape = node.shape(term.x);
    if (!(shape[i] == shape[again]))
      return fail(fmt::format("the label {} names {} and {}", term.labels[i],
                              ir::to_string(shape[i]), ir::to_string(shape[again])));
    const int64_t rank = node.rank(term.x), axis = static_cast<int64_t>(again);
    const Expr same =
        emit(Op::Eq, std::vector<Expr>{counting(node, shape[i], rank, static_cast<int64_t>(i)),
                                       counting(node, shape[again], rank, axis)});
    const Expr x = node.expr(term.x);
    ATTACCA_TRY(term.x, reduce(Op::Sum, where(same, x, scalar_like(x, 0)), {axis}, false).value);
    term.labels.erase(again, 1);
    --i;
  }
  return term;
}

// Sums the labels that `needed` lacks.
Result<Term> summed(Node& node, Term term, const Labels& needed) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (has(needed, term.labels[i]))
      kept += term.labels[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return term;
  ATTACCA_TRY(const Value x, reduce(Op::Sum, node.expr(term.x), axes, false).value);
  return Term{kept, x};
}

Expr arranged(Node& node, const Term& term, const Labels& order) {
  std::vector<int64_t> axes;
  for (const char label : order) axes.push_back(axis_of(term.labels, label));
  return permute(node.expr(term.x), axes);
}

Shape extents_of(Node& node, const Term& term, const Labels& labels) {
  Shape shape;
  for (const char label : labels)
    shape.push_back(node.shape(term.x)[static_cast<size_t>(axis_of(term.labels, label))]);
  return shape;
}

Shape joined(std::initializer_list<Shape> parts) {
  Shape whole;
  for (const Shape& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

// The product of two terms, with the labels that are needed later.
Result<Term> product(Node& node, const Term& a, const Term& b, const Labels& needed) {
  Labels shared, summed_over, of_a, of_b;
  for (const char label : a.labels)
    (has(b.labels, label) ? (has(needed, label) ? shared : summed_over) : of_a) += label;
  for (const char label : b.labels)
    if (!has(a.labels, label)) of_b += label;
  const Labels labels = shared + of_a + of_b;
  const Shape first = extents_of(node, a, shared), second = extents_of(node, b, shared);
  const auto batch = ir::broadcast(first, second);
  const Shape inner = extents_of(node, a, summed_over);
  if (!batch || !(inner == extents_of(node, b, summed_over)))
    return fail(fmt::format("labels name other extents in {} and {}",
                            ir::to_string(node.shape(a.x)), ir::to_string(node.shape(b.x))));
  const Shape rows = extents_of(node, a, of_a), columns = extents_of(node, b, of_b);
  const Dim m = ir::element_count(rows), n = ir::element_count(columns),
            k = ir::element_count(inner);
  const Expr left =
      reshape(arranged(node, a, shared + of_a + summed_over), joined({first, {m, k}}));
  const Expr right =
      reshape(arranged(node, b, shared + summed_over + of_b), joined({second, {k, n}}));
  const Expr y = summed_over.empty() ? left * right : matmul(left, right);
  ATTACCA_TRY(const Value value, reshape(y, joined({*batch, rows, columns})).value);
  return Term{labels, value};
}

// Labels that occur once, in the alphabet's order, behind those of ellipses.
Labels implied(const std::vector<Term>& terms) {
  std::map<char, int> times;
  for (const Term& term : terms)
    for (const char label : term.labels) ++times[label];
  Labels dotted, once;
  for (const auto& [label, count] : times) {
    if (label < 'A')
      dotted.insert(dotted.begin(), label);
    else if (count == 1)
      once += label;
  }
  return dotted + once;
}

Result<std::vector<Term>> terms_of(Node& node, const Equation& equation) {
  if (equation.terms.size() != node.inputs())
    return fail(fmt::format("an equation of {} operands for {} inputs", equation.terms.size(),
                            node.inputs()));
  std::vector<Term> terms;
  for (size_t i = 0; i < node.inputs(); ++i) {
    ATTACCA_TRY(const Value x, node.input(i));
    const std::string& text = equation.terms[i];
    const auto dots = std::count(text.begin(), text.end(), '.');
    ATTACCA_TRY(Labels labels, spelled(text, node.rank(x) - std::ssize(text) + dots));
    terms.push_back({std::move(labels), x});
  }
  return terms;
}

}  // namespace

Result<Outputs> einsum(Node& node) {
  ATTACCA_TRY(const Equation equation, parse_equation(node.text("equation", "")));
  ATTACCA_TRY(std::vector<Term> terms, terms_of(node, equation));
  Labels result = implied(terms);
  if (equation.result) {
    const auto dotted =
        std::count_if(result.begin(), result.end(), [](char label) { return label < 'A'; });
    const bool dots = has(*equation.result, '.');
    ATTACCA_TRY(result, spelled(*equation.result, dots ? dotted : 0));
  }
  for (size_t i = 0; i < result.size(); ++i)
    if (has(result.substr(i + 1), result[i]) ||
        std::none_of(terms.begin(), terms.end(),
                     [&](const Term& term) { return has(term.labels, result[i]); }))
      return fail(fmt::format("the result's label {} is not of one axis of an operand", result[i]));
  for (Term& term : terms) {
    ATTACCA_TRY(term, diagonals(node, std::move(term)));
  }
  // What is needed behind operand i: by later ones, and by the result.
  std::vector<Labels> needed(terms.size() + 1, result);
  for (size_t i = terms.size(); i-- > 0;) needed[i] = needed[i + 1] + terms[i].labels;
  ATTACCA_TRY(Term joint, summed(node, terms[0], needed[1]));
  for (size_t i = 1; i < terms.size(); ++i) {
    ATTACCA_TRY(const Term next, summed(node, terms[i], joint.labels + needed[i + 1]));
    ATTACCA_TRY(joint, product(node, joint, next, needed[i + 1]));
    ATTACCA_TRY(joint, summed(node, std::move(joint), needed[i + 1]));
  }
  // Products of 8-bit integers are of 32 bits. The result has the operands' type.
  return cast(arranged(node, joint, result), node.dtype(terms[0].x));
}

}  // namespace attacca::import
