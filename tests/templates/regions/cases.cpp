#include "templates/regions/cases.hpp"

#include <cstring>
#include <regex>

#include "fmt/format.h"

#include "differential/random_graph.hpp"
#include "gpu/devices.hpp"
#include "ir/packed/packed.hpp"
#include "ir/text/text.hpp"
#include "problem/region_graph.hpp"
#include "random_rows.hpp"
#include "requirements/graphs.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"
#include "run/shared/input_layout.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using ir::Tensor;

constexpr int kGroups = 5;
struct Shape {
  int rows, columns;
};
// Some are for kernels of few rows. Where rows do not begin at multiples of 16 bytes, slots of
// boxes take no operands.
#ifdef __SANITIZE_ADDRESS__  // the interpreter is slow, and fewer kernels run
constexpr Shape kShapes[] = {{45, 48}, {1, 48}, {2, 41}};
constexpr uint64_t kRandomGraphs = 60;
#else
constexpr Shape kShapes[] = {{45, 48}, {3, 48}, {1, 48}, {70, 44}, {2, 41}};
constexpr uint64_t kRandomGraphs = 300;
#endif

// Products y and z of M x N and h of M x D, twice as many columns. `inputs` names x and the
// weights; in `product`, `{0}` is one of these, w, v or u, and `{1}` its columns. `%` is the dtype:
// bf16 or f16.
struct ProductText {
  std::string inputs, product;
  std::string before = "";  // a line of the graph
  std::string byte = "";    // the dtype of bytes whose f32 product the first result rounds to
  std::string dtype() const { return byte.empty() ? "%" : "f32"; }
  bool has_groups() const { return product.find("grouped") == 0 || product.find("cast(g") == 0; }
};

const char* const kGather = "  a = gather(x, i)\n";
const char* const kScaleRows = "  a = scale_blocks(x, s, [1, 128])\n";
const char* const kScaleNamedRows = "  a = scale_blocks(gather(x, i), s, [1, 128])\n";

