// The options of the execution provider.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attacca/attacca.hpp"
#include "ort/api.hpp"

namespace attacca::ort {

inline constexpr char kProviderName[] = "AttaccaExecutionProvider";

// Which regions are claimed: those that ran faster than ONNX Runtime's own nodes, or all.
enum class Policy : uint8_t { Measure, Always };

struct Settings {
  Policy policy = Policy::Measure;
  // Not empty: exactly these regions are claimed, by the names of their nodes.
  std::vector<std::vector<std::string>> nodes;
  Options plan;  // device, mode, threads, tuning
  // Where the session's tensors are that regions read and write: "cpu", "cuda:0". With "cpu" and
  // plans on a GPU, regions copy them.
  std::string memory = "cpu";
  std::map<std::string, int64_t> dims;  // sizes to measure with
  double measure_seconds = 30;          // that a session's measurements may take
  // Whether this ONNX Runtime has session.intra_op.spin_duration_us.
  bool spin_can_be_short = false;
  bool save = false;  // ONNX Runtime writes a model with the regions (ep.context_enable)
};

// The size of a symbol to measure with: that of `dims`, else 1 of a batch and 128 of anything else.
int64_t size_of(const Settings& settings, const std::string& symbol);

// The key of a device's memory, as in Settings, in the metadata of an execution provider's device.
inline constexpr char kMemoryKey[] = "device";

// From the entries "ep.attaccaexecutionprovider.NAME" and "ep.context_enable" of a session's
// options. `memory`: that of the device that the session chose. Errors: an unknown name or value; a
// device that cannot use that memory. Throws Ort::Exception.
Result<Settings> settings_of(const OrtSessionOptions* options, const std::string& memory);

}  // namespace attacca::ort
