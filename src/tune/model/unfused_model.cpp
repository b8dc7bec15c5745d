#include "tune/model/unfused_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "launch/cublaslt.hpp"
#include "launch/unfused.hpp"
#include "tune/model/architecture.hpp"
#include "tune/model/grouped_model.hpp"
#include "tune/model/ranking_tree.hpp"
#include "tune/model/rates.hpp"

namespace attacca::tune {
namespace {

using problem::Product;
using problem::View;

constexpr int kTakesScales = 90;      // devices on which the library takes scales of blocks
constexpr double kLeastBytes = 1024;  // taken instead of 0 in a logarithm

// The tilings that the vendor's kernels are assumed to have.
struct Tiling {
  double rows, columns;
};
constexpr Tiling kWide{128, 256}, kTall{256, 128}, kSquare{128, 128}, kNarrow{64, 128};
constexpr Tiling kTilings[] = {kWide,    kTall,     kSquare,  kNarrow,   {64, 64},
                               {64, 32}, {64, 256}, {64, 16}, {128, 64}, {256, 64}};
constexpr double kSplits[] = {1, 2, 4, 8, 16, 32, 64};
constexpr double kLeastPart = 256;  // of K: the least range of one block

double tiles_of(const problem::Problem& problem, const Product& product, const Tiling& tiling) {
  return divide_up(double(problem.m), tiling.rows) * divide_up(double(product.n), tiling.columns) *
         double(problem.batch);
}

double last_wave(double tiles, const gpu::DeviceInfo& device) {
  const double waves = tiles / device.sm_count;
  return waves / std::ceil(waves);
}

// How the library multiplies, as far as that is known without calling it.
enum class Way : uint8_t {
  AsItIs,
  AsHalf,   // 8-bit floats that the library refuses, converted to 16 bits
  AsFloat,  // converted to f32, multiplied by the scales of blocks that the library does not take
  Plain,    // by Attacca's own kernel
};

// Whether the library takes the scales of blocks as they lie, or as copies along K's blocks, which
// are dense (launch::vendor_takes_scales).
bool takes_scales(const problem::Problem& problem, const problem::ScaleOperands<View>& scales,
                  int64_t k, const gpu::DeviceInfo& device) {
  if (device.capability() < kTakesScales) return false;
  const auto layout = launch::vendor_scale_layout(problem.m, k);
  return problem.batch == 1 && layout &&
         (layout->blocks == layout->b_column_stride ||
          (scales.b.row_stride == 1 && scales.b.column_stride == layout->b_column_stride));
}

Way way_of(const problem::Problem& problem, size_t index, const launch::VendorEpilogue& vendor,
           const gpu::DeviceInfo& device) {
  const Product& product = problem.products[index];
  const auto& views = problem.views.products[index];
  if (views.scales)
    return takes_scales(problem, *views.scales, product.k, device) ? Way::AsItIs : Way::AsFloat;
  const auto dtypes = launch::multiplied_as(views, launch::stored_dtype(problem, vendor, index));
  if (dtypes.empty()) return Way::Plain;
  const ir::DType a = dtypes.front().first;
  if (ir::is_fp8(a)) {
    const bool taken = device.rates.float8 > 0 && product.k % 16 == 0 && product.n % 4 == 0;
    return taken ? Way::AsItIs : Way::AsHalf;
  }
  if (ir::is_integer(a)) return product.k % 4 == 0 && product.n % 2 == 0 ? Way::AsItIs : Way::Plain;
  if (a == views.a.dtype) return Way::AsItIs;
  return a == ir::DType::F32 ? Way::AsFloat : Way::AsHalf;
}

// Whether the correction was learned from products like these.
bool is_learned(const problem::Problem& problem, const launch::VendorEpilogue& vendor,
                const gpu::DeviceInfo& device) {
  if (!architecture_of(device).learned) return false;
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const auto& views = problem.views.products[i];
    if (problem.products[i].k == 0 || ir::size_of(views.a.dtype) > 2) return false;
    const bool bytes = views.a.dtype == ir::DType::S8 && views.b.dtype == ir::DType::S8;
    if (!bytes && way_of(problem, i, vendor, device) == Way::Plain) return false;
  }
  return true;
}

// The part of the library's rate that it reaches where rows are aligned to so many bytes. GELU then
// needs another kernel, which is 2.4 to 6.4 times slower.
double aligned_share(int64_t bytes, launch::VendorTail tail) {
  if (bytes >= 16) return 1;
  const double share = bytes >= 8 ? 0.6 : bytes >= 4 ? 0.4 : 0.22;
  return tail == launch::VendorTail::BiasGeluTanh ? share / 3 : share;
}

// Operations a second of an H200; of f64 by its data sheet.
constexpr double kFloatRate = 4e13, kDoubleRate = 6.7e13, kPlainRate = 3.5e12;
constexpr double kPlainStep = 11e-9;  // seconds of a value of k

double product_rate(const problem::Problem& problem, size_t index,
                    const launch::VendorEpilogue& vendor, const gpu::DeviceInfo& device) {
  const launch::VendorTail tail = vendor.tail;
  const Product& product = problem.products[index];
  const ir::DType a = problem.views.products[index].a.dtype;
  const gpu::DeviceRates& rates = device.rates;
  switch (way_of(problem, index, vendor, device)) {
    case Way::AsFloat:
      return kFloatRate;
    case Way::Plain:
      return kPlainRate;
    case Way::AsHalf:
      return rates.half * aligned_share(std::gcd<int64_t>(16, 2 * product.k), tail);
    case Way::AsItIs:
      break;
  }
  if (ir::is_fp8(a))
    return rates.float8 * (product.fast ? 1 : architecture_of(device).tiles.separate_sums_share);
  if (ir::size_of(a) == 1) return rates.s8;
  if (ir::size_of(a) > 2) return a == ir::DType::F64 ? kDoubleRate : kFloatRate;
  const int64_t aligned = std::gcd<int64_t>(product.k, product.n) * ir::size_of(a);
  return rates.half * aligned_share(std::gcd<int64_t>(16, aligned), tail);
}

struct ProductEstimate {
  double seconds = std::numeric_limits<double>::infinity();
  double multiply = 0, memory = 0;
  double tiles = 1;
};

// One product by the tiling that is fastest for it.
ProductEstimate estimate(const problem::Problem& problem, size_t index,
                         const launch::VendorEpilogue& way, const gpu::DeviceInfo& device) {
  const Product& product = problem.products[index];
  const View& a = problem.views.products[index].a;
  const TileFit& fit = architecture_of(device).tiles;
  const double width = double(ir::size_of(a.dtype)), k = double(product.k);
  const double rate = product_rate(problem, index, way, device);
  const double m = double(problem.m), n = double(product.n), batch = double(problem.batch);
  ProductEstimate best;
  for (const Tiling& tiling : kTilings) {
    const double tiles = tiles_of(problem, product, tiling);
    for (const double splits : kSplits) {
      if (splits > 1 && k / splits < kLeastPart) break;
      const double part = k / splits;
      const double step = std::max(2 * tiling.rows * tiling.columns * part * device.sm_count / rate,
                                   (tiling.rows + tiling.columns) * part * width / fit.fill);
      const double finish = splits > 1 ? fit.finish_shared : fit.finish;
      const double seconds = divide_up(tiles * splits, device.sm_count) * (step + finish);
      if (seconds < best.seconds) best.seconds = seconds, best.tiles = tiles * splits;
    }
  }
  best.multiply = 2 * m * n * k * batch / rate;
  best.memory = batch *
                (m * k * width + n * k * width +
                 m * n * double(ir::size_of(launch::stored_dtype(problem, way, index)))) /
                device.rates.memory;
  if (way_of(problem, index, way, device) == Way::Plain)
    best.seconds = std::max(best.multiply, kPlainStep * k);
  best.seconds = std::max(best.seconds, best.memory) + fit.launch;
  return best;
}

// The operands that are made dense, converted, widened or unpacked before the product.
struct Copies {
  double count = 0, bytes = 0;
};

Copies copies_of(const problem::Problem& problem, size_t index,
                 const launch::VendorEpilogue& vendor, const gpu::DeviceInfo& device) {
  const Product& product = problem.products[index];
  const auto& views = problem.views.products[index];
  const double batch = double(problem.batch);
  Copies copies;
  const auto add = [&](double from, double to) {
    ++copies.count;
    copies.bytes += batch * (from + to);
  };
  const bool bytes = ir::size_of(views.a.dtype) == 1;
  const auto lies_well = [&](const View& view, int64_t rows, int64_t columns, bool along_k) {
    return bytes ? along_k : launch::vendor_takes(view, rows, columns);
  };
  const double a = double(problem.m) * double(product.k), b = double(product.k) * double(product.n);
  const double a_bytes = a * double(ir::size_of(views.a.dtype));
  const double b_bytes = b * double(ir::size_of(views.b.dtype));
  if (!lies_well(views.a, problem.m, product.k, views.a.column_stride == 1)) add(a_bytes, a_bytes);
  if (product.packed)
    add(double(product.packed->bytes), b_bytes);
  else if (problem::is_widened(views))
    add(b_bytes, 2 * b);
  else if (!lies_well(views.b, product.k, product.n, views.b.row_stride == 1))
    add(b_bytes, b_bytes);
  const Way way = way_of(problem, index, vendor, device);
  if (views.scales && way == Way::AsItIs) {
    const double blocks = double(problem::scale_blocks(product.k));
    const double of_a = 4 * double(problem.m) * blocks;
    const double of_b = 4 * double(problem::scale_blocks(product.n)) * blocks;
    if (views.scales->a.row_stride != 1) add(of_a, of_a);
    if (views.scales->b.row_stride != 1) add(of_b, of_b);
  }
  if (way == Way::AsFloat || way == Way::AsHalf) {
    const double to = way == Way::AsFloat ? 4 : 2;
    add(a_bytes, to * a);
    add(b_bytes, to * b);
  }
  return copies;
}

// The bytes that the tail's kernel reads and writes.
double tail_bytes(const problem::Problem& problem, const launch::VendorEpilogue& way) {
  const double elements = double(problem.m) * double(problem.n) * double(problem.batch);
  double total = 0;
  const auto add = [&](const View& view) {
    if (view.row_stride != 0 && view.column_stride != 0)
      total += elements * double(ir::size_of(view.dtype));
  };
  for (size_t i = 0; i < way.rest.inputs.size(); ++i) {
    const epilogue::Input& input = way.rest.inputs[i];
    if (input.role == epilogue::Role::Accumulator)
      total +=
          elements *
          double(ir::size_of(launch::stored_dtype(problem, way, static_cast<size_t>(input.gemm))));
    else
      add(problem.views.inputs[i]);
  }
  for (const View& output : problem.views.outputs) add(output);
  return total;
}

// The alignment, in bytes, of rows with this distance.
double alignment_of(const View& view, int64_t stride) {
  const int64_t bytes = std::gcd<int64_t>(16, std::abs(stride) * ir::size_of(view.dtype));
  return double(std::min<int64_t>(view.alignment, bytes));
}

}  // namespace

