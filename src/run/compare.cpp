#include "run/compare.hpp"

#include <algorithm>
#include <cmath>

#include "support/check.hpp"

namespace attacca::run {

Difference compare(const ir::Tensor& got, const ir::Tensor& want) {
  ATTACCA_CHECK(got.shape() == want.shape() && got.is_contiguous() && want.is_contiguous(),
                "comparing unlike tensors");
  Difference difference;
  const int64_t count = got.size();
  for (int64_t i = 0; i < count; ++i) {
    const double g = got.number_at(i), w = want.number_at(i);
    if (std::isfinite(g) && std::isfinite(w)) {
      difference.largest = std::max(difference.largest, std::fabs(g - w));
      difference.scale = std::max(difference.scale, std::fabs(w));
    } else if (!(std::isnan(g) && std::isnan(w)) && g != w) {
      ++difference.mismatched_nan;
    }
  }
  return difference;
}

}  // namespace attacca::run
