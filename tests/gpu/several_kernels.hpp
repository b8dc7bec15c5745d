// Real templates with an epilogue, for several problems a launch, and numbers for them in the PTX
// interpreter's memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "epilogue/text.hpp"
#include "gpu/compile/toolchain.hpp"
#include "ptx/splice/several.hpp"
#include "ptx/splice/splice.hpp"
#include "ptx_interpreter/interpreter.hpp"
#include "templates/catalog.hpp"

namespace attacca::gpu {

using ptx_interpreter::Memory;

inline float value_of(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounded towards zero.
inline uint16_t bf16_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// bf16 numbers in the interpreter's memory.
struct Numbers {
  uint64_t address = 0;
  std::vector<uint16_t> values;

  double operator[](size_t i) const { return value_of(values[i]); }
};

inline Numbers random_numbers(Memory& memory, std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  Numbers made;
  for (size_t i = 0; i < count; ++i) made.values.push_back(bf16_of(normal(random)));
  made.address = memory.allocate(count * 2);
  std::memcpy(memory.bytes(made.address).data(), made.values.data(), count * 2);
  return made;
}

inline void* pointer_to(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

// A x B, with A as (m, k) and B as (n, k).
inline attacca_gemm_arguments product_of(int m, int n, int k, const Numbers& a, const Numbers& b,
                                         uint64_t result) {
  attacca_gemm_arguments g{};
  g.m = g.context.rows = m;
  g.n = g.context.columns = n;
  g.batch = g.context.batches = 1;
  g.k = k;
  g.sm_count = 2;
  g.a = {pointer_to(a.address), k, 1, 0};
  g.b = {pointer_to(b.address), 1, k, 0};
  g.result[0] = {pointer_to(result), n, 1, 0};
  return g;
}

// The largest error of an (m, n) of bf16 in memory, as a part of what rounding to bf16 allows.
// `want`: a function of row and column.
template <class Want>
double largest_error(Memory& memory, uint64_t result, int m, int n, Want want) {
  const auto got = memory.bytes(result);
  double worst = 0;
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      uint16_t bits = 0;
      std::memcpy(&bits, got.data() + (static_cast<size_t>(row) * n + column) * 2, 2);
      const double right = want(row, column), is = value_of(bits);
      const double error = std::abs(is - right) / (std::abs(right) * 0x1p-8 + 1e-2);
      worst = std::isfinite(is) ? std::max(worst, error) : INFINITY;
    }
  return worst;
}

inline double silu(double x) {
  return x / (1 + std::exp(-x));
}

// The template with the epilogue, for several problems.
struct SeveralKernel {
  const templates::Template* form = nullptr;
  epilogue::Binding binding;
  std::string ptx;
};

inline Result<SeveralKernel> kernel_of(const std::string& name, size_t problems,
                                       std::string_view tail, bool has_signals = false) {
  static const auto catalog = templates::Catalog::open(nullptr);
  if (!catalog) return tl::make_unexpected(catalog.error());
  SeveralKernel made;
  made.form = catalog->find(name);
  if (made.form == nullptr) return fail("no template " + name);
  epilogue::TextOptions options;
  options.results = {ir::DType::BF16};
  ATTACCA_TRY(const auto parsed, epilogue::parse_text(tail, options));
  const epilogue::Epilogue epilogue = epilogue::canonicalize(parsed.epilogue);
  auto binding = epilogue::bind(epilogue, made.form->hole);
  if (const auto* reason = std::get_if<std::string>(&binding)) return fail(*reason);
  made.binding = std::get<epilogue::Binding>(std::move(binding));
  epilogue::CudaOptions cuda;
  cuda.function = "attacca_hole";
  const Toolchain toolchain;
  ATTACCA_TRY(std::string filling,
              toolchain.compile(epilogue::emit_cuda(epilogue, made.form->hole, made.binding, cuda),
                                {.arch = made.form->arch, .contract = true, .minimal = true}));
  ATTACCA_TRY(std::string text,
              templates::instantiate(*made.form, ir::DType::BF16, ir::DType::BF16));
  ATTACCA_TRY(const ptx::Module kernel, ptx::parse(std::move(text)));
  ATTACCA_TRY(const ptx::Module body, ptx::parse(std::move(filling)));
  ATTACCA_TRY(ptx::Spliced spliced, ptx::splice(kernel, body, "attacca_hole"));
  ATTACCA_TRY(const ptx::Module one, ptx::parse(std::move(spliced.ptx)));
  ATTACCA_TRY(made.ptx, ptx::compute_several(one, made.form->kernel, problems, has_signals));
  return made;
}

// One launch for these problems; `signals`: of each, if the kernel has them.
inline Result<ptx_interpreter::Launch> launch_of(
    const SeveralKernel& kernel, const std::vector<attacca_gemm_arguments>& problems,
    const std::vector<ptx::Signals>& signals = {}) {
  const auto& builder = *kernel.form->builder;
  const ptx::SeveralParameters layout = ptx::parameters_of_several(
      builder.params_bytes, builder.params_align, problems.size(), !signals.empty());
  std::vector<std::byte> parameters(layout.bytes);
  uint32_t end = 0, grid[3] = {};
  for (size_t i = 0; i < problems.size(); ++i) {
    char reason[256] = "";
    if (builder.build(&problems[i], parameters.data() + i * layout.stride, grid, reason,
                      sizeof reason) != 0)
      return fail(reason);
    end += grid[0];
    std::memcpy(parameters.data() + layout.ends_at + i * sizeof end, &end, sizeof end);
  }
  for (size_t i = 0; i < signals.size(); ++i)
    std::memcpy(parameters.data() + layout.signals_at + i * sizeof signals[i], &signals[i],
                sizeof signals[i]);
  return ptx_interpreter::Launch{kernel.form->kernel,
                                 {end, grid[1], grid[2]},
                                 {static_cast<uint32_t>(kernel.form->threads)},
                                 static_cast<uint32_t>(kernel.form->shared_bytes),
                                 {std::move(parameters)}};
}

inline Status run(const SeveralKernel& kernel, const ptx_interpreter::Launch& launch,
                  Memory& memory) {
  ATTACCA_TRY(const ptx::Module module, ptx::parse(kernel.ptx));
  return ptx_interpreter::run(module, launch, memory);
}

}  // namespace attacca::gpu
