#include "tune/model/architecture.hpp"

#include <algorithm>

namespace attacca::tune {
namespace {

// H100, H200: everything was fitted on an H200.
constexpr Architecture kHopper = {
    .capability = 90,
    .native = "sm_90a",
    .learned = true,
    // bench/data/candidates.csv; the trees correct what is left.
    .tiles = {.mma_share = 0.5,
              .separate_sums_share = 0.75,
              .fill = 5.5e10,
              .gather_share = 0.1,
              .launch = 4e-6,
              .finish = 1.5e-6,
              .finish_shared = 2.5e-6,
              .stream_k = 1.05,
              .empty_slot = 0.03,
              .context_operand = 0.25},
    // 17 problems of 1 to 16 rows: its choices take 1.007 times as long as the best (geometric
    // mean).
    .streaming = {.cycles = 1.755e9,
                  .of_8_rows = 95e9,
                  .of_16_rows = 70e9,
                  .of_more = 42e9,
                  .eight_bits = 0.73,
                  .warps = 10,
                  .warps_power = 0.8,
                  .memory_share = 13.0 / 14,  // 3.9 of 4.2 TB/s
                  .launch = 1e-6,
                  .wave = 2.9e-6,
                  .cluster = 2e-6,
                  .threads = 512},
    // 64 kernels of 4 problems of 32 to 256 rows: it chooses the best of each; the times of the
    // better half are off by 8 %.
    .widening = {.product = 1.05,
                 .product_beside = 0.6,
                 .widen = 150,
                 .pingpong_alone = 730,
                 .wide_alone = 620,
                 .narrow_alone = 420,
                 .cluster_again = 0.98,
                 .cluster_once = 1.02,
                 .memory_share = 13.0 / 14,  // 3.9 of 4.2 TB/s
                 .launch = 3e-6,
                 .round = 2e-6,
                 .cluster_k = 1e-6},
    // 21 problems of 1 and 2 rows, off by 11 % at most: plain loads are faster than tiles. A kernel
    // computes all its rows, needed or not: for 4 rows other kernels won.
    .dot = {.threads = 256, .memory_share = 1.07, .row = 0.05, .launch = 2.5e-6},
    // bench/data/grouped.jsonl: its choices take 1.02 times as long as the best (geometric mean).
    .grouped = {.fill = 8.8e10,
                .gathered_row = 1.77,
                .finish = 1.35e-10,
                .fitted_finish = 0.835,
                .pingpong = 0.935,
                .context_operand = 1.2,
                .in_flight = 0.129,
                .again = 2.27,
                .memory_share = 1.29,
                .not_hidden = 0.505},
};

// Not measured: Hopper's constants, except those that are given.
constexpr Architecture like_hopper(int capability, const char* native, double mma_share) {
  Architecture architecture = kHopper;
  architecture.capability = capability;
  architecture.native = native;
  architecture.learned = false;
  architecture.tiles.mma_share = mma_share;
  return architecture;
}

// mma.sync is the matrix instruction of A100, L40S and the GeForce devices. On B200 it is taken to
// do as much a cycle as on Hopper, a quarter of the device's rate.
constexpr Architecture kArchitectures[] = {
    like_hopper(80, "sm_80", 1),       like_hopper(89, "sm_89", 1),    kHopper,
    like_hopper(100, "sm_100a", 0.25), like_hopper(120, "sm_120a", 1),
};

}  // namespace

const Architecture& architecture_of(const gpu::DeviceInfo& device) {
  const auto* after =
      std::find_if(std::begin(kArchitectures) + 1, std::end(kArchitectures),
                   [&](const Architecture& each) { return each.capability > device.capability(); });
  return *(after - 1);
}

}  // namespace attacca::tune
