#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "fmt/format.h"

#include "fuse/views.hpp"
#include "problem/problem.hpp"
#include "support/files/file.hpp"
#include "support/hash.hpp"

namespace attacca::problem {
namespace {

using epilogue::Role;

constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();  // of a kernel's coordinates

// The largest number where it overflows.
int64_t times(int64_t a, int64_t b) {
  int64_t made = 0;
  return __builtin_mul_overflow(a, b, &made) ? std::numeric_limits<int64_t>::max() : made;
}

Result<int64_t> number(const ir::Dim& dim, const ir::SymbolValues& symbols) {
  if (const auto value = dim.maybe_value()) return *value;
  const auto positive = dim.evaluate(symbols);
  if (positive) return positive;
  const auto negative = (ir::Dim(0) - dim).evaluate(symbols);  // a step backwards
  if (negative) return -*negative;
  return positive;
}

Result<std::vector<int64_t>> numbers(const std::vector<ir::Dim>& dims,
                                     const ir::SymbolValues& symbols) {
  std::vector<int64_t> result;
  for (const ir::Dim& dim : dims) {
    ATTACCA_TRY(const int64_t value, number(dim, symbols));
    result.push_back(value);
  }
  return result;
}

// Whether an operand has elements for each row of the domain, or the same for all rows, as B or an
// input of one row.
enum class Rows : uint8_t { Each, Same };

// An operand before batch axes are merged.
struct Strided {
  View view;
  std::vector<int64_t> batch = {};
  Rows rows = Rows::Each;
  // Whether it is read by strides. An accumulator and the operands of a user's kernel are not.
  bool is_strided = true;
};

Rows rows_of(Role role) {
  return role == Role::Row || role == Role::Scalar ? Rows::Same : Rows::Each;
}

int first_alignment(int base, int64_t offset_bytes) {
  int alignment = std::min(base, 16);
  while (alignment > 1 && offset_bytes % alignment != 0) alignment /= 2;
  return alignment;
}

class Concretizer {
 public:
  Concretizer(const fuse::Region& region, const ir::SymbolValues& symbols,
              const AlignmentOf& alignment_of)
      : region_(region), symbols_(symbols), alignment_of_(alignment_of) {}

  Result<Problem> run(const ir::Graph& graph, ir::Mode mode) {
    problem_.mode = mode;
    ATTACCA_TRY(const epilogue::Epilogue moved, moved_along_rows());
    problem_.epilogue = epilogue::canonicalize(moved);
    ATTACCA_TRY_VOID(set_domain());
    for (const fuse::Gemm& gemm : region_.gemms) ATTACCA_TRY_VOID(add_product(gemm, graph));
    if (region_.kernel) ATTACCA_TRY_VOID(add_kernel(graph, *region_.kernel));
    ATTACCA_TRY_VOID(add_operands());
    merge_batches();
    keep_batches();
    problem_.views = map([](const Strided& operand) { return operand.view; }, operands_);
    ATTACCA_TRY_VOID(check_extents());
    return std::move(problem_);
  }

 private:
  // With one row, what moves along the last batch axis may as well move along the rows, which that
  // axis then becomes (merge_batches), unless B moves along it.
  Result<epilogue::Epilogue> moved_along_rows() const {
    epilogue::Epilogue moved = region_.epilogue;
    const size_t rows = moved.domain.size() - 2;
    ATTACCA_TRY(const std::vector<int64_t> domain, numbers(moved.domain, symbols_));
    size_t end = rows;  // of the axes that are longer than one
    while (end > 0 && domain[end - 1] == 1) --end;
    if (domain[rows] != 1 || end == 0 || region_.kernel) return moved;
    const size_t axis = end - 1;
    for (const fuse::Gemm& gemm : region_.gemms)
      if (gemm.groups || !gemm.b.access.strides[axis].is(0) ||
          (gemm.b.scales && !gemm.b.scales->access.strides[axis].is(0)))
        return moved;
    for (epilogue::Input& input : moved.inputs) {
      if (rows_of(input.role) == Rows::Each || input.rows || input.group_stride) continue;
      std::vector<ir::Dim>& strides = input.access.strides;
      strides[rows] = strides[axis];
      input.role = fuse::role_of(strides);
    }
    return moved;
  }

  Status set_domain() {
    ATTACCA_TRY(std::vector<int64_t> domain, numbers(problem_.epilogue.domain, symbols_));
    problem_.n = domain.back();
    domain.pop_back();
    problem_.m = domain.back();
    domain.pop_back();
    batch_ = std::move(domain);
    return {};
  }

