#include "tune/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace attacca::tune {

std::vector<int32_t> group_ends(Routing routing, int64_t groups, int64_t rows) {
  std::vector<int32_t> ends(static_cast<size_t>(groups));
  std::mt19937 random(20261124);
  if (routing == Routing::Alike) {
    for (int64_t row = 0; row < rows; ++row) ++ends[random() % ends.size()];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    return ends;
  }
  std::vector<double> shares(ends.size());
  for (size_t i = 0; i < shares.size(); ++i) shares[i] = 1 / double(i + 1);
  std::shuffle(shares.begin(), shares.end(), random);
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  for (size_t i = 0; i < ends.size(); ++i)
    ends[i] = static_cast<int32_t>(std::llround(double(rows) * shares[i] / shares.back()));
  return ends;
}

}  // namespace attacca::tune
