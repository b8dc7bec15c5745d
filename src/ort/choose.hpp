// Which nodes of a graph Attacca takes, and why it leaves the others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attacca/attacca.hpp"
#include "ort/model.hpp"
#include "ort/partition.hpp"
#include "ort/region.hpp"

namespace attacca::ort {

struct Verdict {
  bool claim = true;
  std::string why;  // "1.31 times as fast as ONNX Runtime's nodes (...)"; may be empty
};
// `structure`: the model with Constants::Structure, equal for layers of equal structure.
using Judge = std::function<Verdict(const GraphView&, const Model& structure, const Model& whole)>;

struct Claim {
  Group nodes;
  std::shared_ptr<Region> region;
};

struct Choice {
  std::vector<Claim> claims;
  std::vector<std::string> notes;  // one line for each claim and each reason
};

// Whole groups where they can be imported, compiled and are claimed by the judge; else each product
// with what follows it, by the same rule. Throws Ort::Exception.
Choice choose(const GraphView& graph, const Options& options, const Judge& judge);

}  // namespace attacca::ort
