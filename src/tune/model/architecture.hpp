// What the cost model assumes of an architecture beyond the figures of a device
// (gpu/devices.def): one object an architecture, whose constants are fits of measurements.
#pragma once

#include "gpu/devices.hpp"

namespace attacca::tune {

// Kernels that multiply tiles by tensor cores.
struct TileFit {
  double mma_share;            // of the device's product rate that mma.sync reaches
  double separate_sums_share;  // of that rate, where each tile of k has sums of its own
  double fill;                 // bytes a second into one multiprocessor's shared memory
  double gather_share;         // of that where operands are gathered, element by element
  double launch;               // seconds that a kernel takes before and after its tiles
  double finish;               // seconds of a tile's epilogue that overlap with nothing
  double finish_shared;        // likewise, where a cluster adds its parts of K
  double stream_k;             // factor of a kernel whose blocks share K
  double empty_slot;           // part of the time that an unused slot of a full operand adds
  double context_operand;      // part of the time that an operand without a slot adds
};

// Few rows times packed weights, which stream through the multiprocessors once for each tile of
// rows. A rate is the number of weights that one multiprocessor unpacks in a second.
struct StreamingFit {
  double cycles;                          // of the device, a second, that the rates are for
  double of_8_rows, of_16_rows, of_more;  // tiles of so many rows
  double eight_bits;                      // factor of codes of 8 bits
  double warps, warps_power;              // that a multiprocessor needs for that rate
  double memory_share;                    // of the device's memory rate
  double launch, wave, cluster;           // seconds: of a kernel, of each wave, of a cluster's sum
  double threads;                         // of a multiprocessor, by registers
};

// Many rows times packed weights: each warpgroup of a tile unpacks 64 columns of weights while it
// multiplies. In cycles of a stage.
struct WideningFit {
  double product, product_beside, widen;  // 32 products, the same while unpacking, unpacking
  double pingpong_alone, wide_alone, narrow_alone;  // the least of one tile, by its latencies
  double cluster_again, cluster_once;               // factors of shared loads, by rounds
  double memory_share;
  double launch, round, cluster_k;  // seconds
};

// Dot products: weights are read once. Their rate depends on the number of threads that load.
struct DotFit {
  double threads;       // of a multiprocessor, that reach the rate
  double memory_share;  // of the device's memory rate
  double row;           // part of the time that each further row of the kernel costs
  double launch;        // seconds
};

// Tiles whose rows belong to one group, and whose weights are mostly read once.
struct GroupedFit {
  double fill;             // bytes a second into one multiprocessor's shared memory
  double gathered_row;     // factor of the bytes of a row that a kernel gathers
  double finish;           // seconds of an element of a tile's epilogue
  double fitted_finish;    // factor of these where the tile is fitted to its rows
  double pingpong;         // part of a tile's products and epilogue that warpgroups in turn take
  double context_operand;  // part of these seconds that an operand without a slot adds
  double in_flight;        // part of the memory's time that loads of A's rows add to weights'
  double again;            // factor of the bytes of weights that are read once more
  double memory_share;     // of the device's memory rate
  double not_hidden;       // part of the shorter one of the tiles' time and the memory's
};

struct Architecture {
  int capability = 0;       // of devices from this compute capability on
  const char* native = "";  // the target of templates that use its own matrix instructions
  bool learned = false;     // the trees of ranking_tree.hpp were trained on it
  TileFit tiles = {};
  StreamingFit streaming = {};
  WideningFit widening = {};
  DotFit dot = {};
  GroupedFit grouped = {};
};

// That of the device's compute capability, else of the latest before it.
const Architecture& architecture_of(const gpu::DeviceInfo& device);

}  // namespace attacca::tune
