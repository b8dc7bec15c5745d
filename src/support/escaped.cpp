#include "support/escaped.hpp"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"

namespace attacca {
namespace {

// Of the character that begins there; 0: none that may be shown.
size_t shown_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xc2 && byte(1) < 0xa0) return 0;  // U+0080 to U+009F: controls
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || no_character ? 0 : bytes;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t bytes = shown_bytes(text);
    if (bytes > 0)
      shown += text.substr(0, bytes);
    else
      shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return shown;
}

}  // namespace attacca