UnfusedFeatures unfused_features(const problem::Problem& problem, const launch::VendorEpilogue& way,
                                 const gpu::DeviceInfo& device) {
  const Product& product = problem.products[0];
  const auto& views = problem.views.products[0];
  double seconds = 0, multiply = 0, memory = 0, tiles = 0;
  Copies made_dense;
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const ProductEstimate one = estimate(problem, i, way, device);
    const Copies more = copies_of(problem, i, way, device);
    seconds += one.seconds, multiply += one.multiply, memory += one.memory, tiles += one.tiles;
    made_dense.count += more.count, made_dense.bytes += more.bytes;
  }
  const double launch = architecture_of(device).tiles.launch;
  const bool bare = launch::is_bare_product(problem, way);
  const double tail = bare ? 0 : tail_bytes(problem, way) / device.rates.memory;
  const double copied = made_dense.bytes / device.rates.memory;
  const double least = kLeastBytes / device.rates.memory;
  const double wide = tiles_of(problem, product, kWide);
  const double m = double(problem.m), n = double(product.n);
  const bool along_k = views.b.row_stride == 1;
  UnfusedFeatures made{};
  const auto set = [&](UnfusedFeature feature, double value) { made[size_t(feature)] = value; };
  using enum UnfusedFeature;
  set(log_estimate,
      std::log(seconds + (bare ? 0 : tail + launch) + copied + made_dense.count * launch));
  set(log_product, std::log(seconds));
  set(log_multiply, std::log(std::max(multiply, least)));
  set(log_memory, std::log(memory));
  set(log_tail, std::log(std::max(tail, least)));
  set(log_copies, std::log(std::max(copied, least)));
  set(log_m, std::log(m));
  set(log_n, std::log(n));
  set(log_k, std::log(std::max(1.0, double(product.k))));
  set(log_batch, std::log(double(problem.batch)));
  set(products, double(problem.products.size()));
  set(element_bytes, double(ir::size_of(views.a.dtype)));
  set(stored_bytes, double(ir::size_of(launch::stored_dtype(problem, way, 0))));
  set(b_k_major, along_k);
  set(fast, product.fast);
  set(separate_sums, ir::is_fp8(views.a.dtype) && !product.fast);
  set(copies, made_dense.count);
  set(absorbed, double(problem.epilogue.nodes.size()) - double(way.rest.nodes.size()));
  set(tail_kernel, !bare);
  set(operations, double(way.rest.nodes.size()));
  set(aligned_a, alignment_of(views.a, views.a.column_stride == 1 ? views.a.row_stride
                                                                  : views.a.column_stride));
  set(aligned_b, alignment_of(views.b, along_k ? views.b.column_stride : views.b.row_stride));
  set(aligned_d,
      bare ? alignment_of(problem.views.outputs[0], problem.views.outputs[0].row_stride) : 16);
  set(aligned_m, double(std::gcd<int64_t>(16, problem.m)));
  set(aligned_n, double(std::gcd<int64_t>(16, product.n)));
  set(aligned_k, double(std::gcd<int64_t>(16, product.k)));
  set(plain, way_of(problem, 0, way, device) == Way::Plain);
  set(intensity, std::log(std::max(multiply, least) / memory));
  set(log_waves_wide, std::log(wide / device.sm_count));
  set(last_wave_wide, last_wave(wide, device));
  set(last_wave_tall, last_wave(tiles_of(problem, product, kTall), device));
  set(last_wave_square, last_wave(tiles_of(problem, product, kSquare), device));
  set(last_wave_narrow, last_wave(tiles_of(problem, product, kNarrow), device));
  set(used_rows, m / (divide_up(m, kNarrow.rows) * kNarrow.rows));
  set(used_columns, n / (divide_up(n, kSquare.columns) * kSquare.columns));
  set(log_tiles, std::log(std::max(1.0, tiles)));
  return made;
}

