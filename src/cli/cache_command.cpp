#include <chrono>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "gpu/cache/cache.hpp"
#include "support/text/escaped.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {
namespace {

using gpu::Cache;

std::string size_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

// The text after "template " in a key of gpu::cache_key; "?" where there is no such line.
std::string field(const std::string& key, const std::string& name) {
  const size_t line = key.find("\n" + name + " ");
  if (line == std::string::npos) return "?";
  const size_t begin = line + name.size() + 2;
  return key.substr(begin, key.find('\n', begin) - begin);
}

std::string hash_of(const Cache::FileState& entry) {
  return escaped(entry.file.name.substr(0, entry.file.name.find('.')));
}

std::string last_use_of(const Cache::FileState& entry) {
  return time_text(entry.file.last_use / 1'000'000'000);
}

std::string describe(const Cache::FileState& entry) {
  if (!entry.problem.empty()) return entry.problem;
  if (const std::string helper = field(entry.key, "helper"); helper != "?")
    return escaped(fmt::format("helper {} {}", helper, field(entry.key, "arch")));
  return escaped(fmt::format("{} {} {}", field(entry.key, "template"), field(entry.key, "input"),
                             field(entry.key, "mode")));
}

json::Value to_json(const Cache::FileState& entry) {
  json::Value value = json::Value::object();
  value.set("hash", hash_of(entry)).set("bytes", entry.file.bytes);
  value.set("last_use", last_use_of(entry));
  if (entry.problem.empty()) return value.set("key", entry.key);
  return value.set("problem", entry.problem);
}

uint64_t total_bytes(const std::vector<Cache::FileState>& entries) {
  uint64_t total = 0;
  for (const Cache::FileState& entry : entries) total += entry.file.bytes;
  return total;
}

Result<int> list(const CacheArgs& args) {
  const Cache cache;
  ATTACCA_TRY(const auto entries, cache.check());
  if (args.json) {
    json::Value list = json::Value::array();
    for (const Cache::FileState& entry : entries) list.push(to_json(entry));
    json::Value all = json::Value::object();
    all.set("folder", cache.folder()).set("limit_bytes", cache.limit_bytes()).set("entries", list);
    print_json(std::move(all));
    return kOk;
  }
  for (const Cache::FileState& entry : entries)
    fmt::print("{}  {:>10}  {}  {}\n", hash_of(entry), size_text(entry.file.bytes),
               last_use_of(entry), describe(entry));
  fmt::print("{}, {} of at most {}, in {}\n", count_text(entries.size(), "entry", "entries"),
             size_text(total_bytes(entries)), size_text(cache.limit_bytes()), cache.folder());
  return kOk;
}

Result<int> verify() {
  const Cache cache;
  ATTACCA_TRY(const auto entries, cache.check());
  size_t damaged = 0;
  for (const Cache::FileState& entry : entries) {
    if (entry.problem.empty()) continue;
    ++damaged;
    fmt::print("{}/{}: {}\n", cache.folder(), escaped(entry.file.name), entry.problem);
  }
  fmt::print("{}, {} damaged{}\n", count_text(entries.size(), "entry", "entries"), damaged,
             damaged ? "; each is compiled again when it is needed" : "");
  return damaged ? kCheckFailed : kOk;
}

Result<int> clear() {
  Cache cache;
  ATTACCA_TRY(const uint64_t bytes, cache.clear());
  fmt::print("removed {} from {}\n", size_text(bytes), cache.folder());
  return kOk;
}

}  // namespace

int cache(const CacheArgs& args) {
  return exit_code(args.action == "ls" ? list(args) : args.action == "verify" ? verify() : clear());
}

}  // namespace attacca::cli
