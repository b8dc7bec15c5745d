// Times one version of oneDNN at the products that Attacca's CPU executor asks it for: a panel of
// rows by a piece of 256 columns whose layout oneDNN picked for 64 rows, pieces in turns. Prints
// "kind rows k microseconds" per piece, the fastest of many rounds, on one thread. Any version
// from 2.6 on compiles it: run.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

using dnnl::memory;

namespace {

constexpr int64_t kColumns = 256, kTypicalRows = 64, kPieces = 12;

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

struct Kind {
  const char* name;
  memory::data_type a, b, c;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_of(const dnnl::engine& engine, const Kind& kind, int64_t rows, int64_t k) {
  dnnl::stream stream(engine);
  using tag = memory::format_tag;
  const memory::desc any({k, kColumns}, kind.b, tag::any);
  const auto describe_rows = [&](int64_t count, const memory::desc& b) {
    return describe(engine, {{count, k}, kind.a, tag::ab}, b, {{count, kColumns}, kind.c, tag::ab});
  };
  const memory::desc packed = describe_rows(kTypicalRows, any).weights_desc();
  const auto description = describe_rows(rows, packed);
  const dnnl::matmul product(description);
  memory a(description.src_desc(), engine), c(description.dst_desc(), engine);
  std::fill_n(static_cast<char*>(a.get_data_handle()), a.get_desc().get_size(), 0);
  std::vector<memory> pieces;
  for (int64_t i = 0; i < kPieces; ++i) {
    pieces.emplace_back(packed, engine);
    std::fill_n(static_cast<char*>(pieces.back().get_data_handle()), packed.get_size(), 0);
  }
  double best = 1e9;
  for (double end = seconds() + 0.15; seconds() < end;) {
    const double begin = seconds();
    for (memory& b : pieces)
      product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    best = std::min(best, seconds() - begin);
  }
  return best / kPieces;
}

}  // namespace

int main() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  using type = memory::data_type;
  const dnnl_version_t* v = dnnl_version();
  for (const Kind& kind : {Kind{"f32", type::f32, type::f32, type::f32},
                           Kind{"bf16", type::bf16, type::bf16, type::f32},
                           Kind{"u8s8", type::u8, type::s8, type::s32}})
    for (const int64_t rows : {1, 16, 64})
      for (const int64_t k : {256, 768, 3072})
        std::printf("%d.%d.%d %s %ld %ld %.2f\n", v->major, v->minor, v->patch, kind.name, rows, k,
                    time_of(engine, kind, rows, k) * 1e6);
}
