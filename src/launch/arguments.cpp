#include "launch/arguments.hpp"

#include <algorithm>
#include <cstdlib>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::launch {
namespace {

using epilogue::Place;
using epilogue::Role;
using templates::Template;

bool divides(int64_t stride, int bytes, ir::DType dtype) {
  return stride * ir::size_of(dtype) % bytes == 0;
}

// Whether a tensor map (16-byte steps) or a vector access of `align` bytes can walk the operand.
bool dense_rows(const problem::View& view, int align, const problem::Problem& problem) {
  return (view.column_stride == 1 || problem.n == 1) && view.row_stride >= 0 &&
         (view.row_stride > 0 || problem.m == 1) && view.alignment >= align &&
         divides(view.row_stride, align, view.dtype) && view.batch_stride >= 0 &&
         divides(view.batch_stride, align, view.dtype);
}

// Row-major seen along `major`: the other stride is 1.
bool walks(const problem::View& view, bool columns_contiguous, int align, int64_t rows,
           int64_t columns) {
  const int64_t unit = columns_contiguous ? view.column_stride : view.row_stride;
  const int64_t leading = columns_contiguous ? view.row_stride : view.column_stride;
  const int64_t unit_extent = columns_contiguous ? columns : rows;
  const int64_t leading_extent = columns_contiguous ? rows : columns;
  return (unit == 1 || unit_extent == 1) && (leading > 0 || leading_extent == 1) &&
         divides(leading, align, view.dtype) && view.batch_stride >= 0 &&
         divides(view.batch_stride, align, view.dtype) && view.alignment >= align;
}

// `axis`: of the operand, that the template wants contiguous.
std::string layout_reason(const char* which, const char* axis, const problem::View& view,
                          int align) {
  return fmt::format(
      "{} has strides {}, {}, batch stride {} and alignment {}, the template wants {} contiguous "
      "and {}-byte steps",
      which, view.row_stride, view.column_stride, view.batch_stride, view.alignment, axis, align);
}

bool shares_a(const problem::Problem& problem) {
  for (size_t i = 1; i < problem.products.size(); ++i)
    if (!problem.repeats_first_a(i)) return false;
  return true;
}

// Empty: the template computes as many products as the region has, of one A. Two of them are a
// gate's, of two weights or of two column sets of one.
std::string count_reason(const problem::Problem& problem, const Template& kernel) {
  const std::vector<problem::Factor> factors = problem.factors();
  if (kernel.hole.accumulators == 1) {
    if (problem.products.size() != 1) return "one product a template, the region has several";
    if (problem.products[0].n != problem.n)
      return "the epilogue reads a part of the product's columns";
  }
  if (factors.size() != static_cast<size_t>(kernel.hole.accumulators))
    return fmt::format("the epilogue reads {} accumulators, the kernel hands over {}",
                       factors.size(), kernel.hole.accumulators);
  if (!shares_a(problem)) return "the products do not share A";
  return {};
}

// Whether a gate's factors are the alternate columns of one matrix of 16-byte steps.
bool alternate_columns(const std::vector<problem::Factor>& factors, int align) {
  const problem::View &first = factors[0].b, &second = factors[1].b;
  const problem::View& even = first.offset < second.offset ? first : second;
  return factors[0].product == factors[1].product && std::abs(first.offset - second.offset) == 1 &&
         even.column_stride == 2 && even.row_stride > 0 &&
         divides(even.row_stride, align, even.dtype) && even.batch_stride >= 0 &&
         divides(even.batch_stride, align, even.dtype) && even.alignment >= align;
}

// Empty: the template takes these packed weights.
std::string packed_reason(const problem::Problem& problem, const Template& kernel) {
  const problem::Product& product = problem.products[0];
  const auto& views = problem.views.products[0];
  const ir::Packing& packing = product.packed->packing;
  const bool floats = ir::is_float(packing.weights);
  if (packing.bits != kernel.packed_bits || floats != kernel.packed_floats ||
      ir::info(packing.scales).bits != kernel.packed_scale_bits)
    return fmt::format("made for {}-bit {} with {}-bit scales, the weights have {}",
                       kernel.packed_bits, kernel.packed_floats ? "floats" : "integers",
                       kernel.packed_scale_bits, to_string(packing));
  if (std::find(kernel.input_types.begin(), kernel.input_types.end(), views.a.dtype) ==
      kernel.input_types.end())
    return fmt::format("no {} inputs", name(views.a.dtype));
  if (packing.scales != ir::DType::F32 && packing.scales != views.a.dtype)
    return fmt::format("it takes scales of f32 or of A's dtype, not of {}", name(packing.scales));
  if (kernel.packed_rounds && views.b.dtype != views.a.dtype)
    return fmt::format("it rounds the weights to {}, which the graph unpacks to {}",
                       name(views.a.dtype), name(views.b.dtype));
  if (problem.mode == ir::Mode::Eager && !kernel.packed_rounds && views.b.dtype != ir::DType::F32)
    return fmt::format("it does not round the weights to {}, as eager mode does",
                       name(views.b.dtype));
  if (problem.batch != 1) return "packed weights are one matrix, the product has batches";
  if (views.b.alignment < kernel.align_b)
    return fmt::format("the packed tensor must be at a multiple of {} bytes", kernel.align_b);
  if (!walks(views.a, true, kernel.align_a, problem.m, product.k))
    return layout_reason("A", "K", views.a, kernel.align_a);
  return {};
}

// Empty: the template multiplies these operands.
std::string product_reason(const problem::Problem& problem, const Template& kernel) {
  if (std::string reason = count_reason(problem, kernel); !reason.empty()) return reason;
  const problem::Product& product = problem.products[0];
  const auto& views = problem.views.products[0];
  if (product.k == 0) return "K is 0";
  if (product.packed.has_value() != (kernel.packed_bits != 0))
    return product.packed ? "it takes no packed weights" : "it takes packed weights alone";
  if (product.packed) return packed_reason(problem, kernel);
  if (views.scales.has_value() != kernel.scaled_blocks)
    return views.scales ? "it knows no scales of blocks" : "it takes blocks with scales alone";
  if (views.a.dtype != views.b.dtype && !kernel.mixed_inputs) return "the operands' dtypes differ";
  for (const ir::DType dtype : {views.a.dtype, views.b.dtype})
    if (std::find(kernel.input_types.begin(), kernel.input_types.end(), dtype) ==
        kernel.input_types.end())
      return fmt::format("no {} inputs", name(dtype));
  if (kernel.fast_accumulation && !product.fast)
    return "its sums are short, and the product does not say fast=true";
  if (kernel.any_strides) return {};
  if (!walks(views.a, kernel.a_k_major, kernel.align_a, problem.m, product.k))
    return layout_reason("A", kernel.a_k_major ? "K" : "M", views.a, kernel.align_a);
  if (kernel.alternate_columns)
    return alternate_columns(problem.factors(), kernel.align_b)
               ? ""
               : "the weights are not alternate columns of one matrix in 16-byte steps";
  for (const problem::Factor& factor : problem.factors())
    if (!walks(factor.b, !kernel.b_k_major, kernel.align_b, product.k, problem.n))
      return layout_reason("B", kernel.b_k_major ? "K" : "N", factor.b, kernel.align_b);
  return {};
}

epilogue::PlacementLimits limits_of(const problem::Problem& problem, const Template& kernel) {
  epilogue::PlacementLimits limits;
  for (size_t i = 0; i < problem.views.inputs.size(); ++i)
    limits.context_inputs.push_back(problem.epilogue.inputs[i].role == Role::Full &&
                                    !kernel.any_strides &&
                                    !dense_rows(problem.views.inputs[i], kernel.align_d, problem));
  for (const problem::View& view : problem.views.outputs)
    limits.context_outputs.push_back(!kernel.any_strides &&
                                     !dense_rows(view, kernel.align_d, problem));
  return limits;
}

attacca_packed packed(const ir::PackedLayout& layout) {
  attacca_packed result{};
  result.scales_at = layout.scales_at;
  result.zeros_at = layout.zeros_at;
  result.groups = static_cast<int32_t>(layout.groups);
  result.group = static_cast<int32_t>(layout.packing.group);
  result.zero = layout.zero();
  result.has_zeros = layout.packing.zeros;
  return result;
}

attacca_operand operand(const problem::View& view) {
  return {nullptr, view.row_stride, view.column_stride, view.batch_stride};
}

// A vector along the kernel's columns (row slot) or rows (column slot).
attacca_vector vector(const problem::View& view, bool along_columns) {
  return {nullptr, along_columns ? view.column_stride : view.row_stride, view.batch_stride,
          static_cast<int32_t>(ir::size_of(view.dtype)), 0};
}

// Where a placed operand's record is in the arguments.
struct Slots {
  attacca_gemm_arguments& arguments;
  void put(epilogue::Placement at, const problem::View& view, bool swapped) {
    const auto slot = static_cast<size_t>(at.slot);
    switch (at.place) {
      case Place::Accumulator:
        return;
      case Place::Full:
        arguments.full[slot] = operand(view);
        return;
      case Place::Result:
        arguments.result[slot] = operand(view);
        return;
      case Place::Context:
        arguments.context.operand[slot] = operand(view);
        return;
      case Place::Maximum:
        return;
      // A swapped kernel's columns are the problem's rows.
      case Place::Row:
        arguments.row[slot] = vector(view, !swapped);
        return;
      case Place::Column:
        arguments.column[slot] = vector(view, swapped);
        return;
    }
  }
  void point(epilogue::Placement at, void* pointer) {
    const auto slot = static_cast<size_t>(at.slot);
    switch (at.place) {
      case Place::Accumulator:
        return;
      case Place::Full:
        arguments.full[slot].pointer = pointer;
        return;
      case Place::Result:
        arguments.result[slot].pointer = pointer;
        return;
      case Place::Context:
        arguments.context.operand[slot].pointer = pointer;
        return;
      case Place::Maximum:
        arguments.maximum = pointer;
        return;
      case Place::Row:
        arguments.row[slot].pointer = pointer;
        return;
      case Place::Column:
        arguments.column[slot].pointer = pointer;
        return;
    }
  }
};

}  // namespace