const ProductText kProducts[] = {
    {"x: %[M, 48], w: %[M, N], v: %[M, N], u: %[M, D]", "{0} * 2"},
    {"x: %[M, 96], w: %[N, 96], v: %[N, 96], u: %[D, 96]", "x @ transpose({0})"},
    {"x: %[M, 72], w: %[72, N], v: %[72, N], u: %[72, D]", "x @ {0}"},
    {"x: %[64, M], w: %[64, N], v: %[64, N], u: %[64, D]", "transpose(x) @ {0}"},
    {"x: %[3, M, 40], w: %[3, N, 40], v: %[3, N, 40], u: %[3, D, 40]", "x @ transpose({0})"},
    {"x: %[5, 96], w: %[N, 96], v: %[N, 96], u: %[D, 96], i: s64[M]", "a @ transpose({0})",
     kGather},
    {"x: s8[M, 160], w: s8[N, 160], v: s8[N, 160], u: s8[D, 160]", "cast(x @ transpose({0}), f32)",
     "", "s8"},
    {"x: f8e4m3[M, 160], w: f8e4m3[N, 160], v: f8e4m3[N, 160], u: f8e4m3[D, 160]",
     "matmul(x, transpose({0}))", "", "f8e4m3"},
    {"x: f8e4m3[M, 160], w: f8e4m3[N, 160], v: f8e4m3[N, 160], u: f8e4m3[D, 160]",
     "matmul(x, transpose({0}), fast=true)", "", "f8e4m3"},
    {"x: f8e4m3[M, 160], w: f8e4m3[N, 160], v: f8e4m3[N, 160], u: f8e4m3[D, 160], s: f32[M, 2], "
     "ws: f32[1, 2], vs: f32[1, 2], us: f32[1, 2]",
     "a @ transpose(scale_blocks({0}, {0}s, [128, 128]))", kScaleRows, "f8e4m3"},
    {"x: %[M, 96], w: s8[N, 96], v: s8[N, 96], u: s8[D, 96]", "x @ transpose(cast({0}, %))"},
    {"x: %[M, 96], w: u8[96, N], v: u8[96, N], u: u8[96, D]", "x @ cast({0}, %)"},
    {"x: %[M, 96], w: %[5, N, 96], v: %[5, N, 96], u: %[5, D, 96], o: s32[5]",
     "grouped_matmul(x, transpose({0}), o)"},
    {"x: %[M, 96], w: %[5, 96, N], v: %[5, 96, N], u: %[5, 96, D], o: s32[5]",
     "grouped_matmul(x, {0}, o)"},
    {"x: %[9, 96], w: %[5, N, 96], v: %[5, N, 96], u: %[5, D, 96], o: s32[5], i: s32[M]",
     "grouped_matmul(a, transpose({0}), o)", kGather},
    {"x: %[9, 96], w: %[5, 96, N], v: %[5, 96, N], u: %[5, 96, D], o: s32[5], i: s64[M]",
     "grouped_matmul(a, {0}, o)", kGather},
    {"x: s8[M, 160], w: s8[5, N, 160], v: s8[5, N, 160], u: s8[5, D, 160], o: s32[5]",
     "cast(grouped_matmul(x, transpose({0}), o), f32)", "", "s8"},
    {"x: f8e4m3[M, 160], w: f8e4m3[5, N, 160], v: f8e4m3[5, N, 160], u: f8e4m3[5, D, 160], o: "
     "s32[5]",
     "grouped_matmul(x, transpose({0}), o)", "", "f8e4m3"},
    {"x: f8e4m3[M, 160], w: f8e4m3[5, N, 160], v: f8e4m3[5, N, 160], u: f8e4m3[5, D, 160], o: "
     "s32[5]",
     "grouped_matmul(x, transpose({0}), o, fast=true)", "", "f8e4m3"},
    {"x: f8e4m3[M, 160], w: f8e4m3[5, N, 160], v: f8e4m3[5, N, 160], u: f8e4m3[5, D, 160], s: "
     "f32[M, 2], ws: f32[5, 1, 2], vs: f32[5, 1, 2], us: f32[5, 1, 2], o: s32[5]",
     "grouped_matmul(a, transpose(scale_blocks({0}, {0}s, [1, 128, 128])), o)", kScaleRows,
     "f8e4m3"},
    {"x: f8e4m3[9, 160], w: f8e4m3[5, N, 160], v: f8e4m3[5, N, 160], u: f8e4m3[5, D, 160], s: "
     "f32[M, 2], ws: f32[5, 1, 2], vs: f32[5, 1, 2], us: f32[5, 1, 2], o: s32[5], i: s32[M]",
     "grouped_matmul(a, transpose(scale_blocks({0}, {0}s, [1, 128, 128])), o)", kScaleNamedRows,
     "f8e4m3"},
    {"x: bf16[M, 96], w: u8[5, N, 48], v: u8[5, N, 48], u: u8[5, D, 48], ws: u8[5, N, 3], vs: "
     "u8[5, N, 3], us: u8[5, D, 3], o: s32[5]",
     "grouped_matmul(x, transpose(mxfp4({0}, {0}s)), o)"},
    {"x: bf16[9, 96], w: u8[5, N, 48], v: u8[5, N, 48], u: u8[5, D, 48], ws: u8[5, N, 3], vs: "
     "u8[5, N, 3], us: u8[5, D, 3], o: s32[5], i: s32[M]",
     "grouped_matmul(a, transpose(mxfp4({0}, {0}s)), o)", kGather},
    {"x: %[M, 96], w: u8[5, N, 48], v: u8[5, N, 48], u: u8[5, D, 48], ws: %[5, N, 3], vs: %[5, N, "
     "3], us: %[5, D, 3], o: s32[5]",
     "grouped_matmul(x, transpose(decode({0}, {0}s, bits=4, zero=8, dtype=%)), o)"},
    {"x: %[9, 96], w: u8[5, N, 48], v: u8[5, N, 48], u: u8[5, D, 48], ws: %[5, N, 1], vs: %[5, N, "
     "1], us: %[5, D, 1], wz: u8[5, N, 1], vz: u8[5, N, 1], uz: u8[5, D, 1], o: s32[5], i: s64[M]",
     "grouped_matmul(a, transpose(decode({0}, {0}s, {0}z, bits=4, dtype=%)), o)", kGather},
    {"x: %[M, 96], w: s8[5, N, 96], v: s8[5, N, 96], u: s8[5, D, 96], ws: %[5, N, 3], vs: %[5, N, "
     "3], us: %[5, D, 3], o: s32[5]",
     "grouped_matmul(x, transpose(decode({0}, {0}s, bits=8, dtype=%)), o)"},
    {"x: %[9, 96], w: u8[5, N, 96], v: u8[5, N, 96], u: u8[5, D, 96], ws: %[5, N, 3], vs: %[5, N, "
     "3], us: %[5, D, 3], o: s32[5], i: s32[M]",
     "grouped_matmul(a, transpose(decode({0}, {0}s, bits=8, zero=128, dtype=%)), o)", kGather},
};

