// From an epilogue to a cubin, without a GPU: a template made by NVRTC here, and the real ones
// where they are built.
#include "gpu/kernel/build.hpp"

#include <fstream>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "epilogue/text.hpp"
#include "gpu/cache_testing.hpp"
#include "gpu/kernel/helper_kernel.hpp"
#include "gpu/kernel/kernel_file.hpp"
#include "gpu/kernel/kernel_image.hpp"
#include "gpu/kernel/sources.hpp"
#include "ptx/analysis/kernel_analysis.hpp"

namespace attacca::gpu {
namespace {

using testing::Folder;

// Two accumulators, a row slot, a column slot, one result of 16 bits.
constexpr const char* kKernel = R"(
struct attacca_results { unsigned word[1]; };
struct attacca_hole_context;
extern "C" __device__ attacca_results attacca_hole(unsigned acc0, unsigned acc1, unsigned row0,
    unsigned row1, unsigned col, int row, int column, int batch, const attacca_hole_context*);
extern "C" __global__ void kernel(const unsigned* in, unsigned* out,
                                  const attacca_hole_context* context) {
  for (int i = 0; i < 4; ++i) {
    const unsigned* at = in + 8 * (threadIdx.x + i * blockDim.x);
    out[threadIdx.x + i * blockDim.x] = attacca_hole(at[0], at[1], at[2], at[3], at[4], 0,
                                                     threadIdx.x, i, context).word[0];
  }
}
)";

// Counts the real toolchain's calls.
struct Counting : Toolchain {
  Result<std::string> compile(const std::string& source,
                              const CompileOptions& options) const override {
    ++compiles;
    last_source = source;
    last_options = options;
    return Toolchain::compile(source, options);
  }
  Result<std::vector<char>> assemble(const std::string& ptx,
                                     const std::string& arch) const override {
    ++assemblies;
    last_ptx = ptx;
    last_arch = arch;
    return Toolchain::assemble(ptx, arch);
  }
  mutable int compiles = 0, assemblies = 0;
  mutable std::string last_source, last_ptx, last_arch;
  mutable CompileOptions last_options;
};

struct BuildTest : ::testing::Test {
  BuildTest() : cache({.folder = folder.cache()}) { kernel = make_template("sm_90a"); }

  templates::Template make_template(const std::string& arch) {
    templates::Template made;
    made.name = "toy_" + arch;
    made.arch = arch;
    made.input_types = {ir::DType::BF16, ir::DType::F16};
    made.hole.rows = made.hole.columns = 1;
    made.hole.result_bits = {16};
    made.kernel = "kernel";
    made.path = folder.path + "/" + made.name + ".ptx";
    const auto ptx = compile(kKernel, {arch});
    EXPECT_TRUE(ptx) << to_string(ptx.error());
    std::ofstream(made.path) << *ptx;
    return made;
  }

  static KernelRequest request(const templates::Template& kernel, std::string_view text) {
    auto parsed = epilogue::parse_text(text);
    EXPECT_TRUE(parsed) << to_string(parsed.error());
    KernelRequest request;
    request.kernel = &kernel;
    request.epilogue = epilogue::canonicalize(parsed->epilogue);
    auto binding = epilogue::bind(request.epilogue, kernel.hole);
    EXPECT_TRUE(std::holds_alternative<epilogue::Binding>(binding))
        << std::get<std::string>(binding);
    request.binding = std::get<epilogue::Binding>(std::move(binding));
    return request;
  }

  Cubin built(const KernelRequest& wanted) {
    auto cubin = build(wanted, cache, tools);
    if (!cubin) ADD_FAILURE() << to_string(cubin.error());
    return cubin.value_or(Cubin{});
  }