std::variant<epilogue::Binding, std::string> place(const problem::Problem& problem,
                                                   const Template& kernel,
                                                   const gpu::DeviceInfo& device) {
  if (device.capability() < kernel.min_capability || device.capability() > kernel.max_capability)
    return fmt::format("made for compute capability {} to {}, the device has {}",
                       kernel.min_capability, kernel.max_capability, device.capability());
  if (device.max_shared_bytes < kernel.shared_bytes)
    return fmt::format("needs {} bytes of shared memory, a block has {}", kernel.shared_bytes,
                       device.max_shared_bytes);
  if (kernel.family == templates::Family::Gemm)
    if (std::string reason = product_reason(problem, kernel); !reason.empty()) return reason;
  return epilogue::bind(problem.epilogue, kernel.hole, limits_of(problem, kernel));
}

int context_operands(const problem::Problem& problem, const epilogue::Binding& binding) {
  int count = 0;
  for (size_t i = 0; i < binding.inputs.size(); ++i)
    count +=
        binding.inputs[i].place == Place::Context && problem.epilogue.inputs[i].role == Role::Full;
  for (const epilogue::Placement& output : binding.outputs) count += output.place == Place::Context;
  return count;
}

attacca_gemm_arguments describe(const problem::Problem& problem, const Template& kernel,
                                const epilogue::Binding& binding, const Candidate& candidate,
                                int sm_count) {
  attacca_gemm_arguments arguments{};
  arguments.m = static_cast<int32_t>(problem.m);
  arguments.n = static_cast<int32_t>(problem.n);
  arguments.batch = static_cast<int32_t>(problem.batch);
  if (!problem.products.empty()) {
    arguments.k = static_cast<int32_t>(problem.products[0].k);
    arguments.a = operand(problem.views.products[0].a);
    const std::vector<problem::Factor> factors = problem.factors();
    arguments.b = operand(factors[0].b);
    if (factors.size() > 1) arguments.b1 = operand(factors[1].b);
    if (problem.products[0].packed) arguments.packed = packed(*problem.products[0].packed);
    if (const auto& scales = problem.views.products[0].scales) {
      arguments.scale_a = operand(scales->a);
      arguments.scale_b = operand(scales->b);
    }
  }
  arguments.context.rows = arguments.m;
  arguments.context.columns = arguments.n;
  arguments.context.batches = arguments.batch;
  arguments.sm_count = sm_count;
  arguments.swizzle = candidate.swizzle;
  arguments.raster = candidate.raster;
  arguments.splits = candidate.splits;
  Slots slots{arguments};
  for (size_t i = 0; i < binding.inputs.size(); ++i)
    slots.put(binding.inputs[i], problem.views.inputs[i], kernel.hole.swapped);
  for (size_t i = 0; i < binding.outputs.size(); ++i)
    slots.put(binding.outputs[i], problem.views.outputs[i], kernel.hole.swapped);
  return arguments;
}

void* first_element(void* base, const problem::View& view) {
  return static_cast<char*>(base) + view.offset * ir::size_of(view.dtype);
}

void set_addresses(const problem::Problem& problem, const epilogue::Binding& binding,
                   const problem::Addresses& at, attacca_gemm_arguments& arguments) {
  const problem::Operands<void*> first = map(first_element, at, problem.views);
  if (!problem.products.empty()) {
    arguments.a.pointer = first.products[0].a;
    const std::vector<problem::Factor> factors = problem.factors();
    const auto b = [&](const problem::Factor& factor) {
      return first_element(at.products[factor.product].b, factor.b);
    };
    arguments.b.pointer = b(factors[0]);
    if (factors.size() > 1) arguments.b1.pointer = b(factors[1]);
    if (const auto& scales = first.products[0].scales) {
      arguments.scale_a.pointer = scales->a;
      arguments.scale_b.pointer = scales->b;
    }
  }
  Slots slots{arguments};
  for (size_t i = 0; i < binding.inputs.size(); ++i)
    slots.point(binding.inputs[i], first.inputs[i]);
  for (size_t i = 0; i < binding.outputs.size(); ++i)
    slots.point(binding.outputs[i], first.outputs[i]);
}

}  // namespace attacca::launch