  Result<Strided> strided(const epilogue::Access& access, ir::DType dtype, ir::Value source,
                          Rows rows = Rows::Each) {
    Strided made{.view = {.dtype = dtype}, .rows = rows};
    View& view = made.view;
    ATTACCA_TRY(view.offset, number(access.offset, symbols_));
    ATTACCA_TRY(made.batch, numbers(access.strides, symbols_));
    view.column_stride = made.batch.back();
    made.batch.pop_back();
    view.row_stride = made.batch.back();
    made.batch.pop_back();
    view.alignment = first_alignment(alignment_of_(source), view.offset * ir::size_of(dtype));
    return made;
  }

  Strided not_strided(const View& view) const {
    return {.view = view, .batch = std::vector<int64_t>(batch_.size(), 0), .is_strided = false};
  }

  Status add_product(const fuse::Gemm& gemm, const ir::Graph& graph) {
    Product product{.accumulator = gemm.accumulator,
                    .stored = graph.type(gemm.node).dtype,
                    .fast = gemm.fast,
                    .packed = gemm.b.packed,
                    .node = gemm.node};
    ATTACCA_TRY(product.n, number(gemm.n, symbols_));
    ATTACCA_TRY(product.k, number(gemm.k, symbols_));
    problem_.products.push_back(product);
    ProductOperands<Strided> made;
    ProductOperands<ir::Value> sources{gemm.a.source, gemm.b.source};
    ATTACCA_TRY(made.a, strided(gemm.a.access, gemm.a.dtype, gemm.a.source));
    ATTACCA_TRY(made.b, strided(gemm.b.access, gemm.b.dtype, gemm.b.source, Rows::Same));
    if (gemm.a.scales) {
      const auto &a = *gemm.a.scales, &b = *gemm.b.scales;
      sources.scales = {a.source, b.source};
      made.scales.emplace();
      ATTACCA_TRY(made.scales->a, strided(a.access, ir::DType::F32, a.source));
      ATTACCA_TRY(made.scales->b, strided(b.access, ir::DType::F32, b.source, Rows::Same));
    }
    if (gemm.groups) ATTACCA_TRY_VOID(add_groups(*gemm.groups, made, sources));
    if (gemm.a.rows) {
      ATTACCA_TRY(problem_.products.back().rows, number(gemm.a.rows->extent, symbols_));
      ATTACCA_TRY(made.rows, listed(gemm.a.rows->access, graph.type(gemm.a.rows->source).dtype,
                                    gemm.a.rows->source));
      sources.rows = gemm.a.rows->source;
    }
    if (const auto& codes = gemm.b.codes) {
      problem_.products.back().codes = codes->format;
      sources.code_scales = codes->scales;
      made.code_scales = one_row(codes->format.scales, codes->scales);
      sources.code_zeros = codes->zeros;
      if (codes->zeros) made.code_zeros = one_row(ir::DType::U8, *codes->zeros);
    }
    operands_.products.push_back(std::move(made));
    problem_.sources.products.push_back(sources);
    return {};
  }

  // B's first axis is that of its groups, not of a batch.
  Status add_groups(const fuse::GroupEnds& groups, ProductOperands<Strided>& made,
                    ProductOperands<ir::Value>& sources) {
    ATTACCA_TRY(problem_.products.back().groups, number(groups.count, symbols_));
    const auto take_groups = [](Strided& of_groups) {
      of_groups.view.batch_stride = of_groups.batch.back();
      of_groups.batch.pop_back();
    };
    take_groups(made.b);
    if (made.scales) take_groups(made.scales->b);
    ATTACCA_TRY(made.offsets, listed(groups.access, ir::DType::S32, groups.source));
    sources.offsets = groups.source;
    return {};
  }

  // All of an operand, as one row.
  Strided one_row(ir::DType dtype, ir::Value source) const {
    return not_strided({.dtype = dtype,
                        .column_stride = 1,
                        .alignment = first_alignment(alignment_of_(source), 0)});
  }

  // A list of numbers, which a kernel reads as one row.
  Result<Strided> listed(const epilogue::Access& access, ir::DType dtype, ir::Value source) {
    View view{.dtype = dtype};
    ATTACCA_TRY(view.offset, number(access.offset, symbols_));
    ATTACCA_TRY(view.column_stride, number(access.strides[0], symbols_));
    view.alignment = first_alignment(alignment_of_(source), view.offset * ir::size_of(dtype));
    return not_strided(view);
  }

