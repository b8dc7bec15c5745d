#include <algorithm>
#include <limits>

#include "fmt/format.h"

#include "problem/problem.hpp"

namespace attacca::problem {
namespace {

using epilogue::Role;

constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();  // of a kernel's coordinates

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

// An operand while batch axes are still apart.
struct Strided {
  View* view = nullptr;  // none: an accumulator, which follows whatever the domain does
  std::vector<int64_t> batch;
  bool has_rows = true;  // false: rows do not move it, as B, or an input that is one row
};

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
    problem_.epilogue = epilogue::canonicalize(region_.epilogue);
    ATTACCA_TRY_VOID(set_domain());
    for (const fuse::Gemm& gemm : region_.gemms) ATTACCA_TRY_VOID(add_product(gemm, graph));
    if (region_.kernel) {
      ATTACCA_TRY(problem_.kernel,
                  concretize_kernel(graph, *region_.kernel, symbols_, alignment_of_));
    }
    ATTACCA_TRY_VOID(add_operands());
    collect();
    merge_batches();
    keep_batches();
    ATTACCA_TRY_VOID(check_extents());
    return std::move(problem_);
  }

 private:
  Status set_domain() {
    ATTACCA_TRY(std::vector<int64_t> domain, numbers(problem_.epilogue.domain, symbols_));
    problem_.n = domain.back();
    domain.pop_back();
    problem_.m = domain.back();
    domain.pop_back();
    batch_ = std::move(domain);
    return {};
  }

  Result<View> view(const epilogue::Access& access, ir::DType dtype, ir::Value source,
                    std::vector<int64_t>& batch) {
    View result{.dtype = dtype};
    ATTACCA_TRY(result.offset, number(access.offset, symbols_));
    ATTACCA_TRY(batch, numbers(access.strides, symbols_));
    result.column_stride = batch.back();
    batch.pop_back();
    result.row_stride = batch.back();
    batch.pop_back();
    result.alignment = first_alignment(alignment_of_(source), result.offset * ir::size_of(dtype));
    return result;
  }

  Status add_product(const fuse::Gemm& gemm, const ir::Graph& graph) {
    Product product{.accumulator = gemm.accumulator,
                    .stored = graph.type(gemm.node).dtype,
                    .fast = gemm.fast,
                    .node = gemm.node,
                    .a_source = gemm.a.source,
                    .b_source = gemm.b.source};
    ATTACCA_TRY(product.n, number(gemm.n, symbols_));
    ATTACCA_TRY(product.k, number(gemm.k, symbols_));
    std::vector<int64_t> batch_a, batch_b;
    ATTACCA_TRY(product.a, view(gemm.a.access, gemm.a.dtype, gemm.a.source, batch_a));
    ATTACCA_TRY(product.b, view(gemm.b.access, gemm.b.dtype, gemm.b.source, batch_b));
    product.packed = gemm.b.packed;
    if (gemm.a.scales) {
      ScaledBlocks scales{.a_source = gemm.a.scales->source, .b_source = gemm.b.scales->source};
      for (const auto& [to, from] : {std::pair{&scales.a, &gemm.a}, {&scales.b, &gemm.b}}) {
        std::vector<int64_t>& batch = scale_batches_.emplace_back();
        ATTACCA_TRY(*to, view(from->scales->access, ir::DType::F32, from->scales->source, batch));
      }
      product.scales = scales;
    }
    problem_.products.push_back(product);
    product_batches_.push_back(std::move(batch_a));
    product_batches_.push_back(std::move(batch_b));
    return {};
  }

  Status add_operands() {
    for (epilogue::Input& input : problem_.epilogue.inputs) {
      operand_batches_.emplace_back(batch_.size(), 0);
      View made{.dtype = input.dtype};
      if (region_.kernel && input.role == Role::Accumulator) {
        // It lies as the output does.
        ATTACCA_TRY(made, view(problem_.epilogue.outputs[0].access, input.dtype, input.source,
                               operand_batches_.back()));
      } else if (input.role == Role::Accumulator) {
        ATTACCA_TRY(input.column_offset, number(input.column_offset, symbols_));
      } else {
        ATTACCA_TRY(made, view(input.access, input.dtype, input.source, operand_batches_.back()));
      }
      problem_.inputs.push_back(made);
    }
    for (const epilogue::Output& output : problem_.epilogue.outputs) {
      if (output.kind != epilogue::OutputKind::Store && !epilogue::is_amax_of_all(output))
        return fail("a reduction inside a region has no kernel on this device yet", {},
                    "run with --device cpu");
      operand_batches_.emplace_back();
      ATTACCA_TRY(View made,
                  view(output.access, output.dtype, output.result, operand_batches_.back()));
      problem_.outputs.push_back(made);
    }
    return {};
  }

