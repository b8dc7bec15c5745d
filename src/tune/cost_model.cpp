#include "tune/cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "launch/arguments.hpp"
#include "tune/ranking_tree.hpp"

namespace attacca::tune {
namespace {

using templates::Template;

double divide_up(double a, double b) {
  return std::ceil(a / b);
}

// Rates of one multiprocessor of the device class, from docs of the device and our own timings; the
// model ranks, it does not promise.
struct Rates {
  double flops;        // a second, of one multiprocessor
  double shared_fill;  // bytes a second into one multiprocessor's shared memory
  double memory;       // bytes a second, of the device
  double launch;       // seconds that a kernel takes before and after its tiles
};

double element_bytes(const Template& kernel) {
  return double(ir::size_of(kernel.input_types.front()));
}

bool adds_up(const Template& kernel) {
  return ir::is_fp8(kernel.input_types.front()) && !kernel.fast_accumulation;
}

Rates rates_of(const Template& kernel, const gpu::DeviceInfo& device) {
  const bool hopper = device.major == 9;
  Rates rates{.flops = hopper ? 6.2e12 : 2.4e12,
              .shared_fill = 5.5e10,
              .memory = hopper ? 4.2e12 : 1.5e12,
              .launch = 4e-6};
  if (element_bytes(kernel) == 1) rates.flops *= 1.9;
  // mma.sync reaches about half of wgmma's rate on sm_90.
  if (hopper && kernel.arch != "sm_90a") rates.flops *= 0.5;
  // Sums of their own for each tile of k wait for the tensor cores.
  if (adds_up(kernel)) rates.flops *= 0.75;
  if (kernel.any_strides) rates.shared_fill /= 10;
  return rates;
}

// Tiles, those that pad clusters counted, over the places for them.
double tiles_over_places(const problem::Problem& problem, const Template& kernel,
                         const gpu::DeviceInfo& device) {
  const bool swapped = kernel.hole.swapped;
  const double rows = double(swapped ? problem.n : problem.m);
  const double columns = double(swapped ? problem.m : problem.n);
  const double cluster = kernel.cluster_m * kernel.cluster_n * kernel.cluster_k;
  const double tiles = divide_up(divide_up(rows, kernel.tile.m), kernel.cluster_m) *
                       kernel.cluster_m *
                       divide_up(divide_up(columns, kernel.tile.n), kernel.cluster_n) *
                       kernel.cluster_n * kernel.cluster_k * double(problem.batch);
  return tiles / (std::floor(device.sm_count / cluster) * cluster);
}

double used_slots(const epilogue::Binding& binding) {
  return double(std::count_if(
      binding.inputs.begin(), binding.inputs.end(),
      [](const epilogue::Placement& input) { return input.place == epilogue::Place::Full; }));
}

// A factor: an unused slot costs shared memory, so stages; an operand by the context costs time.
double slots_cost(const problem::Problem& problem, const Template& kernel,
                  const epilogue::Binding& binding) {
  return 1 + 0.03 * (double(kernel.hole.full_bits.size()) - used_slots(binding)) +
         0.25 * launch::context_operands(problem, binding);
}

// Packed weights stream through the multiprocessors, once for each tile of rows. The constants were
// fitted to 17 problems of 1 to 16 rows on an H200: what they choose takes 1.007 times the best by
// geometric mean.
double streaming_seconds(const problem::Problem& problem, const Template& kernel,
                         const gpu::DeviceInfo& device) {
  const double rows = divide_up(double(problem.m), kernel.tile.m);
  const double k = double(problem.products[0].k) / kernel.cluster_n;
  const double places = std::max(
      1.0, std::floor(std::min(double(device.max_shared_bytes) / (kernel.shared_bytes + 1024),
                               512.0 / kernel.threads)));  // of a multiprocessor, by registers
  // Products of columns and values of k that a multiprocessor converts a second, with warps enough.
  const double rate = (kernel.tile.m <= 8    ? 95e9
                       : kernel.tile.m <= 16 ? 70e9
                                             : 42e9) *
                      (kernel.packed_bits == 8 ? 0.73 : 1.0);
  double convert = 0, waves = 0;
  for (double left = divide_up(double(problem.n), kernel.tile.n) * kernel.cluster_n * rows;
       left > 0; ++waves) {
    const double resident = std::min(places, divide_up(left, device.sm_count));
    const double busy = std::min(1.0, resident * kernel.threads / 32 / 10);
    convert += resident * kernel.tile.n * k / (rate * std::pow(busy, 0.8));
    left -= places * device.sm_count;
  }
  const double memory = std::sqrt(rows) * double(problem.products[0].packed->bytes) / 3.9e12;
  return 1e-6 + std::max(convert, memory) + 2.9e-6 * waves + (kernel.cluster_n > 1 ? 2e-6 : 0.0);
}

// Packed weights of many rows: beside the products of a tile, its warpgroups widen 64 columns of
// weights each. The constants, cycles of a stage, were fitted to what 64 kernels took of 4 problems
// of 32 to 256 rows on an H200: it chooses the best of each, and is off by 8 % for the better
// half.
double widening_seconds(const problem::Problem& problem, const Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  constexpr double kCycle = 1 / 1.755e9;
  const double stages = divide_up(double(problem.products[0].k), kernel.tile.k) / kernel.cluster_k;
  const double products = kernel.tile.m * kernel.tile.n / 32.0;
  const double tile = std::max(1.05 * products, 0.6 * products + 150 * kernel.tile.n / 64.0);
  const double places =
      std::max(1.0, std::floor(double(device.max_shared_bytes) / (kernel.shared_bytes + 1024)));
  double cycles = 0, rounds = 0;
  if (kernel.schedule == "shared_tail") {
    rounds = waves(problem, kernel, 1, device);
    // One by one, as below: kernels that differ in the tail alone tie where there is none.
    for (double left = rounds; left > 0; --left) cycles += std::min(left, 1.0) * stages * tile;
  } else {
    for (double left = divide_up(double(problem.m), kernel.tile.m) *
                       divide_up(double(problem.n), kernel.tile.n) * kernel.cluster_k;
         left > 0; left -= places * device.sm_count, ++rounds) {
      const double resident = std::min(places, divide_up(left, device.sm_count));
      // Of one tile, latencies count: a pingpong tile has one warpgroup.
      const bool one = kernel.schedule == "pingpong" && left <= device.sm_count;
      const double alone = one ? 730 : kernel.tile.m >= 64 && kernel.tile.n >= 128 ? 620 : 420;
      cycles += stages * std::max(resident * tile, alone);
    }
  }
  const double memory = bytes(problem) / 3.9e12;
  // Loads in common pay where rounds follow each other.
  if (kernel.cluster_n > 1) cycles *= rounds > 1 ? 0.98 : 1.02;
  return slots_cost(problem, kernel, binding) *
         (std::max(cycles * kCycle, memory) + 3e-6 + 2e-6 * std::ceil(rounds) +
          (kernel.cluster_k > 1 ? 1e-6 : 0.0));
}

// Weights stream by once, at the memory's rate where there are threads enough to ask for them.
double dot_seconds(const problem::Problem& problem, const Template& kernel,
                   const gpu::DeviceInfo& device) {
  const double blocks = divide_up(double(problem.n), kernel.tile.n) * double(problem.batch);
  const double steps = divide_up(double(problem.products[0].k), kernel.tile.k);
  const double threads = blocks * kernel.threads * std::min(1.0, steps / kernel.stages);
  const double busy = std::min(1.0, threads / (256.0 * device.sm_count));
  // Plain loads reach 1.07 times the rate of tiles (21 cases of 1 and 2 rows on an H200, off by 11
  // % at most). Every row that a kernel has, needed or not, is arithmetic: of 4 rows others won.
  const double rows = 1 + 0.05 * (kernel.tile.m - 1);
  return 2.5e-6 + rows * bytes(problem) / (1.07 * rates_of(kernel, device).memory * busy);
}

// The parts of the estimate.
struct Estimate {
  double multiply = 0;  // seconds, of all waves
  double fill = 0;
  double memory = 0;
  double total = 0;
};

Estimate estimate(const problem::Problem& problem, const Template& kernel,
                  const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  const Rates rates = rates_of(kernel, device);
  // A cluster may share K.
  const double k = double(problem.products[0].k) / kernel.cluster_k;
  const double products = kernel.hole.accumulators;  // of one A, each with a B of its own
  const double tile_flops = 2.0 * kernel.tile.m * kernel.tile.n * products * k;
  // A cluster's blocks share what they load.
  const double tile_bytes =
      k * element_bytes(kernel) *
      (double(kernel.tile.m) / kernel.cluster_n + products * kernel.tile.n / kernel.cluster_m);
  const double multiply = tile_flops / rates.flops, fill = tile_bytes / rates.shared_fill;
  // A tile's epilogue that nothing hides, and the sum of a cluster's parts of K.
  const double finish = kernel.cluster_k > 1 ? 2.5e-6 : 1.5e-6;
  const double all = waves(problem, kernel, 0, device);
  double busy = kernel.schedule == "pingpong"
                    // One tile's end hides behind the other warpgroup's steps, where they last.
                    ? all * std::max({multiply, fill, finish / 2}) + finish
                    : all * std::max(multiply, fill) + finish * std::ceil(all);
  if (kernel.stream_k) busy *= 1.05;
  const double memory = bytes(problem) / rates.memory;
  return {all * multiply, all * fill, memory,
          slots_cost(problem, kernel, binding) * (std::max(busy, memory) + rates.launch)};
}

// The bytes of the epilogue's full operands and results, of all that must move.
double tail_share(const problem::Problem& problem) {
  double tail = 0;
  const auto add = [&](const problem::View& view) {
    if (view.row_stride != 0 && view.column_stride != 0)
      tail += double(problem.m) * double(problem.n) * double(problem.batch) *
              double(ir::size_of(view.dtype));
  };
  for (size_t i = 0; i < problem.views.inputs.size(); ++i)
    if (problem.epilogue.inputs[i].role != epilogue::Role::Accumulator)
      add(problem.views.inputs[i]);
  for (const problem::View& view : problem.views.outputs) add(view);
  return tail / bytes(problem);
}

}  // namespace

double waves(const problem::Problem& problem, const Template& kernel, int splits,
             const gpu::DeviceInfo& device) {
  const double tiles = tiles_over_places(problem, kernel, device);
  if (kernel.stream_k && splits == 0) return std::max(tiles, 0.1);
  // Half the blocks or fewer share their last tiles with the others.
  if (kernel.schedule == "shared_tail") return std::ceil(tiles * 2) / 2;
  return std::ceil(tiles * std::max(1, splits)) / std::max(1, splits);
}

Features features(const problem::Problem& problem, const Template& kernel,
                  const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  const Estimate times = estimate(problem, kernel, binding, device);
  const bool swapped = kernel.hole.swapped;
  const double tile_rows = swapped ? kernel.tile.n : kernel.tile.m;
  const double tile_columns = swapped ? kernel.tile.m : kernel.tile.n;
  const double m = double(problem.m), n = double(problem.n), k = double(problem.products[0].k);
  const double tiles = tiles_over_places(problem, kernel, device);
  const double rounds = std::ceil(tiles);
  const double sets = kernel.hole.accumulators;
  const double stage =
      element_bytes(kernel) * kernel.tile.k * (kernel.tile.m + sets * kernel.tile.n);
  const double blocks =
      std::max(1.0, std::floor(double(device.max_shared_bytes) / std::max(1, kernel.shared_bytes)));
  const double slots = double(kernel.hole.full_bits.size());
  const auto& widths = kernel.hole.result_bits;
  Features made{};
  const auto set = [&](Feature feature, double value) { made[size_t(feature)] = value; };
  set(Feature::log_estimate, std::log(times.total));
  set(Feature::log_multiply, std::log(times.multiply));
  set(Feature::log_fill, std::log(times.fill));
  set(Feature::log_memory, std::log(times.memory));
  set(Feature::log_waves, std::log(tiles));
  set(Feature::last_wave, tiles / rounds);
  set(Feature::log_steps, std::log(std::max(1.0, k / kernel.cluster_k / kernel.tile.k)));
  set(Feature::log_m, std::log(m));
  set(Feature::log_n, std::log(n));
  set(Feature::log_k, std::log(std::max(1.0, k)));
  set(Feature::used_rows, m / (divide_up(m, tile_rows) * tile_rows));
  set(Feature::used_columns, n / (divide_up(n, tile_columns) * tile_columns));
  set(Feature::log_tile_rows, std::log(tile_rows));
  set(Feature::log_tile_columns, std::log(tile_columns));
  set(Feature::swapped, swapped);
  set(Feature::pingpong, kernel.schedule == "pingpong");
  set(Feature::stream_k, kernel.stream_k);
  set(Feature::wgmma, kernel.arch == "sm_90a");
  set(Feature::cluster_tiles, kernel.cluster_m * kernel.cluster_n);
  set(Feature::cluster_k, kernel.cluster_k);
  set(Feature::log_in_flight, std::log(std::max(1.0, kernel.stages * stage * blocks)));
  set(Feature::blocks, blocks);
  set(Feature::full_slots, slots);
  set(Feature::empty_slots, slots - used_slots(binding));
  set(Feature::context_operands, launch::context_operands(problem, binding));
  set(Feature::row_slots, kernel.hole.rows);
  set(Feature::tail_share, tail_share(problem));
  set(Feature::result_bits, widths.empty() ? 0 : *std::max_element(widths.begin(), widths.end()));
  set(Feature::gate, sets > 1);
  set(Feature::element_bytes, element_bytes(kernel));
  set(Feature::b_k_major, kernel.b_k_major);
  set(Feature::any_strides, kernel.any_strides);
  set(Feature::operations, double(problem.epilogue.nodes.size()));
  set(Feature::log_tile_k, std::log(kernel.tile.k));
  set(Feature::log_stages, std::log(std::max(1, kernel.stages)));
  set(Feature::warpgroups, kernel.threads / 128);
  set(Feature::streaming, kernel.schedule == "streaming");
  set(Feature::rows_first, swapped || kernel.b_first);
  set(Feature::align_d, kernel.align_d);
  set(Feature::log_tail, std::log(times.memory * std::max(1e-6, tail_share(problem))));
  set(Feature::log_end, std::log(rounds * tile_rows * tile_columns));
  set(Feature::log_round_trips,
      std::log(1 + rounds * k / kernel.cluster_k / kernel.tile.k /
                       (std::max(1, kernel.stages) * std::min(blocks, rounds))));
  return made;
}

double expected_seconds(const problem::Problem& problem, const Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  if (kernel.packed_bits > 0)
    return kernel.schedule == "streaming" ? streaming_seconds(problem, kernel, device)
                                          : widening_seconds(problem, kernel, binding, device);
  if (kernel.schedule == "dot") return dot_seconds(problem, kernel, device);
  if (device.major != 9 || problem.products[0].k == 0)
    return estimate(problem, kernel, binding, device).total;
  const Features known = features(problem, kernel, binding, device);
  return std::exp(known[size_t(Feature::log_estimate)] + learned_correction(known));
}

}  // namespace attacca::tune
