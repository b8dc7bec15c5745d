// Several problems that one launch of one template computes. Each block computes a part of one of
// them (ptx/splice/several.hpp), so that problems too small to fill the device fill it together.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Parameters in a kernel's constant memory limit it.
inline constexpr size_t kMostTogether = 8;

// Why no launch of this template computes several problems of this class; nothing: one does.
std::optional<std::string> reason_against_several(const problem::Problem& problem,
                                                  const templates::Template& kernel);

// The kernel that computes `problems` problems like this one.
gpu::KernelRequest request_of_several(const problem::Problem& problem,
                                      const templates::Template& kernel,
                                      const epilogue::Binding& binding, int capability,
                                      size_t problems);

// The operands of all problems, in the order of the problems: the addresses that the launch takes.
template <class T>
problem::Operands<T> one_after_another(std::span<const problem::Operands<T>> all) {
  problem::Operands<T> joined;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const problem::Operands<T>& each : all) {
    append(joined.products, each.products);
    append(joined.kernel, each.kernel);
    append(joined.inputs, each.inputs);
    append(joined.outputs, each.outputs);
    append(joined.indices, each.indices);
  }
  return joined;
}

// The reverse: gives each of `all`, which have their shapes, its part.
template <class T>
void take_apart(const problem::Operands<T>& joined, std::span<problem::Operands<T>> all) {
  size_t product = 0, kernel = 0, input = 0, output = 0, index = 0;
  const auto take = [](auto& to, const auto& from, size_t& first) {
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(first), to.size(), to.begin());
    first += to.size();
  };
  for (problem::Operands<T>& own : all) {
    take(own.products, joined.products, product);
    take(own.kernel, joined.kernel, kernel);
    take(own.inputs, joined.inputs, input);
    take(own.outputs, joined.outputs, output);
    take(own.indices, joined.indices, index);
  }
}

// Errors: a kernel that does not build. REQUIRES: 2 to kMostTogether problems with the same m, k,
// epilogue, dtypes and mode, one product each, no batches; a candidate with a binding that
// legality() gave for each of them, and a template that reason_against_several() has nothing
// against.
Result<std::unique_ptr<Runnable>> make_together(const std::shared_ptr<Toolbox>& toolbox,
                                                std::vector<problem::Problem> problems,
                                                const Candidate& candidate);
// A launch for each, of which launch::prepare() made the runnables: what make_together() is
// compared with.
std::unique_ptr<Runnable> one_by_one(const std::vector<problem::Problem>& problems,
                                     std::vector<std::unique_ptr<Runnable>> runnables);

}  // namespace attacca::launch
