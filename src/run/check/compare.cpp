#include "run/check/compare.hpp"

#include <algorithm>
#include <cmath>

#include "support/check.hpp"

namespace attacca::run {
namespace {

void add(Difference& difference, double got, double want) {
  if (std::isfinite(got) && std::isfinite(want)) {
    difference.largest = std::max(difference.largest, std::fabs(got - want));
    difference.scale = std::max(difference.scale, std::fabs(want));
  } else if (!(std::isnan(got) && std::isnan(want)) && got != want) {
    ++difference.mismatched_nan;
  }
}

bool same_kind(double a, double b) {
  if (std::isfinite(a) || std::isfinite(b)) return std::isfinite(a) && std::isfinite(b);
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

Difference compare(const ir::Tensor& got, const ir::Tensor& want) {
  ATTACCA_CHECK(got.shape() == want.shape() && got.is_contiguous() && want.is_contiguous(),
                "comparing unlike tensors");
  Difference difference;
  for (int64_t i = 0; i < got.size(); ++i) add(difference, got.number_at(i), want.number_at(i));
  return difference;
}

Difference compare(const ir::Tensor& got, const Bounded& want) {
  Difference difference;
  for (int64_t i = 0; i < got.size(); ++i)
    add(difference, got.number_at(i), want.value[static_cast<size_t>(i)]);
  return difference;
}

Verdict judge(const ir::Tensor& got, const Bounded& bound, const ir::Tensor& other) {
  ATTACCA_CHECK(got.shape() == other.shape() && got.is_contiguous() && other.is_contiguous() &&
                    got.size() == static_cast<int64_t>(bound.value.size()),
                "judging unlike tensors");
  Verdict verdict;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double number = got.number_at(i), want = bound.value[static_cast<size_t>(i)];
    const bool promised = bound.promises(i);
    verdict.unbounded += !promised;
    const bool fine = promised ? bound.allows(i, number)
                               : same_kind(number, want) || same_kind(number, other.number_at(i));
    if (!fine) {
      ++verdict.outside;
      if (!verdict.first) verdict.first = i;
    }
    const double allowed = bound.error(i);
    if (allowed > 0 && std::isfinite(allowed) && std::isfinite(number))
      verdict.used = std::max(verdict.used, std::fabs(number - want) / allowed);
  }
  return verdict;
}

}  // namespace attacca::run