namespace {

// Operations a second of the kernels for these factors. Those for bytes take B by columns alone.
double grouped_rate(const View& a, const View& b, bool fast, const gpu::DeviceInfo& device) {
  const gpu::DeviceRates& rates = device.rates;
  if (ir::size_of(a.dtype) == 2 && ir::is_float(a.dtype)) return rates.half;
  const bool bytes = ir::size_of(a.dtype) == 1 && a.dtype == b.dtype && b.row_stride == 1;
  const double separate = fast ? 1 : architecture_of(device).tiles.separate_sums_share;
  const double rate = !bytes ? 0 : ir::is_float(a.dtype) ? rates.float8 * separate : rates.s8;
  return rate > 0 ? rate : kPlainRate;
}

// Grouped products by our own kernel (launch/grouped.hpp), and then the tail. A product takes as
// long as its operations and its bytes together: so do 18 layers of experts, within a fifth.
double grouped_seconds(const problem::Problem& problem, const launch::VendorEpilogue& way,
                       const gpu::DeviceInfo& device) {
  const double launch = architecture_of(device).tiles.launch;
  double seconds = launch + tail_bytes(problem, way) / device.rates.memory +
                   gather_seconds(problem, device) + widen_seconds(problem, device);
  for (size_t i = 0; i < problem.products.size(); ++i) {
    const Product& product = problem.products[i];
    const View &a = problem.views.products[i].a, &b = problem.views.products[i].b;
    const double m = double(problem.m), n = double(product.n), k = double(product.k);
    const double matrices = groups_with_rows(*product.groups, problem.m);
    const double moved = m * k * double(ir::size_of(a.dtype)) +
                         matrices * n * k * double(ir::size_of(b.dtype)) +
                         m * n * double(ir::size_of(product.stored));
    seconds += launch + 2 * m * n * k / grouped_rate(a, b, product.fast, device) +
               moved / device.rates.memory;
  }
  return seconds;
}

}  // namespace

ExpectedUnfused expected_unfused(const problem::Problem& problem, const launch::VendorEpilogue& way,
                                 const gpu::DeviceInfo& device) {
  if (problem.products[0].groups) return {grouped_seconds(problem, way, device)};
  const UnfusedFeatures known = unfused_features(problem, way, device);
  const double estimate = known[size_t(UnfusedFeature::log_estimate)];
  if (!is_learned(problem, way, device)) return {std::exp(estimate)};
  return {std::exp(estimate + learned_unfused_correction(known)), template_margin(known)};
}

}  // namespace attacca::tune
