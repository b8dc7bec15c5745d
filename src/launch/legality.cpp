#include "launch/legality.hpp"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

#include "launch/arguments.hpp"

namespace attacca::launch {
namespace {

using epilogue::Place;
using epilogue::Role;
using templates::Template;
using Reason = std::optional<std::string>;

// ---- What the metadata say

Reason device_reason(const Template& kernel, const gpu::DeviceInfo& device) {
  if (device.capability() < kernel.min_capability || device.capability() > kernel.max_capability)
    return fmt::format("made for compute capability {} to {}, the device has {}",
                       kernel.min_capability, kernel.max_capability, device.capability());
  if (device.max_shared_bytes < kernel.shared_bytes)
    return fmt::format("needs {} bytes of shared memory, a block has {}", kernel.shared_bytes,
                       device.max_shared_bytes);
  return std::nullopt;
}

// The template takes these packed weights.
Reason packed_reason(const problem::Problem& problem, const Template& kernel) {
  const problem::Product& product = problem.products[0];
  const auto& views = problem.views.products[0];
  const ir::Packing& packing = product.packed->packing;
  const bool floats = ir::is_float(packing.weights);
  if (packing.bits != kernel.packed_bits || floats != kernel.packed_floats ||
      ir::info(packing.scales).bits != kernel.packed_scale_bits)
    return fmt::format("made for {}-bit {} with {}-bit scales, the weights have {}",
                       kernel.packed_bits, kernel.packed_floats ? "floats" : "integers",
                       kernel.packed_scale_bits, to_string(packing));
  if (!takes(kernel, views.a.dtype)) return fmt::format("no {} inputs", name(views.a.dtype));
  if (packing.scales != ir::DType::F32 && !packing.whole() && packing.scales != views.a.dtype)
    return fmt::format("it takes scales of f32 or of A's dtype, not of {}", name(packing.scales));
  if (kernel.packed_rounds && views.b.dtype != views.a.dtype)
    return fmt::format("it rounds the weights to {}, which the graph unpacks to {}",
                       name(views.a.dtype), name(views.b.dtype));
  if (problem.mode == ir::Mode::Eager && !kernel.packed_rounds && views.b.dtype != ir::DType::F32)
    return fmt::format("it does not round the weights to {}, as eager mode does",
                       name(views.b.dtype));
  return std::nullopt;
}

// The template takes weights of these codes.
Reason codes_reason(const problem::Problem& problem, const Template& kernel) {
  const ir::CodeFormat& codes = *problem.products[0].codes;
  const ir::DType a = problem.views.products[0].a.dtype;
  if (codes.bits != kernel.code_bits || codes.mxfp4 != kernel.code_floats)
    return fmt::format(
        "made for {}, the weights are {}",
        kernel.code_floats ? "mxfp4" : fmt::format("integers of {} bits", kernel.code_bits),
        codes_name(codes));
  if (!takes(kernel, a)) return fmt::format("no {} inputs", name(a));
  if (codes.dtype != a)
    return fmt::format("it rounds the weights to {}, which the graph decodes to {}", name(a),
                       name(codes.dtype));
  if (!codes.mxfp4 && codes.scales != a)
    return fmt::format("it takes scales of A's dtype, not of {}", name(codes.scales));
  return std::nullopt;
}

// A kernel reads the weights of all products as it reads the first one's.
Reason others_reason(const problem::Problem& problem) {
  const problem::Product& first = problem.products[0];
  const auto& views = problem.views.products[0];
  for (size_t i = 1; i < problem.products.size(); ++i) {
    const problem::Product& other = problem.products[i];
    const auto& own = problem.views.products[i];
    if (own.b.dtype != views.b.dtype || own.scales.has_value() != views.scales.has_value() ||
        other.packed != first.packed || other.codes != first.codes)
      return "the products' weights differ in kind";
  }
  return std::nullopt;
}

// Kernels count bytes of a row, and columns of two products, in 32 bits, and round up to tiles.
constexpr int64_t kMostExtent = (int64_t{1} << 30) - 1;

// The template multiplies operands of this kind.
Reason product_reason(const problem::Problem& problem, const Template& kernel) {
  const problem::Product& product = problem.products[0];
  const auto& views = problem.views.products[0];
  if (product.k == 0) return "K is 0";
  if (std::max({problem.m, product.n, product.k}) > kMostExtent)
    return "an extent is too large: offsets into rows have 32 bits";
  if (Reason reason = others_reason(problem)) return reason;
  if (product.groups.has_value() != kernel.grouped)
    return kernel.grouped ? "it takes groups of rows alone"
                          : "it multiplies all rows by one matrix";
  if (product.rows.has_value() != kernel.gathered)
    return kernel.gathered ? "it takes rows by an index alone" : "it reads no rows by an index";
  if (product.codes.has_value() != (kernel.code_bits != 0))
    return product.codes ? "it does not widen weights in codes" : "it takes weights in codes alone";
  if (product.codes) return codes_reason(problem, kernel);
  if (product.packed.has_value() != (kernel.packed_bits != 0))
    return product.packed ? "it takes no packed weights" : "it takes packed weights alone";
  if (product.packed) return packed_reason(problem, kernel);
  if (problem::is_widened(views) != kernel.widened)
    return kernel.widened ? "it takes weights of bytes that it widens"
                          : "it does not widen weights of bytes";
  if (kernel.widened) {
    if (takes(kernel, views.a.dtype)) return std::nullopt;
    return fmt::format("no {} inputs", name(views.a.dtype));
  }
  if (views.scales.has_value() != kernel.scaled_blocks)
    return views.scales ? "it knows no scales of blocks" : "it takes blocks with scales alone";
  if (views.a.dtype != views.b.dtype && !kernel.mixed_inputs) return "the operands' dtypes differ";
  for (const ir::DType dtype : {views.a.dtype, views.b.dtype})
    if (!takes(kernel, dtype)) return fmt::format("no {} inputs", name(dtype));
  const bool fast = std::all_of(problem.products.begin(), problem.products.end(),
                                [](const problem::Product& each) { return each.fast; });
  if (kernel.fast_accumulation && !fast)
    return "its sums are short, and the product does not say fast=true";
  return std::nullopt;
}

// ---- Of a batch-invariant problem: the order in which the template sums a row's products

// The order must follow from the template, N, K and the column alone. It does where one block, or
// blocks that always divide K in the same way, compute a whole tile.
Reason invariance_reason(const Template& kernel) {
  if (kernel.hole.accumulator_type == ir::DType::S32) return std::nullopt;  // exact in any order
  if (kernel.stream_k)
    return "batch_invariant: it divides K by the number of tiles, which depends on M";
  if (kernel.schedule == templates::Schedule::SharedTail)
    return "batch_invariant: it divides K of the last tiles, and which they are depends on M";
  // Each of the blocks that share a tile's K finishes some of the kernel's rows, and begins with
  // its own sum. The sum of two does not depend on which is first. Where B comes first, the
  // kernel's rows are the problem's columns.
  if (kernel.cluster_k > 2 && !kernel.b_first)
    return "batch_invariant: the order of its sums depends on the row's place in a tile";
  return std::nullopt;
}

// ---- What the hole takes

// Whether a tensor map (16-byte steps) or a vector access of `align` bytes can walk the operand.
bool dense_rows(const problem::View& view, int align, const problem::Problem& problem) {
  const bool one_row = problem.m == 1 && !problem.batch_invariant;
  const auto divides = [&](int64_t stride) {
    return stride * ir::size_of(view.dtype) % align == 0;
  };
  return (view.column_stride == 1 || problem.n == 1) && view.row_stride >= 0 &&
         (view.row_stride > 0 || one_row) && view.alignment >= align && divides(view.row_stride) &&
         view.batch_stride >= 0 && divides(view.batch_stride);
}

epilogue::PlacementLimits limits_of(const problem::Problem& problem, const Template& kernel) {
  const auto goes_through_context = [&](const problem::View& view) {
    return !kernel.any_strides && !dense_rows(view, kernel.align_d, problem);
  };
  epilogue::PlacementLimits limits;
  for (size_t i = 0; i < problem.views.inputs.size(); ++i)
    limits.context_inputs.push_back(problem.epilogue.inputs[i].role == Role::Full &&
                                    goes_through_context(problem.views.inputs[i]));
  for (const problem::View& view : problem.views.outputs)
    limits.context_outputs.push_back(goes_through_context(view));
  return limits;
}

// A kernel multiplies one A, and its accumulators are all of the problem's columns.
Reason accumulators_reason(const problem::Problem& problem, const Template& kernel) {
  for (size_t i = 1; i < problem.products.size(); ++i)
    if (!problem.repeats_first_a(i)) return "the products do not share A";
  if (kernel.hole.accumulators == 1 && problem.products[0].n != problem.n)
    return "the epilogue reads a part of the product's columns";
  return std::nullopt;
}

// ---- What the builder checks

// Addresses for the builder's check before there is memory: far from each other, and with first
// elements exactly as aligned as the problem says.
problem::Addresses least_aligned(const problem::Problem& problem) {
  constexpr int64_t kApart = int64_t{1} << 46;
  int64_t address = 0;
  return map(
      [&](const problem::View& view) {
        address += kApart;
        return reinterpret_cast<void*>(address + view.alignment -
                                       view.offset * ir::size_of(view.dtype));
      },
      problem.views);
}

Reason builder_reason(const problem::Problem& problem, const Template& kernel,
                      const epilogue::Binding& binding, const Candidate& candidate, int sm_count) {
  attacca_gemm_arguments arguments = describe(problem, kernel, binding, candidate, sm_count);
  set_addresses(problem, problem.factors(), binding, least_aligned(problem), arguments);
  char reason[512] = "";
  if (problem.batch_invariant)
    for (const int64_t rows : kRowCounts) {
      attacca_gemm_arguments other = arguments;
      other.m = other.context.rows = static_cast<int32_t>(rows);
      if (kernel.builder->check(&other, reason, sizeof reason) != 0)
        return fmt::format("batch_invariant: it does not take {} row{}: {}", rows,
                           rows == 1 ? "" : "s", reason);
    }
  if (kernel.builder->check(&arguments, reason, sizeof reason) == 0) return std::nullopt;
  return reason;
}

// Null: the candidate is of none.
const Template* template_of(const Candidate& candidate, const templates::Catalog& catalog) {
  return candidate.kind == CandidateKind::Fused ? catalog.find(candidate.kernel) : nullptr;
}

}  // namespace

Legality legality(const problem::Problem& problem, const Template& kernel,
                  const gpu::DeviceInfo& device, const Candidate& candidate) {
  if (names_rows(problem) && !kernel.gathered)
    return legality(with_gathered_rows(problem), kernel, device, candidate);
  if (has_codes(problem) && kernel.code_bits == 0)
    return legality(with_widened_weights(problem), kernel, device, candidate);
  if (Reason reason = device_reason(kernel, device)) return *std::move(reason);
  const bool multiplies = kernel.family == templates::Family::Gemm;
  if (multiplies) {
    if (Reason reason = product_reason(problem, kernel)) return *std::move(reason);
    if (problem.batch_invariant)
      if (Reason reason = invariance_reason(kernel)) return *std::move(reason);
  }
  if (reads_by_group(problem) && !kernel.grouped) return "it knows no groups of rows";
  auto bound = epilogue::bind(problem.epilogue, kernel.hole, limits_of(problem, kernel));
  if (auto* reason = std::get_if<std::string>(&bound)) return std::move(*reason);
  auto binding =
      std::make_shared<const epilogue::Binding>(std::get<epilogue::Binding>(std::move(bound)));
  if (multiplies)
    if (Reason reason = accumulators_reason(problem, kernel)) return *std::move(reason);
  if (Reason reason = builder_reason(problem, kernel, *binding, candidate, device.sm_count))
    return *std::move(reason);
  return binding;
}

bool numbers_before(const problem::Problem& problem, const Candidate& candidate) {
  return reads_by_group(problem) && candidate.kind != CandidateKind::Fused;
}

bool gathers_before(const problem::Problem& problem, const Candidate& candidate,
                    const templates::Catalog& catalog) {
  if (!names_rows(problem)) return false;
  const Template* kernel = template_of(candidate, catalog);
  return kernel == nullptr || !kernel->gathered;
}

bool widens_before(const problem::Problem& problem, const Candidate& candidate,
                   const templates::Catalog& catalog) {
  if (!has_codes(problem)) return false;
  const Template* kernel = template_of(candidate, catalog);
  return kernel == nullptr || kernel->code_bits == 0;
}

Result<Candidate> resolve(Candidate candidate, const problem::Problem& problem,
                          const templates::Catalog& catalog, const gpu::DeviceInfo& device) {
  if (candidate.kind != CandidateKind::Fused || problem.kernel || candidate.binding)
    return candidate;
  const Template* kernel = catalog.find(candidate.kernel);
  if (kernel == nullptr)
    return fail(fmt::format("no template {}", candidate.kernel), candidate.kernel,
                "list them with `attacca doctor`, build them with `make gpu`");
  Legality legal = legality(problem, *kernel, device, candidate);
  if (const auto* reason = std::get_if<std::string>(&legal))
    return fail(fmt::format("{} cannot compute this problem: {}", kernel->name, *reason),
                kernel->name, "choose another candidate");
  candidate.binding = std::get<0>(std::move(legal));
  return candidate;
}

int context_operands(const problem::Problem& problem, const epilogue::Binding& binding) {
  int count = 0;
  for (size_t i = 0; i < binding.inputs.size(); ++i) {
    const epilogue::Input& input = problem.epilogue.inputs[i];
    count += binding.inputs[i].place == Place::Context && input.role == Role::Full && !input.rows;
  }
  for (const epilogue::Placement& output : binding.outputs) count += output.place == Place::Context;
  return count;
}

}  // namespace attacca::launch