  Status add_kernel(const ir::Graph& graph, ir::Value kernel) {
    ATTACCA_TRY(problem_.kernel, concretize_kernel(graph, kernel, symbols_));
    if (const auto text = read_file(problem_.kernel->call.file))
      problem_.kernel->contents = hash64(*text);
    for (const ir::Value operand : graph[kernel].operands) {
      const ir::Type& type = graph.type(operand);
      ATTACCA_TRY(const std::vector<int64_t> shape, numbers(type.shape, symbols_));
      ATTACCA_TRY(std::vector<int64_t> strides, numbers(type.strides, symbols_));
      if (type.strides.empty()) strides = ir::contiguous_strides(shape);
      int64_t span = 1;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        span += (std::max<int64_t>(shape[axis], 1) - 1) * std::max<int64_t>(strides[axis], 0);
      operands_.kernel.push_back(
          not_strided({.dtype = type.dtype,
                       .row_stride = span,
                       .column_stride = 1,
                       .alignment = first_alignment(alignment_of_(operand), 0)}));
    }
    problem_.sources.kernel = graph[kernel].operands;
    return {};
  }

  Status add_operands() {
    for (epilogue::Input& input : problem_.epilogue.inputs) {
      Strided made = not_strided({.dtype = input.dtype});
      if (region_.kernel && input.role == Role::Accumulator) {
        // The kernel's result has the layout of the output.
        ATTACCA_TRY(made, strided(problem_.epilogue.outputs[0].access, input.dtype, input.source));
      } else if (input.role == Role::Accumulator) {
        ATTACCA_TRY(input.column_offset, number(input.column_offset, symbols_));
      } else {
        ATTACCA_TRY(made, strided(input.access, input.dtype, input.source, rows_of(input.role)));
      }
      if (input.group_stride) {
        ATTACCA_TRY(made.view.batch_stride, number(*input.group_stride, symbols_));
      }
      operands_.inputs.push_back(std::move(made));
      problem_.sources.inputs.push_back(input.source);
      if (input.rows) ATTACCA_TRY_VOID(add_index(*input.rows));
    }
    for (const epilogue::Output& output : problem_.epilogue.outputs) {
      if (output.kind != epilogue::OutputKind::Store && !epilogue::is_amax_of_all(output))
        return fail("a reduction inside a region has no kernel on this device yet", {},
                    "run with --device cpu");
      ATTACCA_TRY(Strided made, strided(output.access, output.dtype, output.result));
      operands_.outputs.push_back(std::move(made));
      problem_.sources.outputs.push_back(output.result);
    }
    return {};
  }

  // REQUIRES: a domain without batch axes.
  Status add_index(const epilogue::RowIndex& rows) {
    ATTACCA_TRY(Strided made, listed(rows.access, rows.dtype, rows.source));
    made.view.row_stride = std::exchange(made.view.column_stride, 0);
    operands_.indices.push_back(std::move(made));
    problem_.sources.indices.push_back(rows.source);
    ATTACCA_TRY(const int64_t extent, number(rows.extent, symbols_));
    problem_.named_rows.push_back(extent);
    return {};
  }

  void drop_axis(size_t axis) {
    batch_.erase(batch_.begin() + static_cast<ptrdiff_t>(axis));
    for_each(
        [&](Strided& operand) {
          operand.batch.erase(operand.batch.begin() + static_cast<ptrdiff_t>(axis));
        },
        operands_);
  }

  template <class F>
  bool every_operand(F holds) const {
    bool all = true;
    for_each([&](const Strided& operand) { all = all && (!operand.is_strided || holds(operand)); },
             operands_);
    return all;
  }

  bool axes_merge(size_t outer) const {
    if (times(batch_[outer], batch_[outer + 1]) > kMostExtent) return false;
    return every_operand([&](const Strided& operand) {
      return operand.batch[outer] == times(operand.batch[outer + 1], batch_[outer + 1]);
    });
  }

  // With one row, the row stride may be replaced by the stride of the batch axis.
  bool merges_into_rows() const {
    if (times(problem_.m, batch_.back()) > kMostExtent) return false;
    return every_operand([&](const Strided& operand) {
      if (operand.rows == Rows::Same) return operand.batch.back() == 0;
      return problem_.m == 1 || operand.batch.back() == times(operand.view.row_stride, problem_.m);
    });
  }

  void merge_into_rows() {
    for_each(
        [&](Strided& operand) {
          if (problem_.m == 1 && operand.is_strided && operand.rows == Rows::Each)
            operand.view.row_stride = operand.batch.back();
        },
        operands_);
    problem_.m *= batch_.back();
    drop_axis(batch_.size() - 1);
  }

