// Times a region beside ONNX Runtime's own nodes: two sessions of the region's model, one with
// Attacca and one without, run in turns on random inputs.
#pragma once

#include "ort/choose.hpp"
#include "ort/settings.hpp"

namespace attacca::ort {

// For one session, whose settings give the time for all measurements and the dynamic sizes. What
// was measured before on this machine is not measured again.
class Measurer {
 public:
  explicit Measurer(const Settings& settings) : settings_(settings) {}
  Verdict judge(const GraphView& graph, const Model& structure, const Model& whole);

 private:
  const Settings& settings_;
  double seconds_ = 0;  // spent so far
};

}  // namespace attacca::ort
