#include "contenders.hpp"

#include <omp.h>
#include <random>

#include "fmt/format.h"
#include "oneapi/dnnl/dnnl.hpp"

#include "ir/text/text.hpp"
#include "run/pipeline.hpp"
#include "support/check.hpp"

namespace attacca::bench {
namespace {

using dnnl::memory;
using ir::DType;
using ir::Tensor;

const char* chain_name(Chain chain) {
  return chain == Chain::BiasGelu ? "bias+gelu" : "bias+silu*residual";
}

std::string graph_text(const Case& c) {
  const auto& [m, n, k] = c.shape;
  const char* body =
      c.chain == Chain::BiasGelu ? "gelu(matmul(x, w) + b)" : "silu(matmul(x, w) + b) * r";
  const std::string residual =
      c.chain == Chain::BiasGelu ? "" : fmt::format(", r: {}[{}, {}]", ir::name(c.dtype), m, n);
  return fmt::format("graph g(x: {0}[{1}, {3}], w: {0}[{3}, {2}], b: {0}[{2}]{4}) {{ return {5} }}",
                     ir::name(c.dtype), m, n, k, residual, body);
}

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, uint32_t seed, double scale) {
  Tensor tensor = *Tensor::make(dtype, std::move(shape));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_number(i, normal(random));
  return tensor;
}

ir::Bindings inputs_of(const Case& c) {
  const auto& [m, n, k] = c.shape;
  ir::Bindings inputs;
  inputs["x"] = random_tensor(c.dtype, {m, k}, 1, 1);
  inputs["w"] = random_tensor(c.dtype, {k, n}, 2, 1 / std::sqrt(static_cast<double>(k)));
  inputs["b"] = random_tensor(c.dtype, {n}, 3, 1);
  if (c.chain == Chain::BiasSiluResidual) inputs["r"] = random_tensor(c.dtype, {m, n}, 4, 1);
  return inputs;
}

// A plan that multiplies by `w`, packed once.
Contender plan(const Case& c, const ir::Bindings& inputs, const char* name, bool fuse,
               int threads) {
  const auto graph = ir::parse_graph(graph_text(c));
  ATTACCA_CHECK(graph.has_value(), "the benchmark's graph does not parse");
  auto compiled = run::compile(*graph, run::Target::cpu(ir::Mode::Fp32, fuse),
                               {.cpu = {.threads = threads, .weights = {{"w", inputs.at("w")}}}});
  ATTACCA_CHECK(compiled.has_value(), "the benchmark's graph does not compile");
  auto shared = std::make_shared<run::Compiled>(*std::move(compiled));
  return {name, [shared, inputs] {
            const auto results = shared->run(inputs);
            ATTACCA_CHECK(results.has_value(), "the benchmark's plan does not run");
          }};
}

// oneDNN's fusion, on its own threads: bias in the product, the rest as post-ops.
struct PostOps {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul product;
  std::unordered_map<int, memory> arguments;
  ir::Bindings inputs;
  Tensor result;
  std::string implementation;
  int threads;

  PostOps(const Case& c, const ir::Bindings& given, int threads) : inputs(given), threads(threads) {
    omp_set_num_threads(threads);
    const auto& [m, n, k] = c.shape;
    const auto type = c.dtype == DType::F32 ? memory::data_type::f32 : memory::data_type::bf16;
    const memory::desc a({m, k}, type, memory::format_tag::ab);
    const memory::desc b({k, n}, type, memory::format_tag::any);
    const memory::desc bias({1, n}, type, memory::format_tag::ab);
    const memory::desc out({m, n}, type, memory::format_tag::ab);
    dnnl::post_ops post;
    if (c.chain == Chain::BiasGelu) {
      post.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    } else {
      post.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
      post.append_binary(dnnl::algorithm::binary_mul, out);
    }
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, bias, out), attributes,
                                                   engine);
    implementation = description.impl_info_str();
    product = dnnl::matmul(description);
    const memory plain({{k, n}, type, memory::format_tag::ab}, engine, inputs["w"].data());
    memory packed(description.weights_desc(), engine);
    memory from = plain;
    dnnl::reorder(from, packed).execute(stream, from, packed);
    result = *Tensor::make(c.dtype, {m, n});
    arguments = {{DNNL_ARG_SRC, memory(a, engine, inputs["x"].data())},
                 {DNNL_ARG_WEIGHTS, packed},
                 {DNNL_ARG_BIAS, memory(bias, engine, inputs["b"].data())},
                 {DNNL_ARG_DST, memory(out, engine, result.data())}};
    if (c.chain == Chain::BiasSiluResidual)
      arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1] =
          memory(out, engine, inputs["r"].data());
    stream.wait();
  }
  void run() {
    omp_set_num_threads(threads);
    product.execute(stream, arguments);
    stream.wait();
  }
};

}  // namespace

std::string name(const Case& c) {
  return fmt::format("{} {}x{}x{} {}", ir::name(c.dtype), c.shape.m, c.shape.n, c.shape.k,
                     chain_name(c.chain));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const Shape& shape :
         {Shape{1024, 1024, 1024}, {4096, 4096, 128}, {2048, 4096, 512}, {64, 4096, 4096}})
      for (const Chain chain : {Chain::BiasGelu, Chain::BiasSiluResidual})
        cases.push_back({shape, dtype, chain});
  return cases;
}

std::vector<Contender> contenders(const Case& c, int threads) {
  const ir::Bindings inputs = inputs_of(c);
  std::vector<Contender> all{plan(c, inputs, "fused", true, threads),
                             plan(c, inputs, "op_by_op", false, threads)};
  auto post = std::make_shared<PostOps>(c, inputs, threads);
  all.push_back({"post_ops", [post] { post->run(); }, post->implementation});
  for (const Contender& contender : all) contender.run();
  return all;
}

}  // namespace attacca::bench
