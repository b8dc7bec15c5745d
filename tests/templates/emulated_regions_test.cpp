// Regions of graphs by emulated kernels with the emitted epilogues in their holes, without a GPU:
// cut for an H200, matched with a template, described for its builder, and compared with the
// interpreter.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "gpu/devices.hpp"
#include "host/metadata.hpp"
#include "launch/arguments.hpp"
#include "launch/legality.hpp"
#include "support/check.hpp"
#include "templates/emulator/kernels.hpp"
#include "templates/metadata.hpp"
#include "templates/regions/cases.hpp"
#include "templates/regions/holes.hpp"

namespace attacca::emulator {
namespace {

using testing::RegionCase;

constexpr size_t kCasesOfEach = 6;
// A place of bf16: sums that are taken in another order may be rounded to the next one, and results
// of f32 show it.
constexpr double kSlack = 0x1p-8;

// A case that a kernel can compute, with the number of its hole.
struct Match {
  const RegionCase* region;
  std::shared_ptr<const epilogue::Binding> binding;
  size_t hole;
};

templates::Template template_of(const Kernel& kernel) {
  auto made = templates::parse_metadata(attacca_description::metadata(*kernel.record), "a record");
  ATTACCA_CHECK(made.has_value(), to_string(made.error()));
  made->builder = &kernel.record->entry;
  return *std::move(made);
}

// Of few multiprocessors, so that a block has several tiles.
const gpu::DeviceInfo& device() {
  static const gpu::DeviceInfo described = [] {
    gpu::DeviceInfo info = *gpu::known_device("h200");
    info.sm_count = 4;
    return info;
  }();
  return described;
}

launch::Candidate candidate_of(const Kernel& kernel) {
  return {.kind = launch::CandidateKind::Fused, .kernel = kernel.record->entry.name};
}

// Whether the kernel itself is for these dtypes, and reads its rows and weights as they lie: its
// PTX would be changed for others, or another kernel would run before it.
bool is_its_own(const problem::Problem& problem, const templates::Template& kernel) {
  if (problem.products.empty() || kernel.input_types.empty())
    return problem.products.empty() && kernel.input_types.empty();
  const auto& views = problem.views.products[0];
  const bool b_is_other = kernel.widened || kernel.packed_bits > 0 || kernel.code_bits > 0;
  return views.a.dtype == kernel.input_types[0] &&
         (b_is_other || views.b.dtype == kernel.input_types[0]) &&
         names_rows(problem) == kernel.gathered && has_codes(problem) == (kernel.code_bits > 0);
}

class EmulatedRegions : public ::testing::TestWithParam<Kernel> {
 protected:
  // Finds the cases of all kernels at once: their holes are compiled together.
  static void SetUpTestSuite() {
    for (const Kernel& kernel : kernels()) {
      const templates::Template described = template_of(kernel);
      std::vector<const RegionCase*> cases;
      for (const RegionCase& each : testing::region_cases()) cases.push_back(&each);
      std::shuffle(cases.begin(), cases.end(),
                   std::mt19937(std::hash<std::string>()(described.name)));
      std::vector<Match>& own = matches_[described.name];
      for (const RegionCase* each : cases) {
        if (own.size() == kCasesOfEach) break;
        if (!is_its_own(each->problem, described)) continue;
        const auto legal =
            launch::legality(each->problem, described, device(), candidate_of(kernel));
        if (std::holds_alternative<std::string>(legal)) continue;
        const auto& binding = std::get<0>(legal);
        epilogue::CudaOptions options;
        options.mode = each->problem.mode;
        options.function = testing::Holes::kFunction;
        own.push_back({each, binding,
                       holes_.add(epilogue::emit_cuda(each->problem.epilogue, described.hole,
                                                      *binding, options))});
      }
    }
    holes_.compile();
  }

  static inline testing::Holes holes_;
  static inline std::map<std::string, std::vector<Match>> matches_;
};

TEST_P(EmulatedRegions, ComputeAsTheInterpreter) {
  const Kernel& kernel = GetParam();
  const templates::Template described = template_of(kernel);
  const std::vector<Match>& matches = matches_[described.name];
  EXPECT_FALSE(matches.empty());
  uint32_t seed = 0;
  for (const Match& match : matches) {
    const problem::Problem& problem = match.region->problem;
    attacca_gemm_arguments arguments = launch::describe(problem, described, *match.binding,
                                                        candidate_of(kernel), device().sm_count);
    const testing::RegionMemory memory(*match.region);
    launch::set_addresses(problem, problem.factors(), *match.binding, memory.addresses(),
                          arguments);
    hole = holes_.at(match.hole);
    const std::string refused = launch(kernel, arguments, seed++);
    hole = nullptr;
    ASSERT_EQ(refused, "") << match.region->text;
    EXPECT_EQ(compare_with_reference(match.region->reference, memory.outputs(), kSlack), "")
        << match.region->text;
  }
}

ATTACCA_NEEDS_KERNELS(EmulatedRegions);
INSTANTIATE_TEST_SUITE_P(Templates, EmulatedRegions, ::testing::ValuesIn(kernels()),
                         [](const auto& test) { return test.param.record->entry.name; });

}  // namespace
}  // namespace attacca::emulator
