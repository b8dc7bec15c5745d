// y = silu(x @ w^T + bias) in bf16 with f32 results, built op by op, compiled for the CPU and,
// where there is one, a GPU, and compared with plain loops.
#include <attacca/attacca.hpp>
#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "cuda_memory.hpp"

namespace {

constexpr int64_t kM = 100, kN = 192, kK = 320;

// The upper half of a float, exact for the numbers below.
uint16_t to_bf16(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}
float to_float(uint16_t bf16) {
  return std::bit_cast<float>(uint32_t{bf16} << 16);
}

struct Data {
  std::vector<uint16_t> x, w, bias;  // bf16
  std::vector<float> y;

  Data() : x(kM * kK), w(kN * kK), bias(kN), y(kM * kN) {
    unsigned state = 1;
    for (auto* values : {&x, &w, &bias})
      for (uint16_t& value : *values) {
        state = state * 1664525u + 1013904223u;
        value = to_bf16((static_cast<float>(state >> 8 & 63) - 31.5f) / 64);
      }
    for (int64_t m = 0; m < kM; ++m)
      for (int64_t n = 0; n < kN; ++n) y[m * kN + n] = expected(m, n);
  }

  float expected(int64_t m, int64_t n) const {
    double sum = to_float(bias[n]);
    for (int64_t k = 0; k < kK; ++k)
      sum += double(to_float(x[m * kK + k])) * to_float(w[n * kK + k]);
    return static_cast<float>(sum / (1 + std::exp(-sum)));
  }
};

bool report(const attacca::Status& status) {
  if (!status) std::fprintf(stderr, "%s\n", status.text().c_str());
  return status.ok();
}

attacca::Result<attacca::Graph> build() {
  using attacca::DType;
  attacca::Builder builder("linear_silu");
  const auto x = builder.input("x", DType::BF16, {"M", kK});
  const auto w = builder.input("w", DType::BF16, {kN, kK});
  const auto bias = builder.input("bias", DType::BF16, {kN});
  const auto product = builder.call("matmul", {x, builder.call("transpose", {w})}, "out=f32");
  const auto sum = builder.call("add", {product, bias});
  // As a framework would write it; Attacca finds silu.
  builder.output(builder.compute("h / (1 + exp(-h))", {{"h", sum}}), "y");
  return builder.finish();
}

bool check(const char* device, const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i)
    largest = std::fmax(largest, std::isnan(got[i]) ? INFINITY : std::fabs(got[i] - want[i]));
  const bool passed = largest < 1e-3;
  std::printf("%s: largest error %.2g, %s\n", device, largest, passed ? "passed" : "FAILED");
  return passed;
}

bool run_on_cpu(const attacca::Graph& graph, const Data& data) {
  const auto plan = attacca::Plan::compile(graph);
  if (!plan) return report(plan.status());
  std::printf("%s", plan->explain_text()->c_str());
  const auto instance = plan->prepare({{"M", kM}});
  if (!instance) return report(instance.status());
  std::vector<float> y(data.y.size());
  const auto status = instance->run({data.x.data(), data.w.data(), data.bias.data()}, {y.data()});
  return report(status) && check("cpu", y, data.y);
}

bool run_on_cuda(const attacca::Graph& graph, const Data& data, Cuda& cuda) {
  const auto plan = attacca::Plan::compile(graph, {.device = "cuda"});
  if (!plan) return report(plan.status());
  const auto instance = plan->prepare({{"M", kM}});
  if (!instance) return report(instance.status());
  std::vector<const void*> inputs;
  for (const auto* values : {&data.x, &data.w, &data.bias}) {
    const size_t bytes = values->size() * sizeof(uint16_t);
    void* address = cuda.allocate(bytes);
    if (address == nullptr || !cuda.to_device(address, values->data(), bytes)) return false;
    inputs.push_back(address);
  }
  void* output = cuda.allocate(instance->output_bytes(0));
  void* workspace = cuda.allocate(instance->workspace_bytes());
  if (!report(instance->run(inputs, {output}, {workspace, instance->workspace_bytes()})))
    return false;
  std::vector<float> y(data.y.size());
  if (!cuda.to_host(y.data(), output, instance->output_bytes(0))) return false;
  for (const auto& decision : instance->decisions())
    std::printf("cuda: %s (%s)\n", decision.candidate.c_str(), decision.source.c_str());
  return check("cuda", y, data.y);
}

}  // namespace

int main() {
  const Data data;
  const auto graph = build();
  if (!graph) return report(graph.status()) ? 0 : 1;
  if (!run_on_cpu(*graph, data)) return 1;
  const attacca::Status usable = attacca::check_device("cuda");
  if (!usable) {
    std::printf("no GPU: %s\n", usable.text().c_str());
    return 0;
  }
  Cuda cuda;
  return cuda.usable() && run_on_cuda(*graph, data, cuda) ? 0 : 1;
}
