#include "problem_testing.hpp"

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "fuse/device_options.hpp"
#include "ir/text/text.hpp"

namespace attacca::tune::testing {
namespace {

using epilogue::Access;
using Coordinates = std::vector<int64_t>;

int64_t number(const ir::Dim& dim, const ir::SymbolValues& symbols) {
  if (const auto value = dim.maybe_value()) return *value;
  if (const auto value = dim.evaluate(symbols)) return *value;
  return -(ir::Dim(0) - dim).evaluate(symbols).value();
}

int64_t product(const Coordinates& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// Coordinates of the element that is at `index` in row-major order.
Coordinates coordinates(int64_t index, const Coordinates& extents) {
  Coordinates result(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;) {
    result[axis] = index % extents[axis];
    index /= extents[axis];
  }
  return result;
}

// One operand and the access that it stands for. Both walk [batch..., rows, columns] in one order.
class Walk {
 public:
  // `select` names the operand: a member of any Operands. `place`: which of the region's axes is
  // the problem's batch. The last of them is in its place in `outer`.
  template <class Select>
  Walk(const problem::Problem& problem, const Select& select, const ir::SymbolValues& symbols,
       size_t place)
      : problem_(problem), view_(*select(problem.views)), symbols_(symbols), place_(place) {
    for (const problem::OuterAxis& axis : problem.outer)
      outer_strides_.push_back(*select(axis.strides));
  }

  std::string compare(const std::string& what, const Access& access, Coordinates batches,
                      int64_t rows, int64_t columns, bool follows_rows) {
    Coordinates full = batches;
    full.push_back(rows);
    full.push_back(columns);
    Coordinates mine;
    for (const problem::OuterAxis& axis : problem_.outer) mine.push_back(axis.extent);
    mine.push_back(problem_.batch);
    std::swap(mine[place_], mine.back());
    // Batches that merged into rows do not change B's address, so B's walk ignores them.
    mine.push_back(follows_rows ? problem_.m : problem_.m / std::max<int64_t>(1, own_rows_) * rows);
    mine.push_back(columns);
    if (product(full) != product(mine))
      return fmt::format("{} has {} elements, the region's {}", what, product(mine), product(full));
    for (int64_t i = 0; i < product(full); ++i) {
      const int64_t want = at(access, coordinates(i, full));
      const int64_t got = at(coordinates(i, mine), rows, follows_rows);
      if (want != got)
        return fmt::format("{} element {} is at {}, the region's at {}", what, i, got, want);
    }
    return {};
  }

  // Rows of the region's domain.
  Walk& rows(int64_t rows) {
    own_rows_ = rows;
    return *this;
  }

 private:
  int64_t at(const Access& access, const Coordinates& where) const {
    int64_t offset = number(access.offset, symbols_);
    for (size_t i = 0; i < where.size(); ++i)
      offset += where[i] * number(access.strides[i], symbols_);
    return offset;
  }

  int64_t at(Coordinates where, int64_t rows, bool follows_rows) const {
    const size_t outer = problem_.outer.size();
    std::swap(where[place_], where[outer]);
    int64_t offset = view_.offset;
    for (size_t axis = 0; axis < outer; ++axis) offset += where[axis] * outer_strides_[axis];
    const int64_t row = follows_rows ? where[outer + 1] : where[outer + 1] % rows;
    return offset + where[outer] * view_.batch_stride + row * view_.row_stride +
           where[outer + 2] * view_.column_stride;
  }

  const problem::Problem& problem_;
  const problem::View& view_;
  Coordinates outer_strides_;
  const ir::SymbolValues& symbols_;
  size_t place_;
  int64_t own_rows_ = 1;
};

std::string words(const problem::View& view) {
  return fmt::format("{}+({}){},{} @{}", view.offset, view.batch_stride, view.row_stride,
                     view.column_stride, view.alignment);
}

int64_t blocks(int64_t extent) {
  return (extent + problem::kScaleBlock - 1) / problem::kScaleBlock;
}

// Elements of all groups' matrices of one operand, (group, row, column).
std::string matrices_differ(const char* what, const problem::View& view, const Access& access,
                            const Coordinates& extents, const ir::SymbolValues& symbols) {
  const auto stride = [&](size_t axis) { return number(access.strides[axis], symbols); };
  for (int64_t i = 0; i < extents[0] * extents[1] * extents[2]; ++i) {
    const Coordinates at = coordinates(i, extents);
    const int64_t want =
        number(access.offset, symbols) + at[0] * stride(0) + at[1] * stride(1) + at[2] * stride(2);
    const int64_t got = view.offset + at[0] * view.batch_stride + at[1] * view.row_stride +
                        at[2] * view.column_stride;
    if (want != got)
      return fmt::format("{} of groups: element {} is at {}, the region's at {}", what, i, got,
                         want);
  }
  return {};
}

// The elements of all groups' matrices of B and their scales, and the ends of the groups.
std::string groups_differ(const problem::Product& product,
                          const problem::ProductOperands<problem::View>& views,
                          const fuse::Gemm& gemm, const ir::SymbolValues& symbols) {
  if (gemm.groups.has_value() != product.groups.has_value()) return "groups on one side alone";
  const int64_t groups = number(gemm.groups->count, symbols);
  if (groups != *product.groups) return "another number of groups";
  if (auto bad =
          matrices_differ("b", views.b, gemm.b.access, {groups, product.k, product.n}, symbols);
      !bad.empty())
    return bad;
  if (gemm.b.scales && views.scales) {
    const Coordinates extents = {groups, blocks(product.k), blocks(product.n)};
    if (auto bad = matrices_differ("scales of b", views.scales->b, gemm.b.scales->access, extents,
                                   symbols);
        !bad.empty())
      return bad;
  }
  const Access& ends = gemm.groups->access;
  for (int64_t group = 0; group < groups; ++group)
    if (views.offsets->offset + group * views.offsets->column_stride !=
        number(ends.offset, symbols) + group * number(ends.strides[0], symbols))
      return fmt::format("the end of group {} is elsewhere", group);
  return {};
}

// `base`: the alignment of the operand's memory.
std::string misaligned(const problem::Problem& problem, const problem::View& view,
                       const Coordinates& outer_strides, int base) {
  if (view.alignment > base || view.alignment > 16 || view.alignment < 1)
    return fmt::format("{} is aligned to {}, its memory to {}", words(view), view.alignment, base);
  Coordinates outer;
  for (const problem::OuterAxis& axis : problem.outer) outer.push_back(axis.extent);
  for (int64_t i = 0; i < product(outer); ++i) {
    const Coordinates where = coordinates(i, outer);
    int64_t offset = view.offset;
    for (size_t axis = 0; axis < outer.size(); ++axis) offset += where[axis] * outer_strides[axis];
    if (offset * ir::size_of(view.dtype) % view.alignment != 0)
      return fmt::format("{} starts at {}, which is not aligned to {}", words(view), offset,
                         view.alignment);
  }
  return {};
}

std::string misaligned(const problem::Problem& problem, const problem::AlignmentOf& alignment_of) {
  auto outer_strides = map([](const problem::View&) { return Coordinates(); }, problem.views);
  for (const problem::OuterAxis& axis : problem.outer)
    for_each([](Coordinates& strides, int64_t stride) { strides.push_back(stride); }, outer_strides,
             axis.strides);
  auto bad = map(
      [&](const problem::View& view, const Coordinates& strides, ir::Value source) {
        return misaligned(problem, view, strides, alignment_of(source));
      },
      problem.views, outer_strides, problem.sources);
  for (size_t i = 0; i < bad.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == epilogue::Role::Accumulator) bad.inputs[i].clear();
  std::string first;
  for_each([&](const std::string& each) { first = first.empty() ? each : first; }, bad);
  return first;
}

}  // namespace

Made make(const std::string& parameters, const std::string& body, const MakeOptions& options) {
  const std::string text = "graph g(" + parameters + ") {\n" + body + "\n}\n";
  Made made;
  auto graph = ir::parse_graph(text);
  if (!graph) {
    ADD_FAILURE() << to_string(graph.error()) << text;
    return {};
  }
  made.partition = fuse::partition(*std::move(graph), fuse::gpu_options());
  made.region = &made.partition.regions.back();
  EXPECT_NE(made.region->kind, fuse::RegionKind::Single) << text;
  made.problem = problem::concretize(*made.region, made.partition.graph, options.symbols,
                                     options.mode, [&](ir::Value) { return options.alignment; });
  return made;
}

std::string words(const Result<problem::Problem>& problem) {
  if (!problem) return problem.error().what;
  std::string text = fmt::format("m={} n={} batch={}", problem->m, problem->n, problem->batch);
  for (const problem::OuterAxis& axis : problem->outer)
    text += fmt::format(" outer={}", axis.extent);
  const problem::Operands<problem::View>& views = problem->views;
  for (size_t i = 0; i < views.products.size(); ++i)
    text += fmt::format(" | k={} a {} | b {}", problem->products[i].k, words(views.products[i].a),
                        words(views.products[i].b));
  for (size_t i = 0; i < views.products.size(); ++i) {
    const auto& product = views.products[i];
    if (!product.code_scales) continue;
    text += fmt::format(" | {} by {}", codes_name(*problem->products[i].codes),
                        words(*product.code_scales));
    if (product.code_zeros) text += fmt::format(" less {}", words(*product.code_zeros));
  }
  for (const auto& product : views.products)
    if (product.scales)
      text += fmt::format(" | by {} and {}", words(product.scales->a), words(product.scales->b));
  for (size_t i = 0; i < views.inputs.size(); ++i)
    if (problem->epilogue.inputs[i].role != epilogue::Role::Accumulator)
      text +=
          fmt::format(" | {} {}", name(problem->epilogue.inputs[i].role), words(views.inputs[i]));
  for (size_t i = 0; i < views.indices.size(); ++i)
    text += fmt::format(" | one of {} rows by {}", problem->named_rows[i], words(views.indices[i]));
  for (const problem::View& output : views.outputs) text += " | -> " + words(output);
  return text;
}

std::string words(const std::string& parameters, const std::string& body,
                  const MakeOptions& options) {
  const Made made = make(parameters, body, options);
  if (made.problem) {
    EXPECT_EQ(difference(*made.problem, *made.region, options.symbols,
                         [&](ir::Value) { return options.alignment; }),
              "");
  }
  return words(made.problem);
}

namespace {

// difference() where the problem's batch is the region's axis at `place`.
std::string difference_at(size_t place, const problem::Problem& problem, const fuse::Region& region,
                          const ir::SymbolValues& symbols,
                          const problem::AlignmentOf& alignment_of) {
  Coordinates batches;
  for (const ir::Dim& dim : problem.epilogue.domain) batches.push_back(number(dim, symbols));
  const int64_t columns = batches.back();
  batches.pop_back();
  const int64_t rows = batches.back();
  batches.pop_back();
  if (columns != problem.n) return fmt::format("n is {}, not {}", problem.n, columns);
  if (problem.empty()) return {};
  const auto walk = [&](const auto& select) {
    return Walk(problem, select, symbols, place).rows(rows);
  };
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const fuse::Gemm& gemm = region.gemms[i];
    const auto a = [i](const auto& operands) { return &operands.products[i].a; };
    const auto b = [i](const auto& operands) { return &operands.products[i].b; };
    const auto scales_a = [i](const auto& operands) { return &operands.products[i].scales->a; };
    const auto scales_b = [i](const auto& operands) { return &operands.products[i].scales->b; };
    const int64_t k = number(gemm.k, symbols), n = number(gemm.n, symbols);
    if (k != problem.products[i].k || n != problem.products[i].n) return "another n or k";
    if (auto bad = walk(a).compare("a", gemm.a.access, batches, rows, k, true); !bad.empty())
      return bad;
    if (auto bad = gemm.groups ? groups_differ(problem.products[i], problem.views.products[i], gemm,
                                               symbols)
                               : walk(b).compare("b", gemm.b.access, batches, k, n, false);
        !bad.empty())
      return bad;
    if (gemm.a.scales.has_value() != problem.views.products[i].scales.has_value())
      return "scales on one side alone";
    if (!gemm.a.scales) continue;
    if (auto bad = walk(scales_a).compare("scales of a", gemm.a.scales->access, batches, rows,
                                          blocks(k), true);
        !bad.empty())
      return bad;
    if (gemm.groups) continue;
    if (auto bad = walk(scales_b).compare("scales of b", gemm.b.scales->access, batches, blocks(k),
                                          blocks(n), false);
        !bad.empty())
      return bad;
  }
  for (size_t i = 0; i < problem.epilogue.inputs.size(); ++i) {
    const epilogue::Input& input = problem.epilogue.inputs[i];
    if (input.role == epilogue::Role::Accumulator) continue;
    const auto at = [i](const auto& operands) { return &operands.inputs[i]; };
    if (auto bad = walk(at).compare("input", input.access, batches, rows, columns, true);
        !bad.empty())
      return bad;
  }
  for (size_t i = 0; i < problem.epilogue.outputs.size(); ++i) {
    const auto at = [i](const auto& operands) { return &operands.outputs[i]; };
    if (auto bad = walk(at).compare("output", problem.epilogue.outputs[i].access, batches, rows,
                                    columns, true);
        !bad.empty())
      return bad;
  }
  return misaligned(problem, alignment_of);
}

}  // namespace

std::string difference(const problem::Problem& problem, const fuse::Region& region,
                       const ir::SymbolValues& symbols, const problem::AlignmentOf& alignment_of) {
  std::string first;
  for (size_t place = problem.outer.size() + 1; place-- > 0;) {
    const std::string bad = difference_at(place, problem, region, symbols, alignment_of);
    if (bad.empty()) return {};
    if (first.empty()) first = bad;
  }
  return first;
}

}  // namespace attacca::tune::testing