// Of packed weights (N, K), which have their size in bytes.
std::vector<ProductText> packed_products(int columns) {
  using enum ir::DType;
  const ir::Packing kPackings[] = {
      {S8, 4, 64, BF16}, {U8, 4, 128, BF16, true}, {S8, 8, 0, BF16},    {U8, 8, 64, BF16, true},
      {S8, 4, 128, F32}, {U8, 4, 0, F32, true},    {S8, 8, 0, F32},     {U8, 8, 64, F32, true},
      {S8, 4, 128, U8},  {U8, 4, 0, U8, true},     {F8E4M3, 8, 0, BF16}};
  std::vector<ProductText> products;
  for (const ir::Packing& packing : kPackings) {
    const bool whole = packing.whole();  // times s8
    const auto bytes = [&](int n) { return ir::packed_layout(packing, n, 256)->bytes; };
    const std::string format = std::regex_replace(to_string(packing), std::regex("bf16"), "%");
    const std::string product = fmt::format(
        "x @ transpose(unpack({{0}}, [{{1}}, 256], {}, dtype={}))", format, whole ? "s8" : "%");
    products.push_back(
        {fmt::format("x: {}[M, 256], w: u8[{}], v: u8[{}], u: u8[{}]", whole ? "s8" : "%",
                     bytes(columns), bytes(columns), bytes(2 * columns)),
         whole ? fmt::format("cast({}, f32)", product) : product, "", whole ? "s8" : ""});
  }
  return products;
}

// b: a row; r: full; t: a column; e: a row for each group g.
struct TailText {
  const char* results;
  bool by_group = false;
};
const TailText kTails[] = {
    {"y"},
    {"silu(y + b)"},
    {"cast(gelu(y) * r, f32)"},
    {"cast(relu(y), f32), cast(y + r, f32)"},
    {"silu(y * t) + r, y"},
    {"gelu(y + b), cast(y, f32), y * t"},
    {"silu(y) * z"},
    {"cast(silu(y) * z, f32)"},
    {"silu(y) * (z + r), y + z"},
    {"silu(h[..., :N]) * h[..., N:]"},
    {"silu(h[..., :N] + b) * h[..., N:], h[..., N:] * t"},
    {"silu(h[..., ::2]) * (h[..., 1::2] + b)"},
    {"silu(h[..., ::2] * t) * h[..., 1::2], h[..., 1::2]"},
    {"relu(y * b + r) * t, y > r, cast(y, s8)"},
    {"silu(y + gather(e, g)) * t", true},
    {"y * gather(e, g), relu(y)", true},
};

// Where the first of several results ends.
size_t end_of_first(const std::string& results) {
  int depth = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    depth += results[i] == '(' || results[i] == '[';
    depth -= results[i] == ')' || results[i] == ']';
    if (results[i] == ',' && depth == 0) return i;
  }
  return results.size();
}

bool mentions(const std::string& text, const std::string& name) {
  return std::regex_search(text, std::regex("\\b" + name + "\\b"));
}

