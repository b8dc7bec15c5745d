// The same product and epilogue three ways: fused, op by op, and by oneDNN's own post-ops.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph/dtype.hpp"

namespace attacca::bench {

struct Shape {
  int64_t m, n, k;
};

enum class Chain { BiasGelu, BiasSiluResidual };

struct Case {
  Shape shape;
  ir::DType dtype;
  Chain chain;
};
std::string name(const Case& c);  // "bf16 1024x1024x1024 bias+gelu"
std::vector<Case> all_cases();

struct Contender {
  std::string name;  // "fused", "op_by_op", "post_ops"
  std::function<void()> run;
  // The implementation that computes the product, where known.
  std::string implementation = {};
};

// Fused first. Aborts if a contender cannot be built. Everything is packed and run once.
std::vector<Contender> contenders(const Case& c, int threads);

}  // namespace attacca::bench
