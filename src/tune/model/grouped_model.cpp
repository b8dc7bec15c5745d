#include "tune/model/grouped_model.hpp"

#include <algorithm>
#include <cmath>

#include "launch/legality.hpp"
#include "tune/model/architecture.hpp"
#include "tune/model/rates.hpp"

namespace attacca::tune {

using templates::Schedule;
using templates::Template;

namespace {

// The bytes of the weights of groups without rows, which no kernel reads.
double unread_bytes(const problem::Problem& problem) {
  double total = 0;
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const problem::Product& product = problem.products[i];
    const double matrices = double(std::min(*product.groups, problem.m));
    const double share = product.codes ? problem::code_share(*product.codes) : 1;
    total += (matrices - groups_with_rows(*product.groups, problem.m)) * share * double(product.k) *
             double(product.n) * double(ir::size_of(problem.views.products[i].b.dtype));
  }
  return total;
}

// The bytes of the groups' weights that are read more than once: where those of a group do not stay
// in L2, its blocks read them for as many lines of tiles as they take at once. `lines`: a group's.
double bytes_again(const problem::Problem& problem, const Template& kernel, double lines,
                   const gpu::DeviceInfo& device) {
  constexpr int kAtOnce = 8;  // lines of tiles, wgmma/builder.hpp's default
  const int clusters = std::max(1, kAtOnce / (kernel.cluster_m * kernel.cluster_n));
  const double times = lines / (kernel.cluster_m * clusters) - 1;
  const double of_group = double(problem.products[0].k) * double(problem.n) *
                          kernel.hole.accumulators * element_bytes(kernel);
  if (times <= 0 || of_group < device.l2_bytes / 2.0) return 0;
  return times * groups_with_rows(*problem.products[0].groups, problem.m) * of_group;
}

}  // namespace

// Groups of rows, each of which begins tiles of its own and ends with a tile that is half full.
double grouped_seconds(const problem::Problem& problem, const Template& kernel,
                       const epilogue::Binding& binding, const gpu::DeviceInfo& device) {
  const Architecture& arch = architecture_of(device);
  const GroupedFit& fit = arch.grouped;
  const double m = double(problem.m), k = double(problem.products[0].k);
  const double groups =
      std::max(1.0, groups_with_rows(*problem.products[0].groups, problem.m));  // there may be none
  const double of_cluster = double(kernel.tile.m) * kernel.cluster_m;           // rows
  const double lines =
      std::min(m, groups * std::max(1.0, m / groups / of_cluster + 0.5)) * kernel.cluster_m;
  const double tiles =
      lines * divide_up(double(problem.n), kernel.tile.n * kernel.cluster_n) * kernel.cluster_n;
  const int blocks = kernel.cluster_m * kernel.cluster_n;
  const double places = std::floor(device.sm_count / blocks) * blocks;
  const double rounds = std::ceil(tiles / places);
  const double products = kernel.hole.accumulators;
  const double filled = m / lines;  // rows of a tile; a kernel may multiply these alone, rounded up
  const double multiplied = kernel.row_step > 0
                                ? std::min(double(kernel.tile.m), filled + kernel.row_step / 2.0)
                                : kernel.tile.m;
  const double multiply =
      kernel.code_bits > 0
          ? divide_up(k, kernel.tile.k) * products * widening_cycles(kernel, arch.widening) /
                device.rates.cycles
          : 2.0 * multiplied * kernel.tile.n * products * k / product_rate(kernel, arch, device);
  const auto& codes = problem.products[0].codes;
  const double share = codes ? problem::code_share(*codes) : 1;  // of the weights' bytes
  // A kernel that gathers loads the rows that there are; others load a whole tile of rows.
  const double rows = kernel.gathered ? filled : kernel.tile.m;
  const double of_a = rows / kernel.cluster_n,
               of_b = share * products * kernel.tile.n / kernel.cluster_m;
  const double fill = k * element_bytes(kernel) *
                      ((kernel.gathered ? fit.gathered_row : 1) * of_a + of_b) / fit.fill;
  const double named = 1 + fit.context_operand * launch::context_operands(problem, binding);
  const bool fitted = kernel.b_first && kernel.row_step > 0;
  const double finished = fitted ? fit.fitted_finish * filled : kernel.tile.m;  // rows
  const double finish = fit.finish * finished * kernel.tile.n * named;
  const double products_of_tile = std::max(multiply, fill);
  const double busy =
      rounds * (kernel.schedule == Schedule::Pingpong
                    ? std::max(products_of_tile, fit.pingpong * (products_of_tile + finish))
                    : products_of_tile + finish);
  const double again = share * bytes_again(problem, kernel, lines / groups, device);
  const double moved = bytes(problem) - unread_bytes(problem) + fit.again * again;
  const double memory =
      (1 + fit.in_flight * of_a / (of_a + of_b)) * moved / (fit.memory_share * device.rates.memory);
  return std::max(busy, memory) + fit.not_hidden * std::min(busy, memory) + arch.tiles.launch;
}

double groups_with_rows(int64_t groups, int64_t rows) {
  if (groups <= 0) return 0;
  const double all = double(groups);
  return all * (1 - std::pow(1 - 1 / all, double(rows)));
}

double gather_seconds(const problem::Problem& problem, const gpu::DeviceInfo& device) {
  double seconds = 0;
  for (size_t i = 0; i < problem.products.size(); ++i)
    if (problem.products[i].rows && !problem.repeats_first_a(i))
      seconds += architecture_of(device).tiles.launch +
                 2 * double(problem.m) * double(problem.products[i].k) *
                     double(ir::size_of(problem.views.products[i].a.dtype)) / device.rates.memory;
  return seconds;
}

double widen_seconds(const problem::Problem& problem, const gpu::DeviceInfo& device) {
  double seconds = 0;
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const problem::Product& product = problem.products[i];
    if (!product.codes) continue;
    const double bytes = double(ir::size_of(product.codes->dtype)) *
                         double(coded_weights(problem, i));  // of the weights
    seconds += architecture_of(device).tiles.launch +
               (1 + problem::code_share(*product.codes)) * bytes / device.rates.memory;
  }
  return seconds;
}

}  // namespace attacca::tune
