// Every built template: its metadata, builder and PTX agree, and the hole can be filled.
#include "templates/catalog.hpp"

#include <algorithm>
#include <set>

#include "fmt/format.h"

#include "gpu/compile/assemble.hpp"
#include "ptx/splice/splice.hpp"
#include "templates_testing.hpp"

namespace attacca::templates {
namespace {

using testing::built;

TEST(Catalog, HoldsTheRepresentativeFew) {
  const auto& templates = built().templates();
  const auto count = [&](auto matches) {
    return std::count_if(templates.begin(), templates.end(), matches);
  };
  EXPECT_GE(count([](const Template& t) { return t.family == Family::Pointwise; }), 3);
  EXPECT_GE(count([](const Template& t) { return t.arch == "sm_80" && t.any_strides; }), 2);
  EXPECT_GE(count([](const Template& t) { return t.schedule == Schedule::Multistage; }), 2);
}

TEST(Catalog, FindsByName) {
  const Template& first = built().templates().front();
  EXPECT_EQ(built().find(first.name), &first);
  EXPECT_EQ(built().find("no_such_template"), nullptr);
}

class Built : public ::testing::TestWithParam<std::string> {
 protected:
  const Template& kernel() const { return *built().find(GetParam()); }

  ptx::Module module(std::string text) const {
    auto parsed = ptx::parse(std::move(text), kernel().path);
    if (!parsed) {
      ADD_FAILURE() << to_string(parsed.error());
      std::abort();
    }
    return *std::move(parsed);
  }

  // For the last of its types, where it has any.
  void expect_assembles(const std::string& body) const {
    const ir::DType type =
        kernel().input_types.empty() ? ir::DType::F16 : kernel().input_types.back();
    const auto text = instantiate(kernel(), type, type);
    ASSERT_TRUE(text) << to_string(text.error());
    const auto spliced = ptx::splice(module(*text), module(body), "attacca_hole");
    ASSERT_TRUE(spliced) << to_string(spliced.error());
    EXPECT_GT(spliced->calls, 0u);
#if !defined(__SANITIZE_ADDRESS__)  // the assembler is another program
    const auto assembler = gpu::describe_assembler();
    ASSERT_TRUE(assembler) << to_string(assembler.error());
    ASSERT_NE(assembler->kind, gpu::Assembler::Driver) << "no assembler: run tools/setup.sh";
    const auto image = gpu::assemble(spliced->ptx, kernel().arch);
    EXPECT_TRUE(image) << to_string(image.error());
#endif
  }
};

TEST_P(Built, MetadataIsPlausible) {
  const Template& t = kernel();
  EXPECT_EQ(t.builder->name, t.name);
  EXPECT_LE(t.min_capability, t.max_capability);
  EXPECT_EQ(t.threads % 32, 0);
  EXPECT_GT(t.threads, 0);
  EXPECT_LE(t.shared_bytes, 232448);
  EXPECT_EQ(t.hole.accumulators > 0, t.family == Family::Gemm);
  EXPECT_EQ(t.input_types.empty(), t.family == Family::Pointwise);
  EXPECT_GT(t.builder->params_bytes, sizeof(attacca_hole_context));
}

TEST_P(Built, PtxHasTheKernelAndTheHoleThatMetadataSays) {
  const ptx::Module parsed = module(testing::read(kernel().path));
  const ptx::Function* entry = nullptr;
  const ptx::Function* hole = nullptr;
  for (const ptx::Item& item : parsed.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function && function->is_entry && function->name == kernel().kernel) entry = function;
    if (function && function->name == "attacca_hole") hole = function;
  }
  ASSERT_TRUE(entry);
  ASSERT_EQ(entry->parameters.size(), 1u);
  EXPECT_EQ(ptx::size_in_bytes(entry->parameters[0]), kernel().builder->params_bytes);
  EXPECT_EQ(entry->parameters[0].alignment, kernel().builder->params_align);
  ASSERT_TRUE(hole);
  EXPECT_FALSE(hole->body);
  std::vector<std::string_view> types;
  for (const ptx::Variable& parameter : hole->parameters) types.push_back(parameter.type.substr(1));
  EXPECT_EQ(types, testing::hole_parameters(kernel().hole));
  ASSERT_EQ(hole->results.size(), 1u);
  EXPECT_EQ(ptx::size_in_bytes(hole->results[0]), testing::result_bytes(kernel().hole));
}

// With -rdc=true nvcc assumes that other files write them, and loads them from memory while the
// tensor cores wait.
TEST_P(Built, LoadsNoConstantsFromMemory) {
  const ptx::Module parsed = module(testing::read(kernel().path));
  std::set<std::string_view> variables;
  for (const ptx::Item& item : parsed.items)
    if (const auto* declaration = std::get_if<ptx::Declaration>(&item))
      for (const ptx::Variable& variable : declaration->variables)
        if (variable.space == ".global") variables.insert(variable.name);
  for (const ptx::Item& item : parsed.items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (!function || !function->body) continue;
    for (uint32_t i = function->body->span.begin; i < function->body->span.end; ++i) {
      const std::string_view word = parsed.tokens[i].text();
      EXPECT_FALSE(variables.contains(word)) << word;
    }
  }
}

TEST_P(Built, AssemblesWithATrivialBody) {
  expect_assembles(testing::trivial_body(kernel()));
}

TEST_P(Built, AssemblesWithABodyThatUsesEveryArgument) {
  expect_assembles(testing::thorough_body(kernel()));
}

TEST_P(Built, InstantiatesForItsOtherTypes) {
  if (kernel().family == Family::Pointwise) return;
  const ir::DType written = kernel().input_types.front(), other = kernel().input_types.back();
  const auto text = instantiate(kernel(), other, other);
  ASSERT_TRUE(text) << to_string(text.error());
  // Dot products widen their factors, all others multiply them in one instruction.
  const auto suffix = [&](ir::DType dtype) {
    const std::string_view name = ir::name(dtype);
    if (kernel().schedule == Schedule::Dot) return fmt::format("cvt.f32.{}", name);
    return fmt::format(".{0}.{0}", ir::is_fp8(dtype) ? name.substr(2) : name);
  };
  EXPECT_EQ(text->find(suffix(written)) == std::string::npos, other != written);
  EXPECT_NE(text->find(suffix(other)), std::string::npos);
  EXPECT_EQ(*instantiate(kernel(), written, written), testing::read(kernel().path));
  const auto none = instantiate(kernel(), ir::DType::F64, ir::DType::F64);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().what, "template " + kernel().name + " takes no f64 by f64 operands");
}

INSTANTIATE_TEST_SUITE_P(Templates, Built, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Template& t : built().templates()) names.push_back(t.name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace attacca::templates
