#include "tune/model/rates.hpp"

#include <algorithm>

namespace attacca::tune {

using templates::Template;

bool adds_up(const Template& kernel) {
  return ir::is_fp8(kernel.input_types.front()) && !kernel.fast_accumulation;
}

double element_bytes(const Template& kernel) {
  return double(ir::size_of(kernel.input_types.front()));
}

double product_rate(const Template& kernel, const Architecture& arch,
                    const gpu::DeviceInfo& device) {
  const ir::DType element = kernel.input_types.front();
  const gpu::DeviceRates& all = device.rates;
  double rate = (ir::is_fp8(element)         ? all.float8
                 : ir::size_of(element) == 1 ? all.s8
                                             : all.half) /
                device.sm_count;
  if (kernel.arch != arch.native) rate *= arch.tiles.mma_share;
  // Adding the sums of a tile waits for the tensor cores.
  return adds_up(kernel) ? rate * arch.tiles.separate_sums_share : rate;
}

double widening_cycles(const Template& kernel, const WideningFit& fit) {
  const double products = kernel.tile.m * kernel.tile.n / 32.0;
  return std::max(fit.product * products,
                  fit.product_beside * products + fit.widen * kernel.tile.n / 64.0);
}

}  // namespace attacca::tune
