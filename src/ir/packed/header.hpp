// A packed tensor's header: written, and verified with all that follows it.
#pragma once

#include <array>
#include <span>

#include "ir/graph/packed_layout.hpp"
#include "support/error.hpp"

namespace attacca::ir {

using PackedHeader = std::array<std::byte, kPackedHeaderBytes>;

// Whether scales of this packing may fold (packed.hpp).
bool may_fold(const Packing& packing);

// `body_hash`: the hash of everything behind the header. `folds`: the scales fold.
PackedHeader packed_header(const PackedLayout& layout, uint64_t body_hash, bool folds);

uint64_t packed_body_hash(std::span<const std::byte> bytes);

// The layout that a packed tensor's header describes, after the whole tensor has been verified.
// Errors: not a packed tensor, cut off, damaged, or of another version.
Result<PackedLayout> verify_packed(std::span<const std::byte> bytes);
// Errors: the same, and a layout other than this one, for which a plan was made.
Status check_packed(std::span<const std::byte> bytes, const PackedLayout& wanted);

}  // namespace attacca::ir
