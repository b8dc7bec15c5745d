// Every built template with an epilogue, to a cubin: ATTACCA_TEMPLATE_DIR or the build's own. And
// each family for the architectures whose devices may run it: these are compiled and assembled
// only, for nothing but sm_90 is at hand to run them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "gtest/gtest.h"

#include "epilogue/text.hpp"
#include "gpu/cache_testing.hpp"
#include "gpu/compile/machine_use.hpp"
#include "gpu/kernel/build.hpp"
#include "templates/catalog.hpp"

namespace attacca::gpu {
namespace {

// Of results of 8 bits.
ir::DType byte_of(const templates::Template& kernel) {
  const bool floats = !kernel.input_types.empty() && ir::is_fp8(kernel.input_types.front());
  return floats ? ir::DType::F8E4M3 : ir::DType::S8;
}

// An epilogue that fills the template's slots and results.
std::string text_for(const templates::Template& kernel) {
  constexpr const char* kByAccumulators[] = {"silu(full(x) + row(bias))", "silu(acc + row(bias))",
                                             "silu(acc0 + row(bias)) * acc1"};
  const bool is_gemm = kernel.hole.accumulators > 0;
  std::string text = kByAccumulators[kernel.hole.accumulators];
  if (is_gemm)
    for (size_t i = 0; i < kernel.hole.full_bits.size(); ++i)
      text +=
          " * full(r" + std::to_string(i) + (kernel.hole.full_bits[i] == 16 ? ": bf16)" : ": f32)");
  if (!kernel.hole.result_bits.empty() && kernel.hole.result_bits[0] == 8)
    text = "cast(" + text + ", " + std::string(name(byte_of(kernel))) + ", saturate=true)";
  const std::string first = text;
  for (size_t i = 1; i < kernel.hole.result_bits.size(); ++i)
    text += ", " + std::to_string(i + 1) + " * (" + first + ")";
  return text;
}

epilogue::TextOptions options_for(const templates::Template& kernel) {
  epilogue::TextOptions options;
  options.results.clear();
  for (const int bits : kernel.hole.result_bits)
    options.results.push_back(bits == 8    ? byte_of(kernel)
                              : bits == 16 ? ir::DType::BF16
                                           : ir::DType::F32);
  options.accumulator = kernel.hole.accumulator_type;
  return options;
}

Result<KernelRequest> request_for(const templates::Template& kernel, ir::Mode mode) {
  ATTACCA_TRY(const auto parsed, epilogue::parse_text(text_for(kernel), options_for(kernel)));
  KernelRequest request;
  request.kernel = &kernel;
  if (!kernel.input_types.empty()) request.a_type = request.b_type = kernel.input_types.back();
  if (kernel.mixed_inputs) request.a_type = kernel.input_types.front();
  epilogue::Epilogue epilogue = parsed.epilogue;
  if (kernel.hole.maxima > 0) {
    epilogue::Output amax;
    amax.kind = epilogue::OutputKind::FullReduce;
    amax.reduction = ir::Op::AMax;
    amax.access.strides = {0, 0};
    amax.value = epilogue.outputs[0].value;
    if (ir::size_of(epilogue.outputs[0].dtype) == 1)
      amax.value =
          epilogue.nodes[static_cast<size_t>(amax.value) - epilogue.inputs.size()].operands[0];
    epilogue.outputs.push_back(amax);
  }
  request.epilogue = epilogue::canonicalize(epilogue);
  request.mode = mode;
  request.capability = 90;
  auto binding = epilogue::bind(request.epilogue, kernel.hole);
  if (const auto* reason = std::get_if<std::string>(&binding)) return fail(*reason, kernel.name);
  request.binding = std::get<epilogue::Binding>(std::move(binding));
  return request;
}

TEST(TemplateBuild, EveryTemplateBecomesACubin) {
  const auto catalog = templates::Catalog::open(nullptr);
  ASSERT_TRUE(catalog) << to_string(catalog.error());
  ASSERT_FALSE(catalog->templates().empty());
  const testing::Folder folder;
  Cache cache({.folder = folder.cache()});
  for (const templates::Template& kernel : catalog->templates())
    for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
      const auto request = request_for(kernel, mode);
      ASSERT_TRUE(request) << to_string(request.error());
      const auto cubin = build(*request, cache);
      ASSERT_TRUE(cubin) << kernel.name << "\n" << to_string(cubin.error());
      const std::string_view image(cubin->bytes->data(), cubin->bytes->size());
      EXPECT_TRUE(
          image.starts_with("\x7f"
                            "ELF"))
          << kernel.name;
      EXPECT_NE(image.find(kernel.kernel), std::string_view::npos) << kernel.name;
      EXPECT_EQ(image.find("attacca_hole"), std::string_view::npos) << kernel.name;
    }
}

// The compute capability in a cubin's ELF header: bits 8 to 15 of e_flags (CUDA 13), at byte 48.
int capability_of(const Cubin& cubin) {
  return cubin.bytes->size() > 52 ? static_cast<uint8_t>((*cubin.bytes)[49]) : 0;
}

// "packed_wgmma" and "mma" and so on: names begin with their folder's, and packed weights have two
// kernels.
std::string family_of(const templates::Template& kernel) {
  for (const char* two : {"packed_wgmma", "grouped_codes", "grouped_mma"})
    if (kernel.name.starts_with(two)) return two;
  return kernel.name.substr(0, kernel.name.find('_'));
}

// The template of least PTX for each family and least compute capability.
std::map<std::pair<std::string, int>, const templates::Template*> representatives(
    const templates::Catalog& catalog) {
  std::map<std::pair<std::string, int>, const templates::Template*> chosen;
  for (const templates::Template& kernel : catalog.templates()) {
    const templates::Template*& best = chosen[{family_of(kernel), kernel.min_capability}];
    if (best == nullptr ||
        std::filesystem::file_size(kernel.path) < std::filesystem::file_size(best->path))
      best = &kernel;
  }
  return chosen;
}

TEST(TemplateBuild, EveryFamilyAssemblesForEveryArchitectureThatMayRunIt) {
  const auto catalog = templates::Catalog::open(nullptr);
  ASSERT_TRUE(catalog) << to_string(catalog.error());
  const testing::Folder folder;
  Cache cache({.folder = folder.cache()});
  std::map<int, std::set<std::string>> assembled;
  for (const auto& [key, kernel] : representatives(*catalog))
    for (const int capability : {80, 89, 90, 100, 120}) {
      if (capability < kernel->min_capability || capability > kernel->max_capability) continue;
      auto request = request_for(*kernel, ir::Mode::Fp32);
      ASSERT_TRUE(request) << to_string(request.error());
      request->capability = capability;
      const auto cubin = build(*request, cache);
      ASSERT_TRUE(cubin) << kernel->name << " for " << capability << "\n"
                         << to_string(cubin.error());
      EXPECT_EQ(capability_of(*cubin), capability) << kernel->name;
      assembled[capability].insert(key.first);
    }
  const std::set<std::string> any = {"grouped_mma", "mma", "packed", "pointwise"};
  for (const int capability : {80, 89, 100, 120})
    EXPECT_TRUE(std::includes(assembled[capability].begin(), assembled[capability].end(),
                              any.begin(), any.end()))
        << capability;
  EXPECT_GT(assembled[90].size(), any.size());
}

// How many kernels were assembled that `is_checked`.
int expect_no_spills(bool (*is_checked)(const templates::Template&),
                     const std::vector<int>& capabilities) {
  const auto catalog = templates::Catalog::open(nullptr);
  EXPECT_TRUE(catalog) << to_string(catalog.error());
  const testing::Folder folder;
  Cache cache({.folder = folder.cache()});
  int assembled = 0;
  for (const templates::Template& kernel : catalog->templates()) {
    if (!is_checked(kernel)) continue;
    for (const int capability : capabilities) {
      auto request = request_for(kernel, ir::Mode::Fp32);
      EXPECT_TRUE(request) << to_string(request.error());
      request->capability = capability;
      const auto cubin = build(*request, cache);
      EXPECT_TRUE(cubin) << kernel.name << "\n" << to_string(cubin.error());
      const auto use = machine_use(*cubin->bytes, kernel.kernel);
      EXPECT_TRUE(use) << kernel.name;
      EXPECT_EQ(use->local_bytes, 0U) << kernel.name << " for " << capability;
      EXPECT_GT(use->registers, 0U);
      ++assembled;
    }
  }
  return assembled;
}

// Of kernels that no test runs on the devices that they are for.
TEST(TemplateBuild, GroupsOfRowsByMmaSyncSpillNoRegister) {
  const auto is_checked = [](const templates::Template& kernel) {
    return kernel.name.starts_with("grouped_mma_");
  };
  EXPECT_GE(expect_no_spills(is_checked, {80, 86, 89, 90, 100, 120}), 6);
}

TEST(TemplateBuild, GroupsOfScaledBlocksSpillNoRegister) {
  const auto is_checked = [](const templates::Template& kernel) {
    return kernel.grouped && kernel.scaled_blocks;
  };
  EXPECT_GE(expect_no_spills(is_checked, {90}), 2);
}

}  // namespace
}  // namespace attacca::gpu
