#include "problem/problem.hpp"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::problem {
namespace {

using epilogue::Role;

int64_t bucket_of(int64_t m) {
  static constexpr int64_t kEdges[] = {1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024};
  for (const int64_t edge : kEdges)
    if (m <= edge) return edge;
  for (int64_t power = 2048;; power *= 2) {
    if (m <= power / 4 * 3) return power / 4 * 3;
    if (m <= power) return power;
  }
}

// The part of a layout that decides between candidates: which stride is 1, and the alignment of all
// rows, columns and matrices. A dense stride does not count where shape_bucket() says it; of the
// problem's rows, which are those of every matrix but B, it has the bucket alone.
std::string layout(const View& view, const Extents& extents, bool rows_are_known = false) {
  const char* major = view.column_stride == 1 ? "r" : view.row_stride == 1 ? "c" : "s";
  int alignment = view.alignment;
  const auto align = [&](int64_t stride, int64_t dense) {
    while (stride != 1 && stride != dense && alignment > 1 &&
           stride * ir::size_of(view.dtype) % alignment != 0)
      alignment /= 2;
  };
  align(view.row_stride, extents.columns);
  align(view.column_stride, rows_are_known ? extents.rows : 0);
  align(view.batch_stride, rows_are_known ? extents.rows * extents.columns : 0);
  return fmt::format("{}:{}{}", name(view.dtype), major, alignment);
}

// Integers that a kernel is given by value.
std::vector<int64_t> sizes_given(const ir::KernelCall& call) {
  constexpr int64_t kMost = int64_t{1} << 40;  // larger ones are no sizes
  std::vector<int64_t> sizes;
  for (const ir::KernelArgument& argument : call.arguments)
    if (const auto* scalar = std::get_if<ir::ScalarArgument>(&argument))
      if (const auto* size = std::get_if<ir::LaunchSize>(&scalar->number))
        sizes.push_back(std::min(size->scale.maybe_value().value_or(0), kMost));
  return sizes;
}

double footprint(const View& view, int64_t rows, int64_t columns, int64_t batch) {
  const auto extent = [](int64_t stride, int64_t count) {
    return stride == 0 ? 1.0 : double(count);
  };
  return extent(view.row_stride, rows) * extent(view.column_stride, columns) *
         extent(view.batch_stride, batch) * double(ir::size_of(view.dtype));
}

}  // namespace

bool Problem::repeats_first_a(size_t product) const {
  return product > 0 && views.products[product].a == views.products[0].a &&
         views.products[product].rows == views.products[0].rows &&
         sources.products[product].a == sources.products[0].a &&
         sources.products[product].rows == sources.products[0].rows;
}

std::vector<Factor> Problem::factors() const {
  std::vector<Factor> all;
  if (products.empty()) return all;
  for (const epilogue::Input& input : epilogue.inputs) {
    if (input.role != Role::Accumulator) continue;
    const auto product = static_cast<size_t>(input.gemm);
    Factor factor{product, views.products[product].b};
    const int64_t first = input.column_offset.maybe_value().value_or(0);
    const int64_t step = first * factor.b.column_stride;
    factor.b.offset += step;
    while (factor.b.alignment > 1 && step * ir::size_of(factor.b.dtype) % factor.b.alignment != 0)
      factor.b.alignment /= 2;
    factor.b.column_stride *= input.column_step;
    if (const auto& scales = views.products[product].scales) {
      ATTACCA_CHECK(first % kScaleBlock == 0 && input.column_step == 1,
                    "columns that do not begin a block");
      factor.scales = scales->b;
      factor.scales->offset += first / kScaleBlock * scales->b.column_stride;
    }
    all.push_back(factor);
  }
  return all;
}

Problem tail_problem(const Problem& problem, epilogue::Epilogue tail) {
  Problem made = problem;
  made.products.clear();
  made.kernel.reset();
  made.epilogue = std::move(tail);
  made.views = problem.views.of_epilogue();
  made.sources = problem.sources.of_epilogue();
  for (OuterAxis& axis : made.outer) axis.strides = axis.strides.of_epilogue();
  return made;
}

void make_batch_invariant(Problem& problem) {
  problem.batch_invariant = true;
  if (problem.m != 1) return;
  for (size_t i = 0; i < problem.views.outputs.size(); ++i) {
    View& view = problem.views.outputs[i];
    if (problem.epilogue.outputs[i].kind == epilogue::OutputKind::Store && view.row_stride == 0)
      view.row_stride = problem.n * std::max<int64_t>(view.column_stride, 1);
  }
}

