#include "ptx/analysis/provenance.hpp"

#include <algorithm>

namespace attacca::ptx {
namespace {

bool all_pointers(const Provenance& value) {
  const auto& origins = value.origins();
  return !origins.empty() && std::all_of(origins.begin(), origins.end(),
                                         [](const Origin& o) { return o.is_pointer(); });
}

}  // namespace

bool Provenance::has(Origin::Kind kind) const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [kind](const Origin& origin) { return origin.kind == kind; });
}

bool Provenance::has_pointer() const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [](const Origin& origin) { return origin.is_pointer(); });
}

bool Provenance::join(const Provenance& other) {
  bool grew = false;
  for (Origin origin : other.origins_) {
    // Two offsets into one parameter are any: a loop must not count them all.
    const auto same = std::find_if(origins_.begin(), origins_.end(), [&](const Origin& mine) {
      return origin.kind == Origin::Kind::Space && mine.kind == Origin::Kind::Space &&
             mine.parameter == origin.parameter;
    });
    if (same != origins_.end()) {
      if (same->offset == origin.offset || same->offset == Origin::kAnyOffset) continue;
      origins_.erase(same);
      origin.offset = Origin::kAnyOffset;
    }
    const auto at = std::lower_bound(origins_.begin(), origins_.end(), origin);
    if (at != origins_.end() && *at == origin) continue;
    origins_.insert(at, origin);
    grew = true;
  }
  return grew;
}

Provenance Provenance::as_number() const {
  return empty() ? Provenance() : of(Origin::Kind::Number);
}

Provenance Provenance::as_unknown() const {
  return empty() ? Provenance() : of(Origin::Kind::Unknown);
}

Provenance Provenance::moved(std::optional<int64_t> bytes) const {
  Provenance result;
  for (Origin origin : origins_) {
    if (origin.kind == Origin::Kind::Space && origin.offset != Origin::kAnyOffset)
      origin.offset = bytes ? static_cast<int64_t>(static_cast<uint64_t>(origin.offset) +
                                                   static_cast<uint64_t>(*bytes))
                            : Origin::kAnyOffset;
    result.join(origin);
  }
  return result;
}

Provenance sum(const Provenance& a, const Provenance& b) {
  const auto is_plain = [](const Provenance& value) {
    return value.empty() || value.is_only(Origin::Kind::Number);
  };
  if (is_plain(b)) return a.empty() ? b : a;
  if (is_plain(a)) return b;
  if (all_pointers(a) && !b.has_pointer()) return a;
  if (all_pointers(b) && !a.has_pointer()) return b;
  Provenance both = a;
  both.join(b);
  return both;
}

Provenance difference(const Provenance& a, const Provenance& b) {
  using Kind = Origin::Kind;
  Provenance all = a;
  all.join(b);
  if (b.has_pointer()) return all.as_number();
  Provenance result = sum(a, b.as_number());
  if (a.has(Kind::Output) && (b.has(Kind::Parameter) || b.has(Kind::Unknown)))
    result.join(Provenance::of(Kind::Number));
  return result;
}

}  // namespace attacca::ptx
