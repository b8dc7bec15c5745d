// Running one candidate for one problem on a device, from host tensors to host tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "launch/candidate.hpp"
#include "launch/runnable.hpp"
#include "random_rows.hpp"
#include "reference.hpp"
#include "run/gemm_graph.hpp"
#include "run/shared/target.hpp"

namespace attacca::testing {

// The device all tests share. Aborts with the reason if there is none: these tests need a GPU.
const std::shared_ptr<launch::Toolbox>& toolbox();

run::Target device_target(ir::Mode mode = ir::Mode::Fp32, bool fuse = true);

struct Extents {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};
std::string to_string(const Extents& extents);

// A GEMM's graph, its one region and inputs for it.
struct Case {
  ir::Graph graph;   // as written
  ir::Graph folded;  // as partitioned
  fuse::Region region;
  ir::SymbolValues symbols;
  ir::Mode mode = ir::Mode::Fp32;
  ir::Bindings inputs;
  problem::Problem problem;
};
Result<Case> make_case(const run::GemmForm& form, const Extents& extents, ir::Mode mode,
                       uint64_t seed);
// The same of a graph that has one region.
Result<Case> make_case(const ir::Graph& graph, const ir::SymbolValues& symbols, ir::Mode mode,
                       ir::Bindings inputs);

// The outputs, poisoned before the launch. `shift`: bytes by which every buffer is moved off its
// alignment of 256 (the problem must have been told).
Result<std::vector<ir::Tensor>> run_candidate(const Case& each, const launch::Candidate& candidate);

// As that of reference.hpp.
std::string compare_with_reference(const Case& each, const std::vector<ir::Tensor>& outputs);

// For cases that many candidates are compared on.
Reference make_reference(const Case& each);

// Runs `work(i)` for 0 <= i < count on every core: interpreters and compilers are the slow part.
void in_parallel(int count, const std::function<void(int)>& work);

// Bits as f64 numbers of one output that differ, for messages; empty: bit for bit equal.
std::string compare_bits(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& want);

// A case that every template is asked to compute.
struct Prepared {
  std::string name;
  std::optional<Case> each;
  Reference reference;
};

// Of a graph without symbols, with random inputs but for those that are given.
Prepared prepare_text(const std::string& text, ir::Bindings given, uint64_t seed, ir::Mode mode);

// A test by template is given the template's name; empty: the unfused path.
std::string template_test_name(const ::testing::TestParamInfo<std::string>& info);

// A template's kernel by name; empty: the unfused path.
launch::Candidate candidate_of(const std::string& kernel);

// Whether the template refuses the case; the unfused path never does.
bool is_refused(const Case& each, const std::string& kernel);

// Runs every case that is not refused; `wrong` returns what is wrong with its outputs, empty if
// nothing is. At least one must run.
void run_all(
    const std::string& kernel, const std::vector<Prepared>& cases,
    const std::function<std::string(const Prepared&, const std::vector<ir::Tensor>&)>& wrong);
// The same, compared with the reference; templates are allowed `slack`. The unfused path rounds the
// product to its dtype, which is most of an f32 result's error: it is allowed `unfused_slack`.
void run_all(const std::string& kernel, const std::vector<Prepared>& cases, double unfused_slack,
             double slack = 0);

// Runs every template three times on every case of at least so many rows that it does not refuse;
// the results must be the same bit for bit. Returns how many times a template met a case.
int expect_same_bits(const std::vector<Prepared>& cases, const std::vector<std::string>& kernels,
                     int64_t least_rows);

}  // namespace attacca::testing