  Folder folder;
  Cache cache;
  Counting tools;
  templates::Template kernel;
};

bool is_cubin(const Cubin& cubin) {
  return std::string_view(cubin.bytes->data(), cubin.bytes->size())
      .starts_with(
          "\x7f"
          "ELF");
}

TEST_F(BuildTest, ColdThenWarm) {
  const KernelRequest wanted = request(kernel, "silu(acc + row(bias)) * col(scale)");
  const Cubin cold = built(wanted);
  EXPECT_TRUE(is_cubin(cold));
  EXPECT_EQ(cold.kernel, "kernel");
  EXPECT_FALSE(cold.times.cached);
  EXPECT_GT(cold.times.nvrtc, 0);
  EXPECT_GT(cold.times.assemble, 0);
  EXPECT_EQ(tools.last_ptx.find("attacca_hole,"), std::string::npos);
  const Cubin warm = built(wanted);
  EXPECT_TRUE(warm.times.cached);
  EXPECT_EQ(warm.times.nvrtc + warm.times.splice + warm.times.assemble, 0);
  EXPECT_EQ(*warm.bytes, *cold.bytes);
  Cache other({.folder = folder.cache()});
  EXPECT_EQ(*build(wanted, other, tools)->bytes, *cold.bytes);
  EXPECT_EQ(tools.compiles, 1);
  EXPECT_EQ(tools.assemblies, 1);
}

TEST_F(BuildTest, NamesOfOperandsDoNotCount) {
  built(request(kernel, "silu(acc + row(bias))"));
  built(request(kernel, "silu(acc + row(other))"));
  EXPECT_EQ(tools.compiles, 1);
}

// Two builds of one version may make different kernels.
TEST_F(BuildTest, KeysNameTheSources) {
  EXPECT_EQ(kernel_sources().size(), 16u);
  const std::string start = fmt::format("sources {}\n", kernel_sources());
  EXPECT_TRUE(cache_key(request(kernel, "relu(acc)"), tools)->starts_with(start));
  EXPECT_TRUE(cache_key(HelperRequest{.entry = "k", .source = ""}, tools)->starts_with(start));
}

// Their extra parameters have the same names, so that one's image serves the other without an
// error, and without its tail.
TEST_F(BuildTest, KernelsOfOneFileHaveTheirOwnImages) {
  const std::string file = folder.path + "/two.cu";
  std::ofstream(file) << R"(
extern "C" __global__ void first(float* out, const float* x) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = x[i];
}
extern "C" __global__ void second(float* out, const float* x) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = 2 * x[i];
})";
  TailRequest wanted;
  wanted.epilogue = "relu(out + row(bias))";
  wanted.dtype = wanted.result = ir::DType::F32;
  wanted.rows = wanted.columns = 64;
  wanted.threads = 256;
  const auto tail = emit_tail(wanted);
  ASSERT_TRUE(tail) << to_string(tail.error());
  const auto image = [&](const char* entry, Cache& images) -> std::vector<char> {
    const auto loaded = load_kernel({.file = file,
                                     .kernel = entry,
                                     .arch = "sm_90a",
                                     .includes = {},
                                     .options = {},
                                     .kernel_option = "entry="});
    EXPECT_TRUE(loaded) << to_string(loaded.error());
    const auto analysis = ptx::analyse_output(loaded->module, loaded->entry, {"0", 0}, 4);
    EXPECT_TRUE(analysis) << to_string(analysis.error());
    const auto made = kernel_image(
        {.module = &loaded->module, .capability = 90, .tail = &*tail, .analysis = &*analysis},
        images, tools);
    EXPECT_TRUE(made) << to_string(made.error());
    return *made;
  };
  Cache other({.folder = folder.path + "/other"});
  const std::vector<char> first = image("first", cache);
  EXPECT_NE(image("second", cache), first);
  EXPECT_EQ(image("second", cache), image("second", other));
}

