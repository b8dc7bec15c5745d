// Random damage to texts, by a seed that repeats it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace attacca {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  template <class List>
  const auto& any_of(const List& list) {
    return list[below(std::size(list))];
  }

  // Changes, drops, repeats or replaces a few bytes, inserts a piece, or cuts the rest off.
  void damage_bytes(std::string& text, std::span<const std::string_view> pieces) {
    if (text.empty()) return;
    const size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, any_of(pieces));
        break;
      case 3:
        text.replace(at, 1 + below(4), any_of(pieces));
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), below(30)));
        break;
      default:
        text.resize(at);
    }
  }

  std::string bytes(size_t count) {
    std::string text(count, '\0');
    for (char& c : text) c = static_cast<char>(below(256));
    return text;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace attacca
