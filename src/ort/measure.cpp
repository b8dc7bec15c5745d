#include "ort/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "ort/verdicts.hpp"

namespace attacca::ort {
namespace {

constexpr double kWins = 1.10;         // what noise may give is no gain
constexpr double kNearly = 0.95;       // that three of four rounds reach
constexpr double kTurnSeconds = 3e-3;  // that one side runs before the other
constexpr int kLeastRounds = 7, kMostRounds = 40;
constexpr double kRoundsSeconds = 0.35;
constexpr double kSpinSeconds = 1e-3;  // that ONNX Runtime's threads wait for work

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Size {
  std::string symbol;
  int64_t value = 0;
};

int64_t size_of(const GraphView& graph, const Settings& settings, const std::string& symbol) {
  const auto known = graph.sizes.find(symbol);
  return known != graph.sizes.end() ? known->second : ort::size_of(settings, symbol);
}

// The size of each symbol of the model, in its order.
std::vector<Size> sizes_of(const GraphView& graph, const Model& model, const Settings& settings) {
  std::vector<Size> sizes;
  for (const std::string& symbol : model.symbols)
    sizes.push_back({symbol, size_of(graph, settings, symbol)});
  return sizes;
}

// " at batch=1, seq=128"
std::string text_of(const std::vector<Size>& sizes) {
  std::string text;
  for (const Size& size : sizes)
    text += (text.empty() ? " at " : ", ") + size.symbol + "=" + std::to_string(size.value);
  return text;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line;
  return {};
}

// "n0,n1;n4": the names that the model of the nodes gives to those of the regions.
std::string names_of(const Group& nodes, const std::vector<Group>& regions) {
  std::string text;
  for (const Group& region : regions) {
    if (!text.empty()) text += ';';
    for (const size_t node : region) {
      const auto at = std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin();
      text += (text.empty() || text.back() == ';' ? "n" : ",n") + std::to_string(at);
    }
  }
  return text;
}

// Nothing on the CPU.
std::string where(const Settings& settings) {
  if (settings.plan.device == "cpu") return {};
  const auto device = Device::open(settings.plan.device);
  return (device ? device->name() : settings.plan.device) + ' ' +
         (settings.memory == "cpu" ? "copied " : "") +
         std::string(kTuningNames[static_cast<size_t>(settings.plan.tuning)]) + '\n';
}

// Empty where the library cannot tell.
std::string stamp() {
  const auto found = decision_stamp();
  return found ? *found : std::string();
}

std::string key_of(const Model& structure, const std::string& regions,
                   const std::vector<Size>& sizes, const Settings& settings) {
  static const std::string machine =
      std::string(version()) + '\n' + stamp() + '\n' + Ort::GetApi().GetBuildInfoString() + '\n' +
      processor() + '\n' + std::to_string(std::thread::hardware_concurrency()) + '\n';
  std::string key = machine + where(settings) + std::to_string(settings.plan.threads) + ' ' +
                    std::string(kModeNames[static_cast<size_t>(settings.plan.mode)]);
  for (const Size& size : sizes) key += ' ' + std::to_string(size.value);
  return key + '\n' + regions + '\n' + structure.bytes;
}

// The model's inputs: floats of a normal distribution, bytes of any value, other integers 0 or 1,
// which are indices of almost every table.
class Inputs {
 public:
  Inputs(const GraphView& graph, const Model& model, const Settings& settings) {
    for (const size_t input : model.inputs) {
      const GraphValue& value = graph.values[input];
      std::vector<int64_t> shape;
      for (const Extent& extent : *value.shape)
        shape.push_back(extent.number >= 0 ? extent.number
                                           : size_of(graph, settings, extent.symbol));
      Ort::AllocatorWithDefaultOptions allocator;
      values_.push_back(
          Ort::Value::CreateTensor(allocator, shape.data(), shape.size(),
                                   static_cast<ONNXTensorElementDataType>(value.dtype)));
      size_t bytes = 0;
      Ort::ThrowOnError(Ort::GetApi().GetTensorSizeInBytes(values_.back(), &bytes));
      fill(value.dtype, static_cast<char*>(values_.back().GetTensorMutableRawData()), bytes);
    }
  }
  const std::vector<Ort::Value>& values() const { return values_; }