// Changes that must give another kernel.
TEST_F(BuildTest, KeySeparates) {
  const KernelRequest base = request(kernel, "relu(acc + row(bias))");
  std::vector<KernelRequest> all(6, base);
  all[1].mode = ir::Mode::Eager;
  all[2].a_type = all[2].b_type = ir::DType::F16;
  all[3].includes = {"__device__ float f(float x) { return x; }"};
  all[4].includes = {"__device__ float g(float x) { return x; }"};
  all[5] = request(kernel, "relu(acc - row(bias))");
  templates::Template old = make_template("sm_80");
  all.push_back(request(old, "relu(acc + row(bias))"));
  all.push_back(all.back());
  all.back().capability = 90;
  std::vector<std::string> keys;
  for (const KernelRequest& wanted : all) keys.push_back(*cache_key(wanted, tools));
  std::ofstream(kernel.path, std::ios::app) << "// another template\n";
  keys.push_back(*cache_key(base, tools));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

// The tail of an unfused product reads its operands in the order of the region, which need not be
// the canonical one of the tail alone: there x - r and r - x have one text.
TEST_F(BuildTest, KeysOfTailsDifferWhereTheirSourcesDo) {
  const char* const tails[] = {
      "acc - full(r: bf16)",       "full(r: bf16) - acc",           "silu(acc) * full(r: bf16)",
      "silu(full(r: bf16)) * acc", "relu(acc) + full(r: bf16) * 2", "acc * 2 + relu(full(r: bf16))",
      "acc + full(r: bf16)",       "acc, full(r: bf16) * 2",        "full(r: bf16) * 2, acc",
  };
  struct Keyed {
    std::string key, source;
  };
  std::vector<Keyed> all;
  for (const char* text : tails) {
    auto parsed = epilogue::parse_text(text);
    ASSERT_TRUE(parsed) << to_string(parsed.error());
    templates::Template pointwise = kernel;
    KernelRequest wanted;
    wanted.kernel = &pointwise;
    wanted.epilogue =
        epilogue::unfuse(epilogue::canonicalize(parsed->epilogue), {ir::Dim(64)}, {ir::Value{0}});
    for (epilogue::Input& input : wanted.epilogue.inputs) input.dtype = ir::DType::BF16;
    for (epilogue::Output& output : wanted.epilogue.outputs) output.dtype = ir::DType::BF16;
    pointwise.hole = epilogue::roomy_signature(wanted.epilogue);
    auto binding = epilogue::bind(wanted.epilogue, pointwise.hole);
    ASSERT_TRUE(std::holds_alternative<epilogue::Binding>(binding))
        << std::get<std::string>(binding);
    wanted.binding = std::get<epilogue::Binding>(std::move(binding));
    all.push_back({*cache_key(wanted, tools),
                   epilogue::emit_cuda(wanted.epilogue, pointwise.hole, wanted.binding)});
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_TRUE(all[i].key != all[j].key || all[i].source == all[j].source)
          << tails[i] << " and " << tails[j];
}

TEST_F(BuildTest, EagerDoesNotContract) {
  KernelRequest wanted = request(kernel, "acc * row(scale) + col(bias)");
  wanted.mode = ir::Mode::Eager;
  built(wanted);
  EXPECT_FALSE(tools.last_options.contract);
  EXPECT_EQ(tools.last_ptx.find("fma."), std::string::npos);
}

TEST_F(BuildTest, OldTemplateIsAssembledForTheDevice) {
  const templates::Template old = make_template("sm_80");
  KernelRequest wanted = request(old, "relu(acc + row(bias))");
  built(wanted);
  EXPECT_EQ(tools.last_arch, "sm_80");
  wanted.capability = 90;
  EXPECT_TRUE(is_cubin(built(wanted)));
  EXPECT_EQ(tools.last_arch, "sm_90");
  wanted = request(kernel, "relu(acc + row(bias))");
  wanted.capability = 90;
  built(wanted);
  EXPECT_EQ(tools.last_arch, "sm_90a");
}

TEST_F(BuildTest, BadIncludeSaysWhere) {
  KernelRequest wanted = request(kernel, "relu(acc)");
  wanted.includes = {"__device__ float f(float x) { return nonsense; }"};
  const auto cubin = build(wanted, cache, tools);
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().where.find("nonsense"), std::string::npos);
}

TEST_F(BuildTest, MissingTemplateFileIsAnError) {
  const KernelRequest wanted = request(kernel, "relu(acc)");
  std::filesystem::remove(kernel.path);
  const auto cubin = build(wanted, cache, tools);
  ASSERT_FALSE(cubin);
  EXPECT_NE(to_string(cubin.error()).find(kernel.path), std::string::npos);
}

struct HelperTest : ::testing::Test {
  static HelperRequest twice(const std::string& type) {
    return {.entry = "twice",
            .source = "extern \"C\" __global__ void twice(" + type + "* x) { *x = *x + *x; }",
            .capability = 90};
  }

  Folder folder;
  Cache cache{{.folder = folder.cache()}};
  Counting tools;
};

TEST_F(HelperTest, IsCompiledOnceForAllProcesses) {
  const auto cold = build(twice("float"), cache, tools);
  ASSERT_TRUE(cold) << to_string(cold.error());
  EXPECT_TRUE(is_cubin(*cold));
  EXPECT_EQ(cold->kernel, "twice");
  EXPECT_FALSE(cold->times.cached);
  EXPECT_EQ(tools.last_arch, "sm_90");
  Cache other({.folder = folder.cache()});
  const auto warm = build(twice("float"), other, tools);
  ASSERT_TRUE(warm) << to_string(warm.error());
  EXPECT_TRUE(warm->times.cached);
  EXPECT_EQ(*warm->bytes, *cold->bytes);
  EXPECT_EQ(tools.compiles, 1);
  EXPECT_EQ(tools.assemblies, 1);
}

TEST_F(HelperTest, KeySeparates) {
  std::vector<HelperRequest> all(4, twice("float"));
  all[1].source = twice("double").source;
  all[2].capability = 80;
  all[3].contract = false;
  std::vector<std::string> keys;
  for (const HelperRequest& wanted : all) keys.push_back(*cache_key(wanted, tools));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST_F(HelperTest, ErrorsNameTheHelper) {
  const auto cubin = build(twice("nonsense"), cache, tools);
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().what.find("helper kernel twice"), std::string::npos);
  EXPECT_NE(cubin.error().where.find("twice.cu"), std::string::npos);
  EXPECT_EQ(to_string(cubin.error()).find("epilogue"), std::string::npos);
}

}  // namespace
}  // namespace attacca::gpu
