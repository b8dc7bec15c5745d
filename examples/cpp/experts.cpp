// A layer of experts in two regions on the CPU: rows sorted by expert gather their tokens, are
// multiplied by the matrix of their expert, and are added to their tokens again. The experts'
// weights are in MXFP4. Compared with plain loops.
#include <algorithm>
#include <attacca/attacca.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int64_t kTokens = 40, kExperts = 4, kWidth = 64, kInner = 32, kRows = 2 * kTokens;

constexpr const char* kLayer = R"(
graph experts(x: f32[T, 64], token: s32[R], expert: s32[R], ends: s32[4], weight: f32[R, 1],
              up: u8[4, 64, 32], up_scales: u8[4, 64, 2], bias: f32[4, 64],
              down: u8[4, 64, 16], down_scales: u8[4, 64, 1]) {
  product = grouped_matmul(gather(x, token), transpose(mxfp4(up, up_scales)), ends)
  gate, value = split(product + gather(bias, expert), 2)
  rows = grouped_matmul(silu(gate) * value, transpose(mxfp4(down, down_scales)), ends) * weight
  return y = scatter_add(broadcast(0.0, [T, 64]), token, rows)
})";

unsigned drawn() {
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

// Rows of 4-bit codes, two a byte, and the power of two of each 32.
struct Weights {
  int64_t columns;
  std::vector<uint8_t> codes, scales;

  Weights(int64_t rows, int64_t width)
      : columns(width), codes(rows * width / 2), scales(rows * width / 32) {
    for (uint8_t& each : codes) each = static_cast<uint8_t>(drawn());
    for (uint8_t& each : scales) each = static_cast<uint8_t>(121 + drawn() % 4);
  }
  double at(int64_t row, int64_t column) const {
    constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int64_t i = row * columns + column;
    const int code = codes[i / 2] >> (4 * (i % 2)) & 15;
    return std::ldexp(code & 8 ? -kSizes[code & 7] : kSizes[code], scales[i / 32] - 127);
  }
};

struct Data {
  std::vector<float> x, weight, bias;
  std::vector<int32_t> token, expert, ends;
  Weights up{kExperts * kWidth, kWidth}, down{kExperts * kWidth, kInner};

  Data() : x(kTokens * kWidth), weight(kRows), bias(kExperts * kWidth), ends(kExperts) {
    for (auto* values : {&x, &weight, &bias})
      for (float& each : *values) each = (static_cast<float>(drawn() & 63) - 31.5f) / 32;
    for (int32_t e = 0; e < kExperts; ++e) {  // each token goes to two experts
      for (int32_t t = 0; t < kTokens; ++t)
        if (t % kExperts == e || (t + 1) % kExperts == e) token.push_back(t), expert.push_back(e);
      ends[e] = static_cast<int32_t>(token.size());
    }
  }

  std::vector<double> expected() const {
    std::vector<double> y(kTokens * kWidth);
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t first = expert[r] * kWidth;
      double h[kWidth], inner[kInner];
      for (int64_t n = 0; n < kWidth; ++n) {
        h[n] = bias[first + n];
        for (int64_t k = 0; k < kWidth; ++k) h[n] += up.at(first + n, k) * x[token[r] * kWidth + k];
      }
      for (int64_t n = 0; n < kInner; ++n) inner[n] = h[n] / (1 + std::exp(-h[n])) * h[n + kInner];
      for (int64_t n = 0; n < kWidth; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < kInner; ++k) sum += down.at(first + n, k) * inner[k];
        y[token[r] * kWidth + n] += weight[r] * sum;
      }
    }
    return y;
  }
};

template <class T>
bool failed(const attacca::Result<T>& result) {
  if (!result) std::fprintf(stderr, "%s\n", result.status().text().c_str());
  return !result;
}

}  // namespace

int main() {
  const Data data;
  const auto graph = attacca::Graph::parse(kLayer);
  if (failed(graph)) return 1;
  const auto plan = attacca::Plan::compile(*graph);
  if (failed(plan)) return 1;
  std::printf("%s", plan->explain_text()->c_str());
  const auto instance = plan->prepare({{"T", kTokens}, {"R", kRows}});
  if (failed(instance)) return 1;
  std::vector<float> y(kTokens * kWidth);
  const attacca::Status status =
      instance->run({data.x.data(), data.token.data(), data.expert.data(), data.ends.data(),
                     data.weight.data(), data.up.codes.data(), data.up.scales.data(),
                     data.bias.data(), data.down.codes.data(), data.down.scales.data()},
                    {y.data()});
  if (!status) std::fprintf(stderr, "%s\n", status.text().c_str());
  if (!status) return 1;
  const std::vector<double> want = data.expected();
  double largest = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    error = std::isnan(y[i]) ? INFINITY : std::max(error, std::fabs(y[i] - want[i]));
  }
  const bool passed = error < 1e-5 * largest;
  std::printf("largest error %.2g of %.3g, %s\n", error, largest, passed ? "passed" : "FAILED");
  return passed ? 0 : 1;
}