std::string replaced(const std::string& in, const char* what, const std::string& by) {
  return std::regex_replace(in, std::regex(what), by);
}

// Those of the declarations "x: bf16[3, 4], y: ..." whose names the text has.
std::string used(const std::string& declarations, const std::string& text) {
  static const std::regex pattern("(\\w+): [%\\w]+\\[[^\\]]*\\]");
  std::string kept;
  for (std::sregex_iterator at(declarations.begin(), declarations.end(), pattern), end; at != end;
       ++at)
    if (mentions(text, at->str(1))) kept += (kept.empty() ? "" : ", ") + at->str();
  return kept;
}

// `half`: in place of %. `rounds`: of a product of bytes, the first result is bytes too; else bf16.
std::string text_of(const ProductText& product, const TailText& tail, const Shape& shape,
                    const char* half, bool rounds) {
  const auto [rows, columns] = shape;
  std::string results = tail.results, lines = product.before;
  if (tail.by_group) lines += fmt::format("  g = group_ids(o, [{}])\n", rows);
  for (const auto& [name, weights, own] :
       {std::tuple("y", "w", columns), {"z", "v", columns}, {"h", "u", 2 * columns}})
    if (mentions(results, name))
      lines += fmt::format("  {} = {}\n", name,
                           fmt::format(fmt::runtime(product.product), weights, own));
  if (!product.byte.empty()) {
    const size_t end = end_of_first(results);
    results = fmt::format("cast({}, {}){}", results.substr(0, end), rounds ? product.byte : "bf16",
                          results.substr(end));
  }
  const std::string declarations =
      fmt::format("{}, b: {}[N], r: {}[M, N], t: {}[M, 1], e: {}[{}, N]", product.inputs,
                  product.dtype(), product.dtype(), product.dtype(), product.dtype(), kGroups);
  const std::string body = lines + "  return " + results;
  std::string text = fmt::format("graph region({}) {{\n{}\n}}\n", used(declarations, body), body);
  text = replaced(text, "\\bM\\b", std::to_string(rows));
  text = replaced(text, "\\bN\\b", std::to_string(columns));
  text = replaced(text, "\\bD\\b", std::to_string(2 * columns));
  return replaced(text, "%", half);
}

const run::Target& target(ir::Mode mode) {
  static const auto of = [](ir::Mode given) {
    return *run::Target::of({.cuda = true}, given, true, gpu::known_device("h200"));
  };
  static const run::Target fp32 = of(ir::Mode::Fp32), eager = of(ir::Mode::Eager);
  return mode == ir::Mode::Eager ? eager : fp32;
}

void add_case(std::vector<RegionCase>& cases, const ir::Graph& graph, ir::Bindings inputs,
              ir::Mode mode, const ir::SymbolValues& symbols = {}) {
  const auto prepared = run::prepare(graph, target(mode));
  ATTACCA_CHECK(prepared.has_value(), "the graph cannot be prepared");
  const fuse::Partition& partition = *prepared->partition;
  if (partition.regions.size() != 1) return;
  const auto problem = problem::concretize(partition.regions[0], partition.graph, symbols, mode,
                                           [](ir::Value) { return 16; });
  if (!problem || !problem->outer.empty() || problem->empty()) return;
  Reference reference = make_reference(graph, inputs);
  cases.push_back({ir::print_graph(graph), partition.graph, symbols, *problem, std::move(inputs),
                   std::move(reference)});
}

// Each region of a graph, as a graph of its own.
void add_regions(std::vector<RegionCase>& cases, const ir::Graph& graph,
                 const ir::SymbolValues& symbols, ir::Mode mode, uint64_t seed) {
  const auto prepared = run::prepare(graph, target(mode));
  ATTACCA_CHECK(prepared.has_value(), "the graph cannot be prepared");
  for (const fuse::Region& region : prepared->partition->regions) {
    if (region.kind == fuse::RegionKind::Single) continue;
    const auto text = problem::write_problem(prepared->graph(), region, symbols, mode,
                                             [](ir::Value) { return 16; });
    if (!text) continue;  // a reduction
    const auto own = ir::parse_graph(text->graph);
    ATTACCA_CHECK(own.has_value(), text->graph + to_string(own.error()));
    auto inputs = run::random_inputs(*own, symbols, seed);
    ATTACCA_CHECK(inputs.has_value(), text->graph + to_string(inputs.error()));
    add_case(cases, *own, *std::move(inputs), mode, symbols);
  }
}