 private:
  template <class T, class F>
  static void each(char* data, size_t bytes, F f) {
    for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
      const T value = f();
      std::memcpy(data + at, &value, sizeof value);
    }
  }

  void fill(int32_t dtype, char* data, size_t bytes) {
    std::normal_distribution<float> normal;
    const auto real = [&] { return normal(random_); };
    const auto bit = [&] { return static_cast<int>(random_() & 1); };
    switch (dtype) {
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        return each<float>(data, bytes, real);
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
        return each<double>(data, bytes, real);
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
        return each<Ort::Float16_t>(data, bytes, [&] { return Ort::Float16_t(real()); });
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
        return each<Ort::BFloat16_t>(data, bytes, [&] { return Ort::BFloat16_t(real()); });
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        return each<int64_t>(data, bytes, bit);
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        return each<int32_t>(data, bytes, bit);
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
        return each<uint8_t>(data, bytes, bit);
      default:
        return each<uint8_t>(data, bytes, [&] { return static_cast<uint8_t>(random_()); });
    }
  }

  std::mt19937 random_{1};
  std::vector<Ort::Value> values_;
};

class Contender {
 public:
  Contender(const Ort::Env& env, const Model& model, const Ort::SessionOptions& options,
            const Inputs& inputs)
      : session_(env, model.bytes.data(), model.bytes.size(), options), inputs_(inputs) {
    ins_ = session_.GetInputNames();
    outs_ = session_.GetOutputNames();
    for (const std::string& name : ins_) in_names_.push_back(name.c_str());
    for (const std::string& name : outs_) out_names_.push_back(name.c_str());
  }

  void run() {
    session_.Run(Ort::RunOptions{nullptr}, in_names_.data(), inputs_.values().data(),
                 in_names_.size(), out_names_.data(), out_names_.size());
  }
  // Seconds of one run, over enough of them.
  double turn(int runs) {
    const auto start = Clock::now();
    for (int i = 0; i < runs; ++i) run();
    return seconds_since(start) / runs;
  }

 private:
  Ort::Session session_;
  const Inputs& inputs_;
  std::vector<std::string> ins_, outs_;
  std::vector<const char*> in_names_, out_names_;
};

Ort::SessionOptions options_for(const Settings& settings) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(settings.plan.threads);
  options.SetInterOpNumThreads(1);
  options.SetLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
  // Threads of one side that spin would slow the other; those that sleep after each call would be
  // slower than they are in the session.
  if (settings.spin_can_be_short)
    options.AddConfigEntry("session.intra_op.spin_duration_us",
                           std::to_string(int(kSpinSeconds * 1e6)).c_str());
  else
    options.AddConfigEntry("session.force_spinning_stop", "1");
  return options;
}

std::string value_of(const Ort::ConstKeyValuePairs& pairs, const char* key) {
  const char* const value = pairs.GetValue(key);
  return value == nullptr ? "" : value;
}

void add_attacca(const Ort::Env& env, const Settings& settings, const std::string& regions,
                 Ort::SessionOptions& options) {
  for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
    if (std::string_view(device.EpName()) != kProviderName ||
        value_of(device.EpMetadata(), kMemoryKey) != settings.memory)
      continue;
    options.AppendExecutionProvider_V2(
        const_cast<Ort::Env&>(env), {device},
        std::unordered_map<std::string, std::string>{
            {"nodes", regions},
            {"device", settings.plan.device},
            {"tuning", std::string(kTuningNames[static_cast<size_t>(settings.plan.tuning)])},
            {"threads", std::to_string(settings.plan.threads)},
            {"mode", std::string(kModeNames[static_cast<size_t>(settings.plan.mode)])}});
    return;
  }
  throw std::runtime_error("Attacca is not registered with this environment");
}

