// Dense copies of strided matrices, element by element.
#include "run/cpu/matrix.hpp"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

#include "targets.hpp"

namespace attacca::run {
namespace {

// Whole blocks and ragged ends, every width of element.
TEST(Matrix, CopiesTransposedMatrices) {
  for_each_target([] {
    for (const ir::DType dtype : {ir::DType::U8, ir::DType::BF16, ir::DType::F32, ir::DType::F64})
      for (const int64_t rows : {1, 3, 4, 63, 70, 130})
        for (const int64_t columns : {1, 2, 4, 5, 64, 131}) {
          const int64_t width = ir::size_of(dtype), stride = rows + 3;
          std::vector<std::byte> from(static_cast<size_t>(stride * columns * width));
          for (size_t i = 0; i < from.size(); ++i)
            from[i] = static_cast<std::byte>(i * 31 + i / 256);
          std::vector<std::byte> to(static_cast<size_t>(rows * columns * width + 1), std::byte{7});
          copy_dense({from.data(), dtype, rows, columns, 1, stride}, dtype, to.data());
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
              ASSERT_EQ(std::memcmp(&to[(r * columns + c) * width], &from[(r + c * stride) * width],
                                    static_cast<size_t>(width)),
                        0)
                  << name(dtype) << " " << rows << "x" << columns << " at " << r << " " << c;
          ASSERT_EQ(to.back(), std::byte{7});
        }
  });
}

}  // namespace
}  // namespace attacca::run