void add_products(std::vector<RegionCase>& cases, const Shape& shape, uint32_t& number) {
  std::vector<ProductText> products(std::begin(kProducts), std::end(kProducts));
  for (ProductText& packed : packed_products(shape.columns)) products.push_back(std::move(packed));
  for (const ProductText& product : products)
    for (const TailText& tail : kTails)
      for (const char* half : {"bf16", "f16"}) {
        if (tail.by_group && !product.has_groups()) continue;
        if (half != std::string("bf16") && product.inputs.find('%') == std::string::npos) continue;
        const std::string text = text_of(product, tail, shape, half, ++number % 3 == 0);
        const auto graph = ir::parse_graph(text);
        ATTACCA_CHECK(graph.has_value(), text + to_string(graph.error()));
        ir::Bindings given;
        if (product.has_groups())
          given.emplace("o", random_ends(shape.rows, kGroups, number % 3 + 1, number));
        auto inputs = run::random_inputs(*graph, {}, number, std::move(given));
        ATTACCA_CHECK(inputs.has_value(), text + to_string(inputs.error()));
        const bool eager = number % 5 == 0;
        add_case(cases, *graph, *std::move(inputs), eager ? ir::Mode::Eager : ir::Mode::Fp32);
      }
}

std::vector<RegionCase> make_cases() {
  std::vector<RegionCase> cases;
  uint32_t number = 0;
  for (const Shape& shape : kShapes) add_products(cases, shape, number);
  for (uint64_t seed = 1; seed <= kRandomGraphs; ++seed)
    add_regions(cases, random_graph(seed), {}, seed % 4 ? ir::Mode::Fp32 : ir::Mode::Eager, seed);
  for (const auto& required : requirements::kRequirements)
    for (const int64_t rows : {1, 33})
      add_regions(cases, *ir::parse_graph(required.text), {{"M", rows}}, ir::Mode::Fp32, 1);
  return cases;
}

}  // namespace

const std::vector<RegionCase>& region_cases() {
  static const std::vector<RegionCase> made = make_cases();
  return made;
}

RegionMemory::RegionMemory(const RegionCase& each) : case_(each) {
  const problem::Operands<ir::Value>& sources = each.problem.sources;
  addresses_ = problem::map([&](ir::Value value) { return operand(value); }, sources);
  for (size_t i = 0; i < sources.outputs.size(); ++i)
    addresses_.outputs[i] =
        result(sources.outputs[i], epilogue::is_amax_of_all(each.problem.epilogue.outputs[i]));
}

void* RegionMemory::operand(ir::Value value) {
  const ir::Node& node = case_.folded[value];
  // Else an accumulator, or a result.
  if (node.op != ir::Op::Input && node.op != ir::Op::Constant) return nullptr;
  Tensor given = operand_of(case_.folded, value, case_.inputs);
  memory_[value] = node.op == ir::Op::Input ? *run::laid_out(node, given, case_.symbols) : given;
  return memory_[value].data();
}

void* RegionMemory::result(ir::Value value, bool zero) {
  const auto& type = case_.folded.type(value);
  auto made = Tensor::make(type.dtype, *ir::evaluate(type.shape, case_.symbols));
  std::memset(made->data(), zero ? 0 : 0xff, static_cast<size_t>(made->bytes()));
  return (memory_[value] = *std::move(made)).data();
}

std::vector<Tensor> RegionMemory::outputs() const {
  std::vector<Tensor> all;
  for (const ir::Output& output : case_.folded.outputs()) all.push_back(memory_.at(output.value));
  return all;
}

}  // namespace attacca::testing
