#include "run/cpu/indexed.hpp"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"

#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/thread_pool.hpp"

namespace attacca::run {
namespace {

// Elements whose adding is worth another thread.
constexpr int64_t kWorthAdding = 16 * 1024;

// The places in `rows` of each row, ascending: those of row t are [begin[t], begin[t + 1]).
struct Places {
  std::vector<int64_t> begin, of;

  Places(std::span<const int64_t> rows, int64_t extent)
      : begin(static_cast<size_t>(extent) + 1, 0), of(rows.size()) {
    for (const int64_t row : rows) ++begin[static_cast<size_t>(row) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<int64_t> next(begin.begin(), begin.end() - 1);
    for (size_t i = 0; i < rows.size(); ++i)
      of[static_cast<size_t>(next[static_cast<size_t>(rows[i])]++)] = static_cast<int64_t>(i);
  }
};

// One row's sum in f32 lanes.
class RowSum {
 public:
  RowSum(ir::DType dtype, ir::Mode mode, int64_t columns)
      : dtype_(dtype),
        rounds_(mode == ir::Mode::Eager && dtype != ir::DType::F32),
        columns_(static_cast<size_t>(columns)),
        sum_(columns_),
        next_(columns_) {}

  void begin(const MatrixView& row) { load(row, sum_); }
  void add(const MatrixView& row) {
    load(row, next_);
    for (size_t i = 0; i < columns_; ++i) sum_[i] += next_[i];
    if (!rounds_) return;
    auto* narrow = reinterpret_cast<std::byte*>(next_.data());
    store(narrow);
    load_kernel(dtype_)({.out = sum_.data(), .in = {narrow}, .count = columns_});
  }
  void store(std::byte* to) const {
    store_kernel(dtype_)({.out = to, .in = {sum_.data()}, .count = columns_});
  }

 private:
  static void load(const MatrixView& row, std::vector<float>& lanes) {
    copy_dense(row, ir::DType::F32, reinterpret_cast<std::byte*>(lanes.data()));
  }

  const ir::DType dtype_;
  const bool rounds_;
  const size_t columns_;
  std::vector<float> sum_, next_;
};

}  // namespace

Result<RowSizes> measure_rows(const epilogue::RowIndex& rows, const ir::SymbolValues& symbols) {
  RowSizes sizes;
  ATTACCA_TRY(sizes.access, evaluate_access(rows.access, symbols));
  ATTACCA_TRY(sizes.extent, rows.extent.evaluate(symbols));
  return sizes;
}

Result<std::vector<int64_t>> rows_of(const ir::Tensor& index, const RowSizes& sizes, int64_t count,
                                     ir::Op op, const std::string& place) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t raw = index.integer_at(sizes.access.offset + i * sizes.access.strides[0]);
    const int64_t row = raw < 0 ? raw + sizes.extent : raw;
    if (row < 0 || row >= sizes.extent)
      return fail(fmt::format("{} index {} is outside an axis of {}", name(op), raw, sizes.extent),
                  place, "use indices inside the axis");
    rows[static_cast<size_t>(i)] = row;
  }
  return rows;
}

void add_rows(const MatrixView& base, const MatrixView& updates, std::span<const int64_t> rows,
              std::byte* to, ir::Mode mode, int threads) {
  if (base.rows == 0 || base.columns == 0) return;
  const Places places(rows, base.rows);
  const int64_t elements = (base.rows + updates.rows) * base.columns;
  const int64_t bytes = base.columns * ir::size_of(base.dtype);
  ThreadPool::shared().run(worth(threads, elements, kWorthAdding), base.rows, [&](int64_t row) {
    RowSum sum(base.dtype, mode, base.columns);
    sum.begin(base.part(row, row + 1, 0, base.columns));
    const auto at = static_cast<size_t>(row);
    for (int64_t i = places.begin[at]; i < places.begin[at + 1]; ++i) {
      const int64_t from = places.of[static_cast<size_t>(i)];
      sum.add(updates.part(from, from + 1, 0, base.columns));
    }
    sum.store(to + row * bytes);
  });
}

}  // namespace attacca::run
