// The entries of the cache as bytes; cache.hpp has the format.
#include <cstring>

#include "gpu/cache/cache.hpp"
#include "support/hash.hpp"

namespace attacca::gpu {
namespace {

constexpr std::string_view kMagic = "attacca1";
constexpr size_t kChecksumAt = 8, kKeyBytesAt = 16, kValueBytesAt = 24, kKeyAt = 32;

void put(std::vector<char>& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint64_t get(std::span<const char> file, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i)
    value |= uint64_t{static_cast<unsigned char>(file[at + i])} << (8 * i);
  return value;
}

uint64_t checksum(std::span<const char> file) {
  return hash64({file.data() + kKeyBytesAt, file.size() - kKeyBytesAt});
}

}  // namespace

std::vector<char> encode_entry(std::string_view key, std::span<const char> value) {
  std::vector<char> file(kMagic.begin(), kMagic.end());
  file.reserve(kKeyAt + key.size() + value.size());
  put(file, 0);
  put(file, key.size());
  put(file, value.size());
  file.insert(file.end(), key.begin(), key.end());
  file.insert(file.end(), value.begin(), value.end());
  std::vector<char> sum;
  put(sum, checksum(file));
  std::memcpy(file.data() + kChecksumAt, sum.data(), sum.size());
  return file;
}

std::optional<DecodedEntry> decode_entry(std::span<const char> file) {
  if (file.size() < kKeyAt) return std::nullopt;
  if (std::string_view(file.data(), kMagic.size()) != kMagic) return std::nullopt;
  const uint64_t key_bytes = get(file, kKeyBytesAt), value_bytes = get(file, kValueBytesAt);
  const uint64_t room = file.size() - kKeyAt;
  if (key_bytes > room || value_bytes != room - key_bytes) return std::nullopt;
  if (get(file, kChecksumAt) != checksum(file)) return std::nullopt;
  return DecodedEntry{{file.data() + kKeyAt, key_bytes}, file.subspan(kKeyAt + key_bytes)};
}

}  // namespace attacca::gpu
