// Times nodes with regions of Attacca's beside ONNX Runtime alone: two sessions of a model of these
// nodes, run in turns on random inputs.
#pragma once

#include "ort/choose.hpp"
#include "ort/settings.hpp"

namespace attacca::ort {

// For one session, whose settings give the time for all measurements and the dynamic sizes. What
// was measured before on this machine is not measured again.
class Measurer {
 public:
  Measurer(const GraphView& graph, const Settings& settings) : graph_(graph), settings_(settings) {}
  // By the settings' policy. Valid as long as this is.
  Judge judge();

 private:
  Verdict judge(const Group& nodes, const std::vector<Group>& regions);

  const GraphView& graph_;
  const Settings& settings_;
  double seconds_ = 0;  // spent so far
};

}  // namespace attacca::ort