double quantile(std::vector<double> values, double part) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(part * double(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// After the threads of the other side have come to rest, and those of this one are awake.
double turn_of(Contender& contender, int runs, bool threaded) {
  if (threaded) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kSpinSeconds));
    contender.run();
  }
  return contender.turn(runs);
}

Times timed(Contender& ours, Contender& theirs, bool threaded) {
  for (Contender* each : {&ours, &theirs}) each->run();  // makes what is made once
  const double slower = std::max(ours.turn(1), theirs.turn(1));
  const int runs = std::clamp(static_cast<int>(kTurnSeconds / std::max(slower, 1e-9)), 1, 100);
  std::vector<double> our_times, their_times, ratios;
  const auto start = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kLeastRounds && seconds_since(start) > kRoundsSeconds) break;
    our_times.push_back(turn_of(ours, runs, threaded));
    their_times.push_back(turn_of(theirs, runs, threaded));
    ratios.push_back(their_times.back() / our_times.back());
  }
  // Other work on the machine only makes turns longer, and often those of one side more.
  const double fastest = quantile(their_times, 0) / quantile(our_times, 0);
  return {quantile(our_times, 0.5) * 1e6, quantile(their_times, 0.5) * 1e6,
          std::min(quantile(ratios, 0.5), fastest), quantile(ratios, 0.25)};
}

Times times_of(const GraphView& graph, const Model& model, const std::string& regions,
               const Settings& settings) {
  static std::mutex mutex;  // sessions that are created at one time measure one after the other
  const std::lock_guard lock(mutex);
  const Inputs inputs(graph, model, settings);
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "attacca");  // the process has one; this is another owner
  Ort::SessionOptions plain = options_for(settings), with_us = options_for(settings);
  add_attacca(env, settings, regions, with_us);
  Contender ours(env, model, with_us, inputs), theirs(env, model, plain, inputs);
  return timed(ours, theirs, settings.plan.threads != 1);
}

// Several regions, or one among other nodes, must only lose nothing: each has won by itself.
Verdict verdict(const Times& times, const std::vector<Size>& sizes, bool alone) {
  char text[128];
  std::snprintf(text, sizeof text,
                "%.2f times as fast as ONNX Runtime's nodes (medians %.1f against %.1f us",
                times.speedup, times.ours, times.theirs);
  const bool steady = !alone || times.sure >= kNearly;
  const bool wins = times.speedup >= (alone ? kWins : 1) && steady;
  const bool unsteady = times.speedup >= kWins && !steady;
  return {wins, true, text + text_of(sizes) + (unsteady ? "), but not in most rounds" : ")")};
}

}  // namespace

Judge Measurer::judge() {
  return [this](const Group& nodes, const std::vector<Group>& regions) {
    return settings_.policy == Policy::Always ? Verdict{} : judge(nodes, regions);
  };
}

Verdict Measurer::judge(const Group& nodes, const std::vector<Group>& regions) {
  const auto structure = model_of(graph_, nodes, Constants::Structure);
  if (!structure) return {false, false, structure.status().text()};
  const std::vector<Size> sizes = sizes_of(graph_, *structure, settings_);
  const std::string names = names_of(nodes, regions);
  const std::string key = key_of(*structure, names, sizes, settings_);
  auto times = known_times(key);
  if (!times) {
    if (seconds_ >= settings_.measure_seconds)
      return {false, false, "not measured: the time for measuring (measure_seconds) is over"};
    const auto start = Clock::now();
    const auto model = model_of(graph_, nodes, Constants::All);
    if (!model) return {false, false, model.status().text()};
    try {
      times = times_of(graph_, *model, names, settings_);
    } catch (const std::exception& error) {
      seconds_ += seconds_since(start);
      return {false, false, "could not be measured" + text_of(sizes) + ": " + error.what()};
    }
    seconds_ += seconds_since(start);
    keep_times(key, *times);
  }
  return verdict(*times, sizes, regions.size() == 1 && regions.front() == nodes);
}

}  // namespace attacca::ort