Problem with_rows_alike(const Problem& problem, int64_t rows) {
  Problem made = problem;
  made.m = rows;
  made.batch = 1;
  made.outer.clear();
  for (size_t i = 0; i < made.views.inputs.size(); ++i) {
    epilogue::Input& input = made.epilogue.inputs[i];
    if (input.role != Role::Full && input.role != Role::Column) continue;
    input.role = input.role == Role::Full ? Role::Row : Role::Scalar;
    input.access.strides[input.access.strides.size() - 2] = 0;
    made.views.inputs[i].row_stride = made.views.inputs[i].batch_stride = 0;
  }
  return made;
}

bool names_rows(const Problem& problem) {
  return std::any_of(problem.products.begin(), problem.products.end(),
                     [](const Product& product) { return product.rows.has_value(); });
}

Problem with_gathered_rows(const Problem& problem) {
  Problem made = problem;
  for (size_t i = 0; i < made.products.size(); ++i) {
    if (!made.products[i].rows) continue;
    made.products[i].rows.reset();
    made.sources.products[i].rows.reset();
    auto& views = made.views.products[i];
    views.rows.reset();
    const int64_t line = 16 / ir::size_of(views.a.dtype);
    views.a = {.dtype = views.a.dtype,
               .row_stride = (made.products[i].k + line - 1) / line * line,
               .column_stride = 1};
  }
  return made;
}

bool reads_by_group(const Problem& problem) {
  return epilogue::reads_by_group(problem.epilogue);
}

Problem with_numbered_groups(const Problem& problem) {
  Problem made = problem;
  made.named_rows.clear();
  made.views.indices.clear();
  made.sources.indices.clear();
  size_t indexed = 0;
  for (size_t i = 0; i < made.epilogue.inputs.size(); ++i) {
    epilogue::Input& input = made.epilogue.inputs[i];
    if (input.rows) {
      made.views.indices.push_back(problem.views.indices[indexed]);
      made.sources.indices.push_back(problem.sources.indices[indexed]);
      made.named_rows.push_back(problem.named_rows[indexed++]);
    }
    if (!input.group_stride) continue;
    const int64_t groups = *problem.products[0].groups;
    View& view = made.views.inputs[i];
    view.row_stride = std::exchange(view.batch_stride, 0);
    input.access.strides[0] = *std::exchange(input.group_stride, std::nullopt);
    input.role = input.role == Role::Row ? Role::Full : Role::Column;
    input.rows = {.source = *problem.sources.products[0].offsets,
                  .access = {0, {1}},
                  .extent = groups,
                  .dtype = ir::DType::S32};
    made.views.indices.push_back({.dtype = ir::DType::S32, .row_stride = 1});
    made.sources.indices.push_back(*problem.sources.products[0].offsets);
    made.named_rows.push_back(groups);
  }
  return made;
}

bool has_codes(const Problem& problem) {
  return std::any_of(problem.products.begin(), problem.products.end(),
                     [](const Product& product) { return product.codes.has_value(); });
}

int64_t coded_weights(const Problem& problem, size_t product) {
  const auto& [n, k] = std::pair(problem.products[product].n, problem.products[product].k);
  const int64_t groups = problem.products[product].groups.value_or(1);
  if (n == 0 || k == 0 || groups == 0) return 0;
  const View& b = problem.views.products[product].b;
  const int64_t last =
      b.offset + (groups - 1) * b.batch_stride + (n - 1) * b.column_stride + (k - 1) * b.row_stride;
  const int64_t block = problem.products[product].codes->block;
  return (last / block + 1) * block;
}

Problem with_widened_weights(const Problem& problem) {
  Problem made = problem;
  for (size_t i = 0; i < made.products.size(); ++i) {
    auto& views = made.views.products[i];
    if (!made.products[i].codes) continue;
    made.products[i].codes.reset();
    views.code_scales.reset();
    views.code_zeros.reset();
    made.sources.products[i].code_scales.reset();
    made.sources.products[i].code_zeros.reset();
    views.b.alignment = 16;
  }
  return made;
}

