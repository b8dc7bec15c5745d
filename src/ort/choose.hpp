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
#include "ort/settings.hpp"

namespace attacca::ort {

struct Verdict {
  bool claim = true;
  bool measured = true;  // false: there is no time of it
  std::string why = {};  // "1.31 times as fast as ONNX Runtime's nodes (...)"; may be empty
};
// Whether these nodes are faster where these regions of them are Attacca's.
using Judge = std::function<Verdict(const Group& nodes, const std::vector<Group>& regions)>;

struct Claim {
  Group nodes;
  std::shared_ptr<Region> region;
  std::string why;
  std::string model = {};  // of the region, where the settings ask to save it
};

struct Choice {
  std::vector<Claim> claims;
  std::vector<std::string> notes;  // one line for each claim and each reason
};

// Whole groups where they can be imported, compiled and are claimed by the judge; else each product
// with what follows it, by the same rule. Claims of parts, and all claims of the graph, are judged
// together, too. Throws Ort::Exception.
// Extents of the graph that are found to be equal, or sums and products of others, are named so.
Choice choose(GraphView& graph, const Settings& settings, const Judge& judge);

// These regions, whatever they cost: names of nodes. Names that the graph lacks are ignored.
// Errors: those of the importer and of Plan::compile().
Result<Choice> choose_named(const GraphView& graph, const Settings& settings);

}  // namespace attacca::ort
