#include "ir/interpret/array.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "ir/graph/semantics.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

int64_t product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// One matrix of a batch: element (row, column) is base[row * row_stride + column * column_stride].
template <class T>
struct Matrix {
  const T* base;
  int64_t row_stride, column_stride;
};

double multiply_add(double sum, double a, double b) {
  return sum + a * b;
}
int64_t multiply_add(int64_t sum, int64_t a, int64_t b) {
  return sem::add(sum, sem::mul(a, b));
}

constexpr int64_t kColumns = 8;  // columns of B packed together
constexpr int64_t kRows = 4;     // rows of A that share a packed panel

template <class T>
void multiply_columns(const Matrix<T>& a, const Matrix<T>& b, T* c, int64_t m, int64_t n, int64_t k,
                      int64_t first_panel, int64_t last_panel) {
  std::vector<T> panel(static_cast<size_t>(k * kColumns));
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const int64_t n0 = p * kColumns, width = std::min(kColumns, n - n0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < width; ++j)
        panel[i * kColumns + j] = b.base[i * b.row_stride + (n0 + j) * b.column_stride];
    for (int64_t m0 = 0; m0 < m; m0 += kRows) {
      const int64_t height = std::min(kRows, m - m0);
      T sums[kRows][kColumns] = {};
      for (int64_t i = 0; i < k; ++i)
        for (int64_t r = 0; r < height; ++r) {
          const T value = a.base[(m0 + r) * a.row_stride + i * a.column_stride];
          for (int64_t j = 0; j < kColumns; ++j)
            sums[r][j] = multiply_add(sums[r][j], value, panel[i * kColumns + j]);
        }
      for (int64_t r = 0; r < height; ++r) std::copy_n(sums[r], width, c + (m0 + r) * n + n0);
    }
  }
}

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, T* c, int64_t m, int64_t n, int64_t k) {
  const int64_t panels = (n + kColumns - 1) / kColumns;
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t workers = work < 1e8 ? 1 : std::min(cores, panels);
  const auto share = [&](int64_t w) {
    multiply_columns(a, b, c, m, n, k, panels * w / workers, panels * (w + 1) / workers);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(workers));
  int64_t taken = 1;
  try {
    for (; taken < workers; ++taken) threads.emplace_back(share, taken);
  } catch (const std::system_error&) {  // no thread can be started: this thread does the rest
  }
  share(0);
  for (; taken < workers; ++taken) share(taken);
  for (std::thread& thread : threads) thread.join();
}

template <class T>
void multiply_batches(const Array& a, const Array& b, const std::vector<T>& a_data,
                      const std::vector<T>& b_data, Array& c, std::vector<T>& c_data) {
  const size_t rank = c.extents.size();
  const int64_t m = c.extents[rank - 2], n = c.extents[rank - 1], k = a.extents[rank - 1];
  Array a_batches = a, b_batches = b;  // the batch axes alone
  for (Array* array : {&a_batches, &b_batches}) {
    array->extents.resize(rank - 2);
    array->strides.resize(rank - 2);
  }
  std::vector<int64_t> a_at, b_at;
  for_each_position(a_batches, [&](int64_t at) { a_at.push_back(at); });
  for_each_position(b_batches, [&](int64_t at) { b_at.push_back(at); });
  for (size_t i = 0; i < a_at.size() && m * n > 0; ++i)
    multiply<T>({a_data.data() + a_at[i], a.strides[rank - 2], a.strides[rank - 1]},
                {b_data.data() + b_at[i], b.strides[rank - 2], b.strides[rank - 1]},
                c_data.data() + static_cast<int64_t>(i) * m * n, m, n, k);
}

// The array with `batch` in front of its last two axes, stride 0 along grown ones.
Array with_batch(const Array& array, std::vector<int64_t> batch) {
  batch.insert(batch.end(), array.extents.end() - 2, array.extents.end());
  return broadcast_view(array, batch);
}

}  // namespace

Array Array::of_numbers(std::vector<int64_t> extents) {
  Array array;
  array.strides = contiguous_strides(extents);
  array.numbers = std::make_shared<std::vector<double>>(static_cast<size_t>(product(extents)));
  array.extents = std::move(extents);
  return array;
}

Array Array::of_integers(std::vector<int64_t> extents) {
  Array array;
  array.strides = contiguous_strides(extents);
  array.integers = std::make_shared<std::vector<int64_t>>(static_cast<size_t>(product(extents)));
  array.extents = std::move(extents);
  return array;
}

int64_t Array::size() const {
  return product(extents);
}

bool Array::is_dense() const {
  return offset == 0 && strides == contiguous_strides(extents) &&
         size() == static_cast<int64_t>(is_integer() ? integers->size() : numbers->size());
}

double Array::number(int64_t at) const {
  return is_integer() ? static_cast<double>((*integers)[at]) : (*numbers)[at];
}

int64_t Array::integer(int64_t at) const {
  ATTACCA_CHECK(is_integer(), "integer() of a float array");
  return (*integers)[at];
}

Array dense(const Array& array) {
  if (array.is_dense()) return array;
  Array copy =
      array.is_integer() ? Array::of_integers(array.extents) : Array::of_numbers(array.extents);
  int64_t next = 0;
  if (array.is_integer())
    for_each_position(array, [&](int64_t at) { (*copy.integers)[next++] = (*array.integers)[at]; });
  else
    for_each_position(array, [&](int64_t at) { (*copy.numbers)[next++] = (*array.numbers)[at]; });
  return copy;
}

Array broadcast_view(const Array& array, const std::vector<int64_t>& extents) {
  Array view = array;
  view.extents = extents;
  view.strides.assign(extents.size(), 0);
  const size_t added = extents.size() - array.extents.size();
  for (size_t i = 0; i < array.extents.size(); ++i) {
    ATTACCA_CHECK(array.extents[i] == extents[added + i] || array.extents[i] == 1,
                  "extents do not broadcast");
    if (array.extents[i] == extents[added + i]) view.strides[added + i] = array.strides[i];
  }
  return view;
}

Array reference_matmul(const Array& a, const Array& b) {
  std::vector<int64_t> batch;
  const size_t rank = std::max(a.extents.size(), b.extents.size());
  for (size_t i = 0; i + 2 < rank; ++i) {
    const auto extent = [&](const Array& x) {
      const size_t missing = rank - x.extents.size();
      return i < missing ? int64_t{1} : x.extents[i - missing];
    };
    batch.push_back(extent(a) == 1 ? extent(b) : extent(a));
  }
  const Array wide_a = with_batch(a, batch), wide_b = with_batch(b, batch);
  std::vector<int64_t> extents = batch;
  extents.push_back(a.extents[a.extents.size() - 2]);
  extents.push_back(b.extents.back());
  if (a.is_integer()) {
    Array c = Array::of_integers(extents);
    multiply_batches(wide_a, wide_b, *a.integers, *b.integers, c, *c.integers);
    return c;
  }
  Array c = Array::of_numbers(extents);
  multiply_batches(wide_a, wide_b, *a.numbers, *b.numbers, c, *c.numbers);
  return c;
}

}  // namespace attacca::ir
