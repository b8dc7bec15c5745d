// Single ops as regions, which an executor runs if it has no kernel for them: results equal the
// interpreter's bit for bit, and the problem for a device accesses the same elements.
#include "run/shared/single_regions.hpp"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/cpu/executable.hpp"
#include "run/shared/access.hpp"
#include "run/shared/input_layout.hpp"
#include "tune/problem_testing.hpp"

namespace attacca::run {
namespace {

using ir::Tensor;
using ir::Value;

fuse::Region single_region(const ir::Graph& graph, Value value) {
  fuse::Region region;
  region.nodes = region.outputs = {value};
  for (const Value operand : graph[value].operands)
    if (std::count(region.inputs.begin(), region.inputs.end(), operand) == 0)
      region.inputs.push_back(operand);
  return region;
}

std::vector<fuse::Region> regions_of(const ir::Graph& graph, const fuse::Region& single) {
  const Value value = single.nodes[0];
  if (is_copy(graph[value].op)) return copy_regions(graph, value);
  if (graph[value].op != ir::Op::MatMul) return {pointwise_region(graph, single)};
  auto product = matmul_region(graph, single);
  EXPECT_TRUE(product) << to_string(product.error());
  return {*std::move(product)};
}

// Copies what the region writes of a result from one tensor to another.
void merge(const fuse::Region& region, const ir::SymbolValues& symbols, const Tensor& from,
           Tensor& into) {
  const epilogue::Output& output = region.epilogue.outputs[0];
  const ConcreteAccess access = *evaluate_access(output.access, symbols);
  const std::vector<int64_t> domain = *evaluate(region.epilogue.domain, symbols);
  int64_t count = 1;
  for (const int64_t extent : domain) count *= extent;
  const auto width = static_cast<size_t>(ir::size_of(into.dtype()));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = access.offset;
    for (size_t axis = domain.size(); axis-- > 0;) {
      at += rest % domain[axis] * access.strides[axis];
      rest /= domain[axis];
    }
    std::memcpy(into.data() + static_cast<size_t>(at) * width,
                from.data() + static_cast<size_t>(at) * width, width);
  }
}

// Runs the graph op by op.
void check(const std::string& parameters, const std::string& body,
           const ir::SymbolValues& symbols = {}) {
  const std::string text = "graph g(" + parameters + ") {\n" + body + "\n}\n";
  SCOPED_TRACE(text);
  const auto parsed = ir::parse_graph(text);
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  const ir::Graph& graph = *parsed;
  BufferPool buffers;
  RunState state{.symbols = symbols, .values = {}, .buffers = buffers};
  state.values.resize(graph.size());
  ir::Bindings inputs;
  for (const Value value : graph.inputs()) {
    const ir::Node& input = graph[value];
    Tensor tensor = *Tensor::make(input.type.dtype, *evaluate(input.type.shape, symbols));
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set_number(i, double((i * 7 + value.id) % 23) - 11);
    inputs[input.name] = tensor;
    state.values[value.id] = *laid_out(input, tensor, symbols);
  }
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const Value value{id};
    if (graph[value].op == ir::Op::Input || graph[value].literal) continue;
    const fuse::Region single = single_region(graph, value);
    Tensor whole =
        *Tensor::make(graph.type(value).dtype, *evaluate(graph.type(value).shape, symbols));
    for (const fuse::Region& region : regions_of(graph, single)) {
      const Status verified = epilogue::verify(region.epilogue);
      ASSERT_TRUE(verified) << to_string(verified.error());
      auto made =
          make_epilogue_region(graph, region, ir::Mode::Eager, KnownValues(graph.size()), 1);
      ASSERT_TRUE(made) << to_string(made.error());
      const auto sizes = (*made)->measure(symbols);
      ASSERT_TRUE(sizes) << to_string(sizes.error());
      const Status ran = (*made)->run(state, sizes->get());
      ASSERT_TRUE(ran) << to_string(ran.error());
      merge(region, symbols, state.values[value.id], whole);
    }
    state.values[value.id] = whole;
  }
  const auto want =
      ir::interpret(*parsed, inputs, {.precision = ir::Precision::Eager, .accumulators = {}});
  ASSERT_TRUE(want) << to_string(want.error());
  for (size_t i = 0; i < want->size(); ++i) {
    const Tensor& got = state.values[graph.outputs()[i].value.id];
    const Tensor dense = *(*want)[i].contiguous();
    ASSERT_EQ(got.shape(), dense.shape());
    for (int64_t k = 0; k < got.size(); ++k)
      ASSERT_EQ(got.number_at(k), dense.number_at(k)) << "output " << i << " element " << k;
  }
}

