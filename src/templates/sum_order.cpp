#include "templates/sum_order.hpp"

namespace attacca::templates {
namespace {

// Each tile's sum is made by the same warps, from the first value of k to the last.
bool is_in_sequence(const Template& kernel) {
  const bool is_whole = kernel.cluster_k == 1 && !kernel.stream_k;
  return is_whole &&
         (kernel.schedule == Schedule::Cooperative || kernel.schedule == Schedule::Pingpong ||
          kernel.schedule == Schedule::Multistage || kernel.schedule == Schedule::Elementwise);
}

}  // namespace

std::string sum_order(const Template& kernel) {
  if (kernel.hole.accumulator_type == ir::DType::S32) return "exact";
  if (!is_in_sequence(kernel) || kernel.packed_bits != 0) return kernel.name;
  if (ir::size_of(kernel.input_types.front()) == 2) return "steps of 16";
  // mma.sync's own steps of 8-bit floats were not compared with wgmma's.
  if (kernel.min_capability < 90) return kernel.name;
  return kernel.fast_accumulation ? "steps of 32" : "steps of 32, in f32 every 128";
}

}  // namespace attacca::templates
