// A packed tensor's header: written, and verified with all that follows it.
#pragma once

#include <array>
#include <span>

#include "ir/graph/packed_layout.hpp"
#include "support/error.hpp"

namespace attacca::ir {

using PackedHeader = std::array<std::byte, kPackedHeaderBytes>;

// `body_hash`: of all that follows.
PackedHeader packed_header(const PackedLayout& layout, uint64_t body_hash);

uint64_t packed_body_hash(std::span<const std::byte> bytes);

// What a packed tensor says of itself, once all of it has been verified. Errors: it is none, cut
// off, damaged, or of another version.
Result<PackedLayout> verify_packed(std::span<const std::byte> bytes);
// The same, and that it is what a plan was made for.
Status check_packed(std::span<const std::byte> bytes, const PackedLayout& wanted);

}  // namespace attacca::ir
