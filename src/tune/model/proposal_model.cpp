#include "tune/model/proposal_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/model/architecture.hpp"
#include "tune/model/ranking_tree.hpp"
#include "tune/model/unfused_model.hpp"

namespace attacca::tune {
namespace {

struct Extent {
  int rows, columns;
};
constexpr Extent kTiles[] = {
#include "tune/model/vendor_tiles.inc"
};
// cublasLtClusterShape_t, likewise.
constexpr Extent kClusters[] = {{0, 0}, {0, 0}, {1, 1}, {2, 1},  {4, 1}, {1, 2},
                                {2, 2}, {4, 2}, {1, 4}, {2, 4},  {4, 4}, {8, 1},
                                {1, 8}, {8, 2}, {2, 8}, {16, 1}, {1, 16}};

constexpr double kLeastWaves = 1.0 / 1024;
constexpr double kNoPlace = 16;
constexpr double kAlignment = 16;  // bytes; of rows with less, kernels and times differ more

// Of the problem, whose result is the transpose of the library's.
template <size_t Count>
Extent extent(const Extent (&known)[Count], int number) {
  if (number < 0 || size_t(number) >= Count) return {0, 0};
  return {known[number].columns, known[number].rows};
}

// In the order of cublasLtMatmulAlgoConfigAttributes_t.
enum Config { Id, Tile, Splits, Reduction, Swizzle, Custom, Stages, InnerShape, Cluster };

}  // namespace

ProposalFeatures proposal_features(const problem::Problem& problem,
                                   const launch::VendorEpilogue& way,
                                   const launch::VendorAlgorithm& algorithm,
                                   const gpu::DeviceInfo& device) {
  const UnfusedFeatures path = unfused_features(problem, way, device);
  const auto seconds = [&](UnfusedFeature feature) { return std::exp(path[size_t(feature)]); };
  const problem::Product& product = problem.products[0];
  const TileFit& fit = architecture_of(device).tiles;
  const double m = double(problem.m), n = double(product.n), k = double(product.k);
  const double width = path[size_t(UnfusedFeature::element_bytes)];
  const Extent tile = extent(kTiles, algorithm.config[Tile]);
  const double rows = std::max(1, tile.rows), columns = std::max(1, tile.columns);
  const double splits = std::max(1, algorithm.config[Splits]), part = std::ceil(k / splits);
  const double down = std::ceil(m / rows), across = std::ceil(n / columns);
  const double waves = down * across * double(problem.batch) * splits / device.sm_count;
  const double step = std::max(seconds(UnfusedFeature::log_multiply) * device.sm_count * rows *
                                   columns * part / (m * n * k * double(problem.batch)),
                               (rows + columns) * part * width / fit.fill);
  const double finish = splits > 1 ? fit.finish_shared : fit.finish;
  const double its_product =
      std::max(std::ceil(waves) * (step + finish), seconds(UnfusedFeature::log_memory)) +
      fit.launch;
  const double rest = seconds(UnfusedFeature::log_estimate) - seconds(UnfusedFeature::log_product);
  const Extent cluster = extent(kClusters, algorithm.config[Cluster]);
  const auto place_of = [&](size_t limit) {
    return limit < algorithm.places.size() && algorithm.places[limit] >= 0
               ? double(algorithm.places[limit])
               : kNoPlace;
  };
  ProposalFeatures made{};
  const auto set = [&](ProposalFeature feature, double value) { made[size_t(feature)] = value; };
  using enum ProposalFeature;
  set(log_proposal, std::log(its_product + rest));
  set(log_its_product, std::log(its_product));
  set(log_tile_rows, std::log(rows));
  set(log_tile_columns, std::log(columns));
  set(log_its_waves, std::log(waves));
  set(its_last_wave, waves / std::ceil(waves));
  set(its_used_rows, m / (down * rows));
  set(its_used_columns, n / (across * columns));
  set(log_splits, std::log(splits));
  set(log_part, std::log(part));
  set(log_told_waves, std::log(std::max(kLeastWaves, algorithm.waves)));
  set(algorithm_id, algorithm.config[Id]);
  set(reduction, algorithm.config[Reduction]);
  set(order, algorithm.config[Swizzle]);
  set(custom, algorithm.config[Custom]);
  set(stages, algorithm.config[Stages]);
  set(inner_shape, algorithm.config[InnerShape]);
  set(cluster_rows, cluster.rows);
  set(cluster_columns, cluster.columns);
  set(log_workspace, std::log(1 + double(algorithm.workspace_bytes)));
  set(place, place_of(0));
  set(place_little, place_of(1));
  std::copy(path.begin(), path.end(), made.end() - std::ssize(path));
  return made;
}

const launch::Proposal& best_proposal(const problem::Problem& problem,
                                      std::span<const launch::Proposal> proposals,
                                      const gpu::DeviceInfo& device) {
  const bool known = std::all_of(proposals.begin(), proposals.end(),
                                 [](const auto& each) { return each.algorithm.has_value(); });
  if (!architecture_of(device).learned || !known) return proposals.front();
  const std::vector<launch::VendorEpilogue> ways = launch::vendor_epilogues(problem);
  const auto expected = [&](const launch::Proposal& each) {
    const ProposalFeatures features = proposal_features(
        problem, ways[static_cast<size_t>(each.candidate.absorbed)], *each.algorithm, device);
    return features[size_t(ProposalFeature::log_proposal)] + learned_proposal_correction(features);
  };
  const auto best = std::ranges::min_element(proposals, {}, expected);
  const auto preferred = std::ranges::min_element(proposals, {}, [&](const auto& each) {
    return each.candidate.algorithm == 0 ? expected(each) : std::numeric_limits<double>::infinity();
  });
  const UnfusedFeatures path = unfused_features(problem, ways.front(), device);
  const bool aligned = std::min(path[size_t(UnfusedFeature::aligned_a)],
                                path[size_t(UnfusedFeature::aligned_b)]) == kAlignment;
  return expected(*best) + proposal_margin(aligned) < expected(*preferred) ? *best : *preferred;
}

}  // namespace attacca::tune
