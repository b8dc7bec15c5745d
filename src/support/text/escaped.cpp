#include "support/text/escaped.hpp"

#include <algorithm>
#include <cstdint>

#include "fmt/format.h"

#include "support/text/utf8.hpp"

namespace attacca {
namespace {

// The bytes of the character that starts at text[0]; 0 if it may not be shown.
size_t shown_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t bytes = utf8_length(text);
  const bool control = (bytes == 1 && (byte(0) < 0x20 || byte(0) == 0x7f)) ||
                       (bytes == 2 && byte(0) == 0xc2 && byte(1) < 0xa0);  // U+0080 to U+009F
  return control ? 0 : bytes;
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
