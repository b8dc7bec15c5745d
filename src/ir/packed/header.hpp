// A packed tensor's header as bytes.
#pragma once

#include <array>
#include <span>

#include "ir/packed/packed.hpp"

namespace attacca::ir {

using PackedHeader = std::array<std::byte, kPackedHeaderBytes>;

// `body_hash`: of all that follows.
PackedHeader packed_header(const PackedLayout& layout, uint64_t body_hash);

uint64_t packed_body_hash(std::span<const std::byte> bytes);

}  // namespace attacca::ir
