#include "tune/model/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "launch/legality.hpp"
#include "tune/model/architecture.hpp"
#include "tune/model/grouped_model.hpp"
#include "tune/model/ranking_tree.hpp"
#include "tune/model/rates.hpp"

namespace attacca::tune {
namespace {

using templates::Schedule;
using templates::Template;

// The number of tiles, with those that pad clusters, over the number that run at a time.
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

double unused_slots(const Template& kernel, const epilogue::Binding& binding) {
  const auto used = std::count_if(
      binding.inputs.begin(), binding.inputs.end(),
      [](const epilogue::Placement& input) { return input.place == epilogue::Place::Full; });
  return double(kernel.hole.full_bits.size()) - double(used);
}

// A factor: an unused slot takes shared memory and so stages; an operand without a slot takes time.
double slots_cost(const problem::Problem& problem, const Template& kernel,
                  const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  const TileFit& fit = architecture_of(device).tiles;
  return 1 + fit.empty_slot * unused_slots(kernel, binding) +
         fit.context_operand * launch::context_operands(problem, binding);
}

// Packed weights stream through the multiprocessors, once for each tile of rows.
double streaming_seconds(const problem::Problem& problem, const Template& kernel,
                         const gpu::DeviceInfo& device) {
  const StreamingFit& fit = architecture_of(device).streaming;
  const double rows = divide_up(double(problem.m), kernel.tile.m);
  const double k = double(problem.products[0].k) / kernel.cluster_n;
  const double places = std::max(
      1.0, std::floor(std::min(double(device.max_shared_bytes) / (kernel.shared_bytes + 1024),
                               fit.threads / kernel.threads)));  // of a multiprocessor
  const double rate = (kernel.tile.m <= 8    ? fit.of_8_rows
                       : kernel.tile.m <= 16 ? fit.of_16_rows
                                             : fit.of_more) *
                      (kernel.packed_bits == 8 ? fit.eight_bits : 1.0) *
                      (device.rates.cycles / fit.cycles);
  double convert = 0, waves = 0;
  for (double left = divide_up(double(problem.n), kernel.tile.n) * kernel.cluster_n * rows;
       left > 0; ++waves) {
    const double resident = std::min(places, divide_up(left, device.sm_count));
    const double busy = std::min(1.0, resident * kernel.threads / 32 / fit.warps);
    convert += resident * kernel.tile.n * k / (rate * std::pow(busy, fit.warps_power));
    left -= places * device.sm_count;
  }
  const double memory = std::sqrt(rows) * double(problem.products[0].packed->bytes) /
                        (fit.memory_share * device.rates.memory);
  return fit.launch + std::max(convert, memory) + fit.wave * waves +
         (kernel.cluster_n > 1 ? fit.cluster : 0.0);
}

// Weights that wgmma takes from registers: packed ones of many rows, bytes.
double widening_seconds(const problem::Problem& problem, const Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  const WideningFit& fit = architecture_of(device).widening;
  const double stages = divide_up(double(problem.products[0].k), kernel.tile.k) / kernel.cluster_k;
  const double tile = widening_cycles(kernel, fit);
  const double places =
      std::max(1.0, std::floor(double(device.max_shared_bytes) / (kernel.shared_bytes + 1024)));
  double cycles = 0, rounds = 0;
  if (kernel.schedule == Schedule::SharedTail) {
    rounds = waves(problem, kernel, 1, device);
    // Wave by wave, as below, so that kernels that differ in the tail alone tie where there is
    // none.
    for (double left = rounds; left > 0; --left) cycles += std::min(left, 1.0) * stages * tile;
  } else {
    for (double left = divide_up(double(problem.m), kernel.tile.m) *
                       divide_up(double(problem.n), kernel.tile.n) * kernel.cluster_k;
         left > 0; left -= places * device.sm_count, ++rounds) {
      const double resident = std::min(places, divide_up(left, device.sm_count));
      // With one tile, latencies dominate: a pingpong tile has one warpgroup.
      const bool one = kernel.schedule == Schedule::Pingpong && left <= device.sm_count;
      const bool wide = kernel.tile.m >= 64 && kernel.tile.n >= 128;
      const double alone = one ? fit.pingpong_alone : wide ? fit.wide_alone : fit.narrow_alone;
      cycles += stages * std::max(resident * tile, alone);
    }
  }
  const double memory = bytes(problem) / (fit.memory_share * device.rates.memory);
  // Sharing loads helps where there are several rounds.
  if (kernel.cluster_n > 1) cycles *= rounds > 1 ? fit.cluster_again : fit.cluster_once;
  return slots_cost(problem, kernel, binding, device) *
         (std::max(cycles * (1 / device.rates.cycles), memory) + fit.launch +
          fit.round * std::ceil(rounds) + (kernel.cluster_k > 1 ? fit.cluster_k : 0.0));
}

double dot_seconds(const problem::Problem& problem, const Template& kernel,
                   const gpu::DeviceInfo& device) {
  const DotFit& fit = architecture_of(device).dot;
  const double blocks = divide_up(double(problem.n), kernel.tile.n) * double(problem.batch);
  const double steps = divide_up(double(problem.products[0].k), kernel.tile.k);
  const double threads = blocks * kernel.threads * std::min(1.0, steps / kernel.stages);
  const double busy = std::min(1.0, threads / (fit.threads * device.sm_count));
  const double rows = 1 + fit.row * (kernel.tile.m - 1);
  return fit.launch + rows * bytes(problem) / (fit.memory_share * device.rates.memory * busy);
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
  const Architecture& arch = architecture_of(device);
  const TileFit& fit = arch.tiles;
  // A cluster may share K.
  const double k = double(problem.products[0].k) / kernel.cluster_k;
  const double products = kernel.hole.accumulators;  // with one A and a B for each
  const double tile_flops = 2.0 * kernel.tile.m * kernel.tile.n * products * k;
  // A cluster's blocks share what they load.
  const double tile_bytes =
      k * element_bytes(kernel) *
      (double(kernel.tile.m) / kernel.cluster_n + products * kernel.tile.n / kernel.cluster_m);
  const double multiply = tile_flops / product_rate(kernel, arch, device);
  const double fill = tile_bytes / (fit.fill * (kernel.any_strides ? fit.gather_share : 1));
  const double finish = kernel.cluster_k > 1 ? fit.finish_shared : fit.finish;
  const double all = waves(problem, kernel, 0, device);
  double busy = kernel.schedule == Schedule::Pingpong
                    // The epilogue of one tile overlaps with the other warpgroup's products, as
                    // long as they take.
                    ? all * std::max({multiply, fill, finish / 2}) + finish
                    : all * std::max(multiply, fill) + finish * std::ceil(all);
  if (kernel.stream_k) busy *= fit.stream_k;
  const double memory = bytes(problem) / device.rates.memory;
  return {all * multiply, all * fill, memory,
          slots_cost(problem, kernel, binding, device) * (std::max(busy, memory) + fit.launch)};
}

// The part of the moved bytes that are the epilogue's full operands and results.
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
  // A last wave that is at most half full takes half a wave: two blocks share each tile.
  if (kernel.schedule == Schedule::SharedTail) return std::ceil(tiles * 2) / 2;
  return std::ceil(tiles * std::max(1, splits)) / std::max(1, splits);
}

namespace {

// The analytic estimate of the template's kind.
double estimated_seconds(const problem::Problem& problem, const Template& kernel,
                         const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  if (kernel.grouped) return grouped_seconds(problem, kernel, binding, device);
  if (kernel.widened) return widening_seconds(problem, kernel, binding, device);
  if (kernel.packed_bits > 0)
    return kernel.schedule == Schedule::Streaming
               ? streaming_seconds(problem, kernel, device)
               : widening_seconds(problem, kernel, binding, device);
  if (kernel.schedule == Schedule::Dot) return dot_seconds(problem, kernel, device);
  return estimate(problem, kernel, binding, device).total;
}

}  // namespace

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
  set(Feature::log_estimate, std::log(estimated_seconds(problem, kernel, binding, device)));
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
  set(Feature::pingpong, kernel.schedule == Schedule::Pingpong);
  set(Feature::stream_k, kernel.stream_k);
  set(Feature::wgmma, kernel.arch == architecture_of(device).native);
  set(Feature::cluster_tiles, kernel.cluster_m * kernel.cluster_n);
  set(Feature::cluster_k, kernel.cluster_k);
  set(Feature::log_in_flight, std::log(std::max(1.0, kernel.stages * stage * blocks)));
  set(Feature::blocks, blocks);
  set(Feature::full_slots, slots);
  set(Feature::empty_slots, unused_slots(kernel, binding));
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
  set(Feature::streaming, kernel.schedule == Schedule::Streaming);
  set(Feature::rows_first, swapped || kernel.b_first);
  set(Feature::align_d, kernel.align_d);
  set(Feature::log_tail, std::log(times.memory * std::max(1e-6, tail_share(problem))));
  set(Feature::log_end, std::log(rounds * tile_rows * tile_columns));
  set(Feature::log_round_trips,
      std::log(1 + rounds * k / kernel.cluster_k / kernel.tile.k /
                       (std::max(1, kernel.stages) * std::min(blocks, rounds))));
  const int64_t bytes_of_k = problem.products[0].k * int64_t(element_bytes(kernel));
  set(Feature::log_batch, std::log(double(problem.batch)));
  set(Feature::cluster_rows, kernel.cluster_m);
  set(Feature::dot, kernel.schedule == Schedule::Dot);
  set(Feature::shared_tail, kernel.schedule == Schedule::SharedTail);
  set(Feature::packed_bits, kernel.widened ? 8 : kernel.packed_bits);
  set(Feature::separate_sums, adds_up(kernel));
  set(Feature::scaled_blocks, kernel.scaled_blocks);
  set(Feature::dependent_launch, kernel.dependent_launch);
  set(Feature::log_shared, std::log(std::max(1, kernel.shared_bytes)));
  set(Feature::aligned_k, double(std::gcd<int64_t>(16, bytes_of_k)));
  set(Feature::aligned_n, double(std::gcd<int64_t>(16, problem.n)));
  set(Feature::intensity, std::log(times.multiply / times.memory));
  set(Feature::filling, std::log(times.fill / times.multiply));
  return made;
}

double expected_seconds(const problem::Problem& problem, const Template& kernel,
                        const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  if (names_rows(problem) && !kernel.gathered)
    return gather_seconds(problem, device) +
           expected_seconds(with_gathered_rows(problem), kernel, binding, device);
  if (has_codes(problem) && kernel.code_bits == 0)
    return widen_seconds(problem, device) +
           expected_seconds(with_widened_weights(problem), kernel, binding, device);
  if (!architecture_of(device).learned || problem.products[0].k == 0 || kernel.grouped)
    return estimated_seconds(problem, kernel, binding, device);
  const Features known = features(problem, kernel, binding, device);
  return std::exp(known[size_t(Feature::log_estimate)] + learned_correction(known));
}

}  // namespace attacca::tune
