#include "launch/arguments.hpp"

#include <cstdlib>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::launch {
namespace {

using epilogue::Place;
using templates::Template;

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

// The record in the arguments for a placed operand; nullptr if its place has none of this kind.
attacca_operand* operand_at(attacca_gemm_arguments& arguments, epilogue::Placement at) {
  const auto slot = static_cast<size_t>(at.slot);
  if (at.place == Place::Full) return &arguments.full[slot];
  if (at.place == Place::Result) return &arguments.result[slot];
  return at.place == Place::Context ? &arguments.context.operand[slot] : nullptr;
}
attacca_vector* vector_at(attacca_gemm_arguments& arguments, epilogue::Placement at) {
  const auto slot = static_cast<size_t>(at.slot);
  if (at.place == Place::Row) return &arguments.row[slot];
  return at.place == Place::Column ? &arguments.column[slot] : nullptr;
}

void set_strides(attacca_gemm_arguments& arguments, epilogue::Placement at,
                 const problem::View& view, bool swapped) {
  if (attacca_operand* record = operand_at(arguments, at)) *record = operand(view);
  // A swapped kernel's columns are the problem's rows.
  if (attacca_vector* record = vector_at(arguments, at))
    *record = vector(view, (at.place == Place::Row) != swapped);
}

void set_pointer(attacca_gemm_arguments& arguments, epilogue::Placement at, void* pointer) {
  if (attacca_operand* record = operand_at(arguments, at)) record->pointer = pointer;
  if (attacca_vector* record = vector_at(arguments, at)) record->pointer = pointer;
  if (at.place == Place::Maximum) arguments.maximum = pointer;
}

}  // namespace

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
    if (kernel.widened && problem.views.products[0].b.dtype == ir::DType::S8)
      arguments.packed.zero = 128;
    if (const auto& codes = problem.products[0].codes) {
      arguments.codes.block = codes->block;
      arguments.codes.zero = codes->zero;
      arguments.codes.has_zeros = codes->zeros;
      arguments.codes.is_signed = codes->is_signed;
    }
    if (const auto& scales = problem.views.products[0].scales) {
      arguments.scale_a = operand(scales->a);
      arguments.scale_b = operand(*factors[0].scales);
      if (factors.size() > 1) arguments.scale_b1 = operand(*factors[1].scales);
    }
    if (const auto& ends = problem.views.products[0].offsets) {
      arguments.groups = static_cast<int32_t>(*problem.products[0].groups);
      arguments.group_stride = ends->column_stride;
    }
    if (const auto& rows = problem.views.products[0].rows)
      arguments.a_rows = {nullptr, rows->column_stride,
                          static_cast<int32_t>(ir::size_of(rows->dtype)),
                          static_cast<int32_t>(*problem.products[0].rows)};
  }
  arguments.context.rows = arguments.m;
  arguments.context.columns = arguments.n;
  arguments.context.batches = arguments.batch;
  arguments.sm_count = sm_count;
  arguments.swizzle = candidate.swizzle;
  arguments.raster = candidate.raster;
  arguments.splits = candidate.splits;
  for (size_t i = 0; i < binding.inputs.size(); ++i)
    set_strides(arguments, binding.inputs[i], problem.views.inputs[i], kernel.hole.swapped);
  for (size_t i = 0; i < binding.outputs.size(); ++i)
    set_strides(arguments, binding.outputs[i], problem.views.outputs[i], kernel.hole.swapped);
  for (size_t i = 0; i < binding.indices.size(); ++i)
    *operand_at(arguments, binding.indices[i]) = {nullptr, problem.views.indices[i].row_stride, 0,
                                                  problem.named_rows[i]};
  return arguments;
}