  void collect() {
    size_t i = 0;
    for (Product& product : problem_.products) {
      operands_.push_back({&product.a, product_batches_[i++], true});
      operands_.push_back({&product.b, product_batches_[i++], false});
    }
    i = 0;
    for (Product& product : problem_.products)
      if (product.scales) {
        operands_.push_back({&product.scales->a, scale_batches_[i++], true});
        operands_.push_back({&product.scales->b, scale_batches_[i++], false});
      }
    i = 0;
    for (size_t input = 0; input < problem_.inputs.size(); ++input, ++i) {
      const Role role = problem_.epilogue.inputs[input].role;
      const bool is_nowhere = role == Role::Accumulator && !region_.kernel;
      operands_.push_back({is_nowhere ? nullptr : &problem_.inputs[input], operand_batches_[i],
                           role != Role::Row && role != Role::Scalar});
    }
    for (View& output : problem_.outputs)
      operands_.push_back({&output, operand_batches_[i++], true});
  }

  void drop_axis(size_t axis) {
    batch_.erase(batch_.begin() + static_cast<ptrdiff_t>(axis));
    for (Strided& operand : operands_)
      operand.batch.erase(operand.batch.begin() + static_cast<ptrdiff_t>(axis));
  }

  template <class F>
  bool every_operand(F holds) const {
    return std::all_of(operands_.begin(), operands_.end(), [&](const Strided& operand) {
      return operand.view == nullptr || holds(operand);
    });
  }

  bool axes_merge(size_t outer) const {
    if (batch_[outer] * batch_[outer + 1] > kMostExtent) return false;
    return every_operand([&](const Strided& operand) {
      return operand.batch[outer] == operand.batch[outer + 1] * batch_[outer + 1];
    });
  }

  // Of one row the row stride is free to become the batch axis's.
  bool merges_into_rows() const {
    if (problem_.m * batch_.back() > kMostExtent) return false;
    return every_operand([&](const Strided& operand) {
      if (!operand.has_rows) return operand.batch.back() == 0;
      return problem_.m == 1 || operand.batch.back() == operand.view->row_stride * problem_.m;
    });
  }

  void merge_into_rows() {
    if (problem_.m == 1)
      for (Strided& operand : operands_)
        if (operand.view != nullptr && operand.has_rows)
          operand.view->row_stride = operand.batch.back();
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

  // The innermost axis left is the kernel's batch, the others are steps of launches.
  void keep_batches() {
    if (!batch_.empty()) {
      problem_.batch = batch_.back();
      for (Strided& operand : operands_)
        if (operand.view != nullptr) operand.view->batch_stride = operand.batch.back();
      drop_axis(batch_.size() - 1);
    }
    for (size_t axis = 0; axis < batch_.size(); ++axis) {
      OuterAxis outer{batch_[axis], {}};
      for (const Strided& operand : operands_) {
        outer.strides.push_back(operand.batch[axis]);
        if (operand.view != nullptr)
          operand.view->alignment = first_alignment(
              operand.view->alignment, operand.batch[axis] * ir::size_of(operand.view->dtype));
      }
      problem_.outer.push_back(std::move(outer));
    }
  }

  Status check_extents() const {
    std::vector<std::pair<const char*, int64_t>> extents = {
        {"M", problem_.m}, {"N", problem_.n}, {"the batch", problem_.batch}};
    for (const Product& product : problem_.products) {
      extents.emplace_back("K", product.k);
      extents.emplace_back("N", product.n);
    }
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
  std::vector<std::vector<int64_t>> product_batches_, scale_batches_, operand_batches_;
  std::vector<Strided> operands_;
};

// The same with a number in its place.
Result<ir::LaunchSize> numbered(const ir::LaunchSize& size, const ir::SymbolValues& symbols) {
  ATTACCA_TRY(const int64_t value, size.evaluate(symbols));
  return ir::LaunchSize{value};
}

}  // namespace

Result<KernelPart> concretize_kernel(const ir::Graph& graph, ir::Value kernel,
                                     const ir::SymbolValues& symbols,
                                     const AlignmentOf& alignment_of) {
  const ir::Node& node = graph[kernel];
  KernelPart part{.call = *node.attrs.kernel,
                  .stored = node.type.dtype,
                  .node = kernel,
                  .name = epilogue::display_name(graph, kernel),
                  .operands = {}};
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
  for (const ir::Value operand : node.operands) {
    const ir::Type& type = graph.type(operand);
    ATTACCA_TRY(const std::vector<int64_t> shape, numbers(type.shape, symbols));
    ATTACCA_TRY(std::vector<int64_t> strides, numbers(type.strides, symbols));
    if (type.strides.empty()) strides = ir::contiguous_strides(shape);
    int64_t span = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      span += (std::max<int64_t>(shape[axis], 1) - 1) * std::max<int64_t>(strides[axis], 0);
    part.operands.push_back({{.dtype = type.dtype,
                              .row_stride = span,
                              .column_stride = 1,
                              .alignment = first_alignment(alignment_of(operand), 0)},
                             span,
                             operand});
  }
  return part;
}

Result<Problem> concretize(const fuse::Region& region, const ir::Graph& graph,
                           const ir::SymbolValues& symbols, ir::Mode mode,
                           const AlignmentOf& alignment_of) {
  return Concretizer(region, symbols, alignment_of).run(graph, mode);
}

}  // namespace attacca::problem