Operands<Extents> extents(const Problem& problem) {
  Operands<Extents> all = map(
      [&](const View&) {
        return Extents{problem.m, problem.n};
      },
      problem.views);
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const auto& [n, k] = std::pair(problem.products[i].n, problem.products[i].k);
    all.products[i].a = {problem.products[i].rows.value_or(problem.m), k};
    all.products[i].b = {k, n};
    if (auto& scales = all.products[i].scales)
      scales = {{problem.m, scale_blocks(k)}, {scale_blocks(k), scale_blocks(n)}};
    if (auto& offsets = all.products[i].offsets)
      offsets = {1, problem.products[i].groups.value_or(0)};
    if (auto& rows = all.products[i].rows) rows = {1, problem.m};
    if (const auto& codes = problem.products[i].codes) {
      const Extents blocks{1, coded_weights(problem, i) / codes->block};
      all.products[i].code_scales = blocks;
      if (codes->zeros) all.products[i].code_zeros = blocks;
    }
  }
  for (size_t i = 0; i < all.kernel.size(); ++i)
    all.kernel[i] = {1, problem.views.kernel[i].row_stride};
  const std::vector<size_t> indexed = epilogue::indexed_inputs(problem.epilogue);
  for (size_t i = 0; i < indexed.size(); ++i) {
    all.inputs[indexed[i]].rows = problem.named_rows[i];
    all.indices[i].columns = 1;
  }
  return all;
}

std::string problem_class(const Problem& problem) {
  std::string text =
      fmt::format("{}{}|{}", name(problem.mode), problem.batch_invariant ? " batch_invariant" : "",
                  serialize(problem.epilogue));
  const Operands<Extents> all = extents(problem);
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const Product& product = problem.products[i];
    const ProductOperands<View>& views = problem.views.products[i];
    text += fmt::format("|{} {} -> {}{}", layout(views.a, all.products[i].a),
                        layout(views.b, all.products[i].b, true), name(product.stored),
                        product.fast ? " fast" : "");
    if (views.scales) text += " blocks";
    if (product.groups) text += " grouped";
    if (views.rows) text += fmt::format(" rows by {}", name(views.rows->dtype));
    if (product.codes) text += " " + to_string(*product.codes);
    if (product.packed) text += fmt::format(" packed {}", to_string(product.packed->packing));
  }
  if (problem.kernel) {
    ir::KernelCall call = problem.kernel->call;
    call.grid.clear();  // it depends on the shape
    text += fmt::format("|{} {:016x}{}", call.file, problem.kernel->contents, launch_text(call));
  }
  for (size_t i = 0; i < problem.views.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role == Role::Full)
      text += "|" + layout(problem.views.inputs[i], all.inputs[i]);
  for (size_t i = 0; i < problem.views.outputs.size(); ++i)
    text += "|" + layout(problem.views.outputs[i], all.outputs[i]);
  return text;
}

int64_t launches(const Problem& problem) {
  int64_t count = 1;
  for (const OuterAxis& axis : problem.outer) count *= axis.extent;
  return count;
}

std::string shape_bucket(const Problem& problem) {
  std::string text =
      fmt::format("m<={} n={} batch={}", bucket_of(problem.m), problem.n, problem.batch);
  for (const Product& product : problem.products) {
    text += fmt::format(" k={}", product.k);
    if (product.groups) text += fmt::format(" groups={}", *product.groups);
  }
  for (const OuterAxis& axis : problem.outer) text += fmt::format(" outer={}", axis.extent);
  if (problem.kernel)
    for (const int64_t size : sizes_given(problem.kernel->call))
      text += fmt::format(" given<={}", bucket_of(size));
  return text;
}

double operations(const Problem& problem) {
  double total = 0;
  for (const Product& product : problem.products)
    total +=
        2.0 * double(problem.m) * double(product.n) * double(product.k) * double(problem.batch);
  return total;
}

double bytes(const Problem& problem) {
  double total = 0;
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const Product& product = problem.products[i];
    const ProductOperands<View>& views = problem.views.products[i];
    // Rows reach at most as many groups as there are rows.
    const int64_t matrices = product.groups ? std::min(*product.groups, problem.m) : problem.batch;
    const int64_t rows = std::min(product.rows.value_or(problem.m), problem.m);
    const double weights = footprint(views.b, product.k, product.n, matrices);
    total += footprint(views.a, rows, product.k, problem.batch) +
             (product.packed  ? double(product.packed->bytes)
              : product.codes ? code_share(*product.codes) * weights
                              : weights);
  }
  size_t indexed = 0;
  for (size_t i = 0; i < problem.views.inputs.size(); ++i) {
    const epilogue::Input& input = problem.epilogue.inputs[i];
    const int64_t rows = input.rows ? problem.named_rows[indexed++] : problem.m;
    const int64_t batches =
        input.group_stride ? std::min(*problem.products[0].groups, problem.m) : problem.batch;
    if (input.role != Role::Accumulator)
      total += footprint(problem.views.inputs[i], std::min(rows, problem.m), problem.n, batches);
  }
  for (const View& index : problem.views.indices)
    total += footprint(index, problem.m, 1, problem.batch);
  for (const View& output : problem.views.outputs)
    total += footprint(output, problem.m, problem.n, problem.batch);
  return total;
}

}  // namespace attacca::problem