namespace {

// A factor's first element of B, or the first code.
void* first_weight(const problem::Problem& problem, const problem::Factor& factor,
                   const problem::Addresses& at) {
  const auto& codes = problem.products[factor.product].codes;
  void* const b = at.products[factor.product].b;
  if (codes) return static_cast<char*>(b) + factor.b.offset * codes->bits / 8;
  return first_element(b, factor.b);
}

// The scales and zero points of a factor's first weights.
void set_codes(const problem::Problem& problem, const problem::Factor& factor,
               const problem::Addresses& at, attacca_codes& codes, size_t set) {
  const ir::CodeFormat& format = *problem.products[factor.product].codes;
  const auto& product = at.products[factor.product];
  const int64_t block = factor.b.offset / format.block;
  codes.scales[set] = static_cast<char*>(*product.code_scales) + block * ir::size_of(format.scales);
  if (format.zeros) codes.zeros[set] = static_cast<char*>(*product.code_zeros) + block;
}

}  // namespace

void FreeParameters::operator()(void* memory) const {
  std::free(memory);
}

ParameterMemory allocate_parameters(size_t bytes, size_t alignment) {
  ParameterMemory memory(
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
  ATTACCA_CHECK(memory != nullptr, "memory ran out");
  return memory;
}

Status build_parameters(const Template& kernel, const attacca_gemm_arguments& arguments,
                        void* parameters, uint32_t (&grid)[3]) {
  char reason[512] = "";
  if (kernel.builder->build(&arguments, parameters, grid, reason, sizeof reason) == 0) return {};
  return fail(fmt::format("{} cannot be launched: {}", kernel.name, reason), kernel.name,
              "give operands as aligned and strided as those that the plan was made for");
}

gpu::Launch launch_of(const Template& kernel, const uint32_t (&grid)[3]) {
  return {{grid[0], grid[1], grid[2]},
          {static_cast<uint32_t>(kernel.threads), 1, 1},
          static_cast<uint32_t>(kernel.shared_bytes),
          kernel.dependent_launch};
}

void* first_element(void* base, const problem::View& view) {
  return static_cast<char*>(base) + view.offset * ir::size_of(view.dtype);
}

void set_addresses(const problem::Problem& problem, std::span<const problem::Factor> factors,
                   const epilogue::Binding& binding, const problem::Addresses& at,
                   attacca_gemm_arguments& arguments) {
  const auto& views = problem.views;
  if (!factors.empty()) {
    arguments.a.pointer = first_element(at.products[0].a, views.products[0].a);
    arguments.b.pointer = first_weight(problem, factors[0], at);
    if (factors.size() > 1) arguments.b1.pointer = first_weight(problem, factors[1], at);
    for (size_t i = 0; i < factors.size(); ++i)
      if (problem.products[factors[i].product].codes)
        set_codes(problem, factors[i], at, arguments.codes, i);
    if (const auto& scales = views.products[0].scales) {
      arguments.scale_a.pointer = first_element(at.products[0].scales->a, scales->a);
      attacca_operand* const of_b[] = {&arguments.scale_b, &arguments.scale_b1};
      for (size_t i = 0; i < factors.size(); ++i)
        of_b[i]->pointer =
            first_element(at.products[factors[i].product].scales->b, *factors[i].scales);
    }
    if (const auto& ends = views.products[0].offsets)
      arguments.group_ends = first_element(*at.products[0].offsets, *ends);
    if (const auto& rows = views.products[0].rows)
      arguments.a_rows.pointer = first_element(*at.products[0].rows, *rows);
  }
  for (size_t i = 0; i < binding.inputs.size(); ++i)
    set_pointer(arguments, binding.inputs[i], first_element(at.inputs[i], views.inputs[i]));
  for (size_t i = 0; i < binding.outputs.size(); ++i)
    set_pointer(arguments, binding.outputs[i], first_element(at.outputs[i], views.outputs[i]));
  for (size_t i = 0; i < binding.indices.size(); ++i)
    set_pointer(arguments, binding.indices[i], first_element(at.indices[i], views.indices[i]));
}

}  // namespace attacca::launch
