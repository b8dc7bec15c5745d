// Where the bits of a register may come from, as far as they can be an address.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace attacca::ptx {

struct Origin {
  enum class Kind : uint8_t {
    Number,     // computed from anything that is not constant: no address
    Unknown,    // loaded or assembled: may be an address of any memory
    Symbol,     // the address of a variable that the module names
    Parameter,  // a kernel's parameter, 8 bytes at an offset: a pointer, or a number
    Space,      // the address of a parameter itself
    Output,     // the pointer to the output
    Piece,      // 32 bits of it
  };
  static constexpr int64_t kAnyOffset = INT64_MIN;
  static constexpr uint32_t kNoParameter = UINT32_MAX;  // of a function that is no kernel

  Kind kind = Kind::Number;
  bool declared = false;   // Parameter: .ptr, so no number
  uint32_t parameter = 0;  // Parameter, Space: its index
  int64_t offset = 0;      // Parameter, Space: in bytes, or kAnyOffset

  bool is_pointer() const {
    return kind == Kind::Symbol || kind == Kind::Space || kind == Kind::Output || declared;
  }
  friend auto operator<=>(const Origin&, const Origin&) = default;
};

// The origins that a value may have; a constant has none. A sum has those of both its terms where
// it is unknown which one is the pointer.
class Provenance {
 public:
  Provenance() = default;
  Provenance(Origin origin) : origins_{origin} {}
  static Provenance of(Origin::Kind kind) { return Origin{kind}; }

  const std::vector<Origin>& origins() const& { return origins_; }
  std::vector<Origin> origins() && { return std::move(origins_); }
  bool empty() const { return origins_.empty(); }
  bool has(Origin::Kind kind) const;
  bool is_only(Origin::Kind kind) const { return origins_.size() == 1 && has(kind); }
  bool has_pointer() const;
  // Returns whether this grew.
  bool join(const Provenance& other);
  // The origins of a result that is no address: a constant if this is one.
  Provenance as_number() const;
  Provenance as_unknown() const;
  // A Space moved by bytes that are known, or not.
  Provenance moved(std::optional<int64_t> bytes) const;

  friend auto operator<=>(const Provenance&, const Provenance&) = default;

 private:
  std::vector<Origin> origins_;  // sorted
};

// Of a + b. A pointer plus any number has the pointer's origin.
Provenance sum(const Provenance& a, const Provenance& b);
// Of a - b. The output less what may be another pointer may be a number, too.
Provenance difference(const Provenance& a, const Provenance& b);

}  // namespace attacca::ptx