  void merge_batches() {
    for (size_t axis = batch_.size(); axis-- > 0;)
      if (batch_[axis] == 1) drop_axis(axis);
    for (size_t axis = batch_.size(); axis-- > 0;)
      while (axis + 1 < batch_.size() && axes_merge(axis)) {
        batch_[axis + 1] *= batch_[axis];
        drop_axis(axis);
      }
    while (!batch_.empty() && merges_into_rows()) merge_into_rows();
  }

  // The longest remaining axis becomes the kernel's batch; each step along the others is a launch.
  void keep_batches() {
    if (!batch_.empty()) {
      // Of equally long ones the innermost.
      const auto longest = std::prev(std::max_element(batch_.rbegin(), batch_.rend()).base());
      for_each(
          [&](Strided& operand) {
            std::swap(operand.batch[static_cast<size_t>(longest - batch_.begin())],
                      operand.batch.back());
          },
          operands_);
      std::iter_swap(longest, batch_.end() - 1);
      problem_.batch = batch_.back();
      for_each(
          [](Strided& operand) {
            if (operand.is_strided) operand.view.batch_stride = operand.batch.back();
          },
          operands_);
      drop_axis(batch_.size() - 1);
    }
    for (size_t axis = 0; axis < batch_.size(); ++axis) {
      const auto stride = [&](const Strided& operand) { return operand.batch[axis]; };
      problem_.outer.push_back({batch_[axis], map(stride, operands_)});
      for_each(
          [&](Strided& operand) {
            View& view = operand.view;
            view.alignment =
                first_alignment(view.alignment, stride(operand) * ir::size_of(view.dtype));
          },
          operands_);
    }
  }

  Status check_extents() const {
    std::vector<std::pair<const char*, int64_t>> extents = {
        {"M", problem_.m}, {"N", problem_.n}, {"the batch", problem_.batch}};
    for (const OuterAxis& axis : problem_.outer) extents.emplace_back("a batch axis", axis.extent);
    for (const Product& product : problem_.products) {
      extents.emplace_back("K", product.k);
      extents.emplace_back("N", product.n);
      extents.emplace_back("the number of rows to gather from", product.rows.value_or(0));
    }
    for (const int64_t rows : problem_.named_rows)
      extents.emplace_back("the number of rows to gather from", rows);
    for (const auto& [what, extent] : extents)
      if (extent > kMostExtent)
        return fail(fmt::format("{} = {} does not fit a kernel's 32-bit coordinates", what, extent),
                    {}, "split the problem");
    return {};
  }

  const fuse::Region& region_;
  const ir::SymbolValues& symbols_;
  const AlignmentOf& alignment_of_;
  Problem problem_;
  std::vector<int64_t> batch_;
  Operands<Strided> operands_;
};

// The same with a number in its place.
Result<ir::LaunchSize> numbered(const ir::LaunchSize& size, const ir::SymbolValues& symbols) {
  ATTACCA_TRY(const int64_t value, size.evaluate(symbols));
  return ir::LaunchSize{value};
}

}  // namespace

Result<KernelPart> concretize_kernel(const ir::Graph& graph, ir::Value kernel,
                                     const ir::SymbolValues& symbols) {
  const ir::Node& node = graph[kernel];
  KernelPart part{.call = node.get<ir::KernelAttrs>().call,
                  .stored = node.type.dtype,
                  .node = kernel,
                  .name = epilogue::display_name(graph, kernel)};
  for (ir::LaunchSize& size : part.call.grid) {
    ATTACCA_TRY(size, numbered(size, symbols));
  }
  for (ir::KernelArgument& argument : part.call.arguments) {
    auto* scalar = std::get_if<ir::ScalarArgument>(&argument);
    auto* size = scalar == nullptr ? nullptr : std::get_if<ir::LaunchSize>(&scalar->number);
    if (size == nullptr) continue;
    ATTACCA_TRY(*size, numbered(*size, symbols));
  }
  ATTACCA_TRY(part.elements, number(ir::element_count(node.type.shape), symbols));
  return part;
}

Result<Problem> concretize(const fuse::Region& region, const ir::Graph& graph,
                           const ir::SymbolValues& symbols, ir::Mode mode,
                           const AlignmentOf& alignment_of) {
  return Concretizer(region, symbols, alignment_of).run(graph, mode);
}

}  // namespace attacca::problem
