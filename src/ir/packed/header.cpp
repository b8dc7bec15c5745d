#include "ir/packed/header.hpp"

#include <cstring>
#include <limits>
#include <string_view>

#include "fmt/format.h"

#include "support/check.hpp"
#include "support/hash.hpp"

namespace attacca::ir {
namespace {

constexpr std::string_view kMagic = "ATTPACK\n";
constexpr uint32_t kVersion = 1, kCapability = 80;
constexpr uint32_t kZeros = 1, kFolds = 2;  // flags
constexpr size_t kHeaderHashAt = 80, kUsed = 88;
constexpr const char* kPackAgain = "pack the weights again with `attacca pack`";

constexpr DType kWeights[] = {DType::S8, DType::U8, DType::F8E4M3};
constexpr DType kScales[] = {DType::F32, DType::F16, DType::BF16, DType::U8};

// Fragments of 16 x 16 or, for products of bytes, of 16 x 32.
uint32_t layout_of(const Packing& packing) {
  return packing.whole() ? 2 : 1;
}

// Numbers 1, 2, ... of a list.
template <size_t N>
uint32_t number_of(DType dtype, const DType (&list)[N]) {
  for (uint32_t i = 0; i < N; ++i)
    if (list[i] == dtype) return i + 1;
  ATTACCA_CHECK(false, "a packing that check() refuses");
}

template <class T>
void put(PackedHeader& header, size_t at, T number) {
  for (size_t i = 0; i < sizeof(T); ++i)
    header[at + i] = static_cast<std::byte>(static_cast<uint64_t>(number) >> (8 * i));
}
template <class T>
T get(std::span<const std::byte> bytes, size_t at) {
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    number |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(number);
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  return hash64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

tl::unexpected<Error> bad(std::string what, std::string fix = kPackAgain) {
  return fail("no packed weights: " + std::move(what), {}, std::move(fix));
}

// The layout that a header of intact bytes describes.
Result<PackedLayout> described(std::span<const std::byte> bytes) {
  const auto weights = get<uint32_t>(bytes, 24), scales = get<uint32_t>(bytes, 32),
             flags = get<uint32_t>(bytes, 36);
  if (weights - 1 >= std::size(kWeights) || scales - 1 >= std::size(kScales) ||
      flags > (kZeros | kFolds))
    return bad("the header names dtypes that this version does not know",
               "use the version of Attacca that packed them");
  Packing packing{kWeights[weights - 1], static_cast<int>(get<uint32_t>(bytes, 28)),
                  get<int64_t>(bytes, 56), kScales[scales - 1], (flags & kZeros) != 0};
  if ((flags & kFolds) && !may_fold(packing))
    return bad(fmt::format("scales of {} that fold", to_string(packing)));
  return packed_layout(packing, get<int64_t>(bytes, 40), get<int64_t>(bytes, 48));
}

}  // namespace

uint64_t packed_body_hash(std::span<const std::byte> bytes) {
  return hash_of(bytes.subspan(kPackedHeaderBytes));
}

bool may_fold(const Packing& packing) {
  return packing.weights == DType::S8 && packing.bits == 4 && packing.scales == DType::BF16 &&
         !packing.zeros;
}

PackedHeader packed_header(const PackedLayout& layout, uint64_t body_hash, bool folds) {
  PackedHeader header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header, 8, kVersion);
  put(header, 12, static_cast<uint32_t>(kPackedHeaderBytes));
  put(header, 16, layout_of(layout.packing));
  put(header, 20, kCapability);
  put(header, 24, number_of(layout.packing.weights, kWeights));
  put(header, 28, static_cast<uint32_t>(layout.packing.bits));
  put(header, 32, number_of(layout.packing.scales, kScales));
  put(header, 36, (layout.packing.zeros ? kZeros : 0) | (folds ? kFolds : 0));
  put(header, 40, layout.n);
  put(header, 48, layout.k);
  put(header, 56, layout.packing.group);
  put(header, 64, layout.bytes);
  put(header, 72, body_hash);
  put(header, kHeaderHashAt, hash_of(std::span(header).first(kHeaderHashAt)));
  return header;
}

Result<PackedLayout> verify_packed(std::span<const std::byte> bytes) {
  if (bytes.size() < static_cast<size_t>(kPackedHeaderBytes))
    return bad(fmt::format("{} bytes are less than a header", bytes.size()));
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return bad("the first bytes are not ATTPACK", "pack the weights with `attacca pack`");
  if (const auto version = get<uint32_t>(bytes, 8); version != kVersion)
    return bad(fmt::format("version {}, this one reads {}", version, kVersion));
  if (get<uint64_t>(bytes, kHeaderHashAt) != hash_of(bytes.first(kHeaderHashAt)))
    return bad("the header is damaged");
  for (size_t i = kUsed; i < static_cast<size_t>(kPackedHeaderBytes); ++i)
    if (bytes[i] != std::byte{0}) return bad("the header is damaged");
  if (const auto capability = get<uint32_t>(bytes, 20); capability != kCapability)
    return bad(fmt::format("for kernels of compute capability {}, this version's have {}",
                           capability, kCapability));
  if (get<uint32_t>(bytes, 12) != kPackedHeaderBytes)
    return bad(fmt::format("a header of {} bytes, this version's have {}", get<uint32_t>(bytes, 12),
                           kPackedHeaderBytes));
  ATTACCA_TRY(const PackedLayout layout, described(bytes));
  if (const auto given = get<uint32_t>(bytes, 16); given != layout_of(layout.packing))
    return bad(fmt::format("layout {}, this version reads {} for {}", given,
                           layout_of(layout.packing), to_string(layout.packing)));
  if (static_cast<uint64_t>(layout.bytes) != bytes.size() ||
      layout.bytes != get<int64_t>(bytes, 64))
    return bad(fmt::format("{} bytes, the header says {}", bytes.size(), layout.bytes));
  if (get<uint64_t>(bytes, 72) != packed_body_hash(bytes))
    return bad("the codes or scales are damaged: their checksum differs");
  return layout;
}

Status check_packed(std::span<const std::byte> bytes, const PackedLayout& wanted) {
  ATTACCA_TRY(const PackedLayout layout, verify_packed(bytes));
  if (layout.packing == wanted.packing && layout.n == wanted.n && layout.k == wanted.k) return {};
  return fail(fmt::format("weights packed as [{}, {}], {}, where the graph unpacks [{}, {}], {}",
                          layout.n, layout.k, to_string(layout.packing), wanted.n, wanted.k,
                          to_string(wanted.packing)),
              {}, "pack them as the graph says, or change its unpack");
}

}  // namespace attacca::ir
