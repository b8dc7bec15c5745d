// A plan's instances by the layouts of their inputs, for plug-ins over the public C++ interface.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attacca/attacca.hpp"

namespace attacca::plugin {

using Shape = std::vector<int64_t>;

// "(2, 3)"
inline std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

// The layouts of all inputs, for plans whose inputs have fixed ranks.
class LayoutKey {
 public:
  void add(const void* address, const Shape& shape, const Shape& strides = {}) {
    numbers_.push_back(alignment_of(address));
    numbers_.insert(numbers_.end(), shape.begin(), shape.end());
    numbers_.insert(numbers_.end(), strides.begin(), strides.end());
  }
  auto operator<=>(const LayoutKey&) const = default;

 private:
  std::vector<int64_t> numbers_;
};

// Any number of threads may use it.
class InstanceCache {
 public:
  // If there are more, the least recently used is dropped.
  static constexpr size_t kMostInstances = 256;

  // The instance with this key; by `make`, which returns a Result<Instance>, where there is none.
  // Threads that ask at once may each call `make`: a lock that is held meanwhile would stay held in
  // a child process. Errors: those of `make`, which are not kept.
  template <class Make>
  Result<Instance> get(LayoutKey key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = entries_.find(key); known != entries_.end()) {
        known->second.last_use = ++uses_;
        return known->second.instance;
      }
    }
    Result<Instance> made = make();
    if (!made) return made;
    const std::lock_guard lock(mutex_);
    ++uses_;
    if (entries_.size() >= kMostInstances)
      entries_.erase(std::min_element(
          entries_.begin(), entries_.end(),
          [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
    return entries_.try_emplace(std::move(key), Entry{*made, uses_}).first->second.instance;
  }

 private:
  struct Entry {
    Instance instance;
    uint64_t last_use = 0;
  };
  std::mutex mutex_;
  std::map<LayoutKey, Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace attacca::plugin
