// The order in which emulated kernels sum a row's products: the same for every number of rows and
// every place in the batch, which launch::legality requires for batch-invariant problems, or not.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/graph/dtype.hpp"
#include "templates/emulator/kernels.hpp"

namespace attacca::emulator {
namespace {

// Kernels of one product of 16-bit floats, or of a gate, whose factors lie row by row along k.
bool is_plain(const Kernel& kernel) {
  const attacca_info info = kernel.record->info();
  const char* const type = info.input_types[0];  // null: it multiplies nothing
  const bool floats = type != nullptr && type == std::string("bf16") && !info.widened;
  return floats && info.accumulators > 0 && info.packed_bits == 0 && !info.grouped &&
         !info.scaled_blocks && info.a_k_major && info.b_k_major && !info.alternate_columns;
}

// As in launch/legality.cpp. A kernel of dot products takes few rows.
bool is_invariant(const attacca_info& info) {
  return info.schedule != std::string("shared_tail") && (info.cluster_k <= 2 || info.b_first);
}

// Products of random numbers with [n, k] weights, by one kernel.
class Product {
 public:
  Product(const Kernel& kernel, int most, int n, int k)
      : kernel_(kernel), info_(kernel.record->info()), n_(n), k_(k) {
    a_ = numbers(most);
    b_ = numbers(n);
    b1_ = numbers(n);
  }

  // The results' bytes, row after row.
  std::vector<uint8_t> rows(int first, int count) const {
    attacca_gemm_arguments g{};
    g.m = count;
    g.n = n_;
    g.k = k_;
    g.batch = 1;
    g.sm_count = 2;  // several rounds of tiles
    g.a = {const_cast<uint16_t*>(a_.data() + int64_t{first} * k_), k_, 1, 0};
    g.b = {const_cast<uint16_t*>(b_.data()), 1, k_, 0};
    if (info_.accumulators == 2) g.b1 = {const_cast<uint16_t*>(b1_.data()), 1, k_, 0};
    const int bytes = info_.result_bits[0] / 8;
    std::vector<uint8_t> out(static_cast<size_t>(count) * n_ * bytes);
    g.result[0] = {out.data(), n_, 1, 0};
    g.context.rows = count;
    g.context.columns = n_;
    g.context.batches = 1;
    accumulators_alone = true;
    EXPECT_EQ(launch(kernel_, g, 0), "");
    accumulators_alone = false;
    return out;
  }

  size_t row_bytes() const { return static_cast<size_t>(n_) * info_.result_bits[0] / 8; }

 private:
  std::vector<uint16_t> numbers(int rows) {
    std::normal_distribution<float> normal;
    std::vector<uint16_t> made(static_cast<size_t>(rows) * k_);
    for (uint16_t& each : made)
      each = static_cast<uint16_t>(ir::encode16(ir::DType::BF16, normal(random_)));
    return made;
  }

  const Kernel& kernel_;
  const attacca_info info_;
  int n_, k_;
  std::mt19937 random_{20261125};
  std::vector<uint16_t> a_, b_, b1_;
};

class EmulatedRows : public ::testing::TestWithParam<Kernel> {};

TEST_P(EmulatedRows, SumInOneOrderWhereTheyMust) {
  const attacca_info info = GetParam().record->info();
  const bool few = info.schedule == std::string("dot");
  const int tile = info.tile_m, most = few ? tile : 2 * tile + 9;
  const Product product(GetParam(), most, 48, 5 * info.tile_k + 16);
  const std::vector<uint8_t> whole = product.rows(0, most);
  int differing = 0;
  // One row and more than a tile, at its place and among the rows of another warp.
  for (const int count : {1, few ? tile : tile + 1})
    for (int first : {0, 40}) {
      first = std::min(first, most - count);
      const std::vector<uint8_t> part = product.rows(first, count);
      differing +=
          std::memcmp(part.data(), whole.data() + static_cast<size_t>(first) * product.row_bytes(),
                      part.size()) != 0;
    }
  if (is_invariant(info)) {
    EXPECT_EQ(differing, 0);
  } else {
    EXPECT_GT(differing, 0) << "it may be taken for batch-invariant problems";
  }
}

std::vector<Kernel> plain_kernels() {
  std::vector<Kernel> all;
  for (const Kernel& each : kernels())
    if (is_plain(each)) all.push_back(each);
  return all;
}

ATTACCA_NEEDS_KERNELS(EmulatedRows);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedRows, ::testing::ValuesIn(plain_kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
