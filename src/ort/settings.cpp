#include "ort/settings.hpp"

#include <charconv>
#include <string_view>

namespace attacca::ort {
namespace {

constexpr std::string_view kPrefix = "ep.attaccaexecutionprovider.";

Status refuse(std::string_view name, std::string_view value, std::string fix) {
  return {"the option " + std::string(name) + " is '" + std::string(value) + "'",
          std::string(kProviderName) + "'s options", std::move(fix)};
}

template <class T>
bool parse(std::string_view text, T& into) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && rest == text.data() + text.size();
}

Status set_policy(Settings& settings, std::string_view value) {
  if (value != "measure" && value != "always") return refuse("policy", value, "measure or always");
  settings.policy = value == "always" ? Policy::Always : Policy::Measure;
  return {};
}

// "cuda:1"
bool is_gpu(std::string_view device) {
  int ordinal = 0;
  return device.starts_with("cuda:") && parse(device.substr(5), ordinal) && ordinal >= 0;
}

Status set_device(Settings& settings, std::string_view value) {
  settings.plan.device = value == "cuda" ? "cuda:0" : value;
  if (value == "cpu" || is_gpu(settings.plan.device)) return {};
  return refuse("device", value, "cpu, cuda, cuda:1");
}

Status set_tuning(Settings& settings, std::string_view value) {
  std::string names;
  for (size_t i = 0; i < std::size(kTuningNames); ++i) {
    if (value == kTuningNames[i]) {
      settings.plan.tuning = static_cast<Tuning>(i);
      return {};
    }
    names.append(names.empty() ? "" : ", ").append(kTuningNames[i]);
  }
  return refuse("tuning", value, names);
}

Status set_mode(Settings& settings, std::string_view value) {
  for (size_t i = 0; i < std::size(kModeNames); ++i)
    if (value == kModeNames[i]) {
      settings.plan.mode = static_cast<Mode>(i);
      return {};
    }
  return refuse("mode", value, "fp32 or eager");
}

Status set_threads(Settings& settings, std::string_view value) {
  if (parse(value, settings.plan.threads) && settings.plan.threads >= 0) return {};
  return refuse("threads", value, "a number; 0: all cores");
}

Status set_seconds(Settings& settings, std::string_view value) {
  if (parse(value, settings.measure_seconds) && settings.measure_seconds >= 0) return {};
  return refuse("measure_seconds", value, "a number that is not negative");
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status set_nodes(Settings& settings, std::string_view value) {
  for (const std::string_view region : split(value, ';')) {
    settings.nodes.emplace_back();
    for (const std::string_view name : split(region, ',')) settings.nodes.back().emplace_back(name);
  }
  return {};
}

Status set_dims(Settings& settings, std::string_view value) {
  for (const std::string_view one : split(value, ',')) {
    const size_t equals = one.rfind('=');
    int64_t size = 0;
    if (equals == one.npos || !parse(one.substr(equals + 1), size) || size <= 0)
      return refuse("dims", value, "such as batch=8,seq=128");
    settings.dims[std::string(one.substr(0, equals))] = size;
  }
  return {};
}

struct Row {
  std::string_view name;
  Status (*set)(Settings&, std::string_view);
};
constexpr Row kRows[] = {{"policy", set_policy}, {"nodes", set_nodes},
                         {"mode", set_mode},     {"threads", set_threads},
                         {"dims", set_dims},     {"measure_seconds", set_seconds},
                         {"device", set_device}, {"tuning", set_tuning}};

Status set(Settings& settings, std::string_view name, std::string_view value) {
  std::string names;
  for (const Row& row : kRows) {
    if (row.name == name) return row.set(settings, value);
    names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return {"there is no option '" + std::string(name) + "'",
          std::string(kProviderName) + "'s options", "its options are " + names};
}

}  // namespace

int64_t size_of(const Settings& settings, const std::string& symbol) {
  const auto given = settings.dims.find(symbol);
  if (given != settings.dims.end()) return given->second;
  return symbol.find("batch") != symbol.npos ? 1 : 128;
}

Result<Settings> settings_of(const OrtSessionOptions* options, const std::string& memory) {
  OrtKeyValuePairs* raw = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &raw));
  const Ort::KeyValuePairs entries{raw};
  Settings settings;
  settings.memory = settings.plan.device = memory;
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Ort::GetApi().GetKeyValuePairs(entries, &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key == "ep.context_enable") settings.save = values[i] == std::string_view("1");
    if (!key.starts_with(kPrefix)) continue;
    if (Status status = set(settings, key.substr(kPrefix.size()), values[i]); !status)
      return status;
  }
  if (memory != "cpu" && settings.plan.device != memory)
    return refuse("device", settings.plan.device,
                  "the session's device has the memory of " + memory + ": choose the device of " +
                      settings.plan.device + ", or leave the option out");
  return settings;
}

}  // namespace attacca::ort