TEST(CopyRegions, TransposeAndPermute) {
  check("x: f32[3, 5]", "return transpose(x)");
  check("x: bf16[2, 3, 5]", "return transpose(x), permute(x, [2, 0, 1]), permute(x, [1, 2, 0])");
  check("x: f32[3, 5; 8, 1]", "return transpose(x)");
  check("x: s8[1, 1]", "return transpose(x)");
}

TEST(CopyRegions, Reshape) {
  check("x: f32[6, 4]", "return reshape(x, [3, 8]), reshape(x, [24]), reshape(x, [2, 1, 3, 4])");
  check("x: f32[6, 4; 9, 1]", "return reshape(x, [3, 8])");
  check("x: f16[M, 4]", "return reshape(x, [2*M, 2])", {{"M", 3}});
  check("x: f32[1]", "return reshape(x, [])");
}

TEST(CopyRegions, Slice) {
  check("x: f32[7, 9]", "return x[1:6:2, 3:], x[:, ::-1], x[::-2, 8:2:-3]");
  check("x: f32[7, 9; 11, 1]", "return x[2:, 1:8:2]");
  check("x: f32[12]", "return x[5:], x[::-1]");
  check("x: s64[2, 5, 3]", "return x[:, 4:0:-2, 1:2]");
}

TEST(CopyRegions, Broadcast) {
  check("x: f32[1, 5]", "return broadcast(x, [4, 5]), broadcast(x, [2, 3, 5])");
  check("x: f32[]", "return broadcast(x, [4, 5])");
  check("x: f32[3, 1; 2, 1]", "return broadcast(x, [3, 4])");
}

TEST(CopyRegions, Concat) {
  check("x: f32[2, 5], y: f32[3, 5]", "return concat(x, y, axis=0), concat(y, x, y, axis=0)");
  check("x: bf16[2, 5], y: bf16[2, 1], z: bf16[2, 3; 7, 1]", "return concat(x, y, z, axis=1)");
  check("x: f32[4], y: f32[M]", "return concat(x, y, axis=0)", {{"M", 3}});
}

TEST(CopyRegions, NothingOfNothing) {
  check("x: f32[M, 5]", "return transpose(x), concat(x, x, axis=0)", {{"M", 0}});
}

TEST(PointwiseRegion, ElementwiseOpsAndCasts) {
  check("x: f32[4, 5], y: f32[4, 5]", "return x + y, x * 0.5, 1 - x, max(x, y)");
  check("x: bf16[4, 5], y: bf16[5], z: bf16[4, 1]", "return x * y + z, y - z");
  check("x: f32[2, 3, 4], y: f32[3, 1], s: f32[]", "return x * y - s");
  check("x: f32[5], s: f32[]", "return x + s, -s, cast(x, s8)");
  check("x: f32[4, 5], c: f32[4, 5]", "return where(x < c, x, 0.0), clamp(x, min=-2, max=3)");
  check("x: s32[4, 5], y: s32[5]", "return x * y, x == y");
}

TEST(PointwiseRegion, StridedInputs) {
  check("x: f32[4, 5; 8, 1], y: f32[4, 5]", "return x + y");
  check("x: f32[4, 5; 1, 4], y: f32[4, 1; 3, 1]", "return x * y");
}

TEST(MatmulRegion, Products) {
  check("a: f32[3, 4], b: f32[4, 5]", "return a @ b");
  check("a: f32[2, 3, 4], b: f32[4, 5]", "return a @ b");
  check("a: f32[2, 1, 3, 4], b: f32[3, 4, 5]", "return a @ b");
  check("a: f32[3, 3]", "return a @ a");
  check("a: f32[3, 4; 7, 1], b: f32[4, 5]", "return a @ b");
  check("a: s8[3, 4], b: s8[4, 5]", "return a @ b");
  check("a: f32[M, K], b: f32[K, 5]", "return a @ b", {{"M", 2}, {"K", 0}});
}

}  // namespace
}  // namespace attacca::run
