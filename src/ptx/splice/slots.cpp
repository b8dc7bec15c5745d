#include "ptx/splice/slots.hpp"

#include <algorithm>

#include "fmt/format.h"

namespace attacca::ptx {
namespace {

// No register is narrower than 16 bits. If it holds 8, the upper half is undefined.
uint32_t register_bits(uint32_t bits) {
  return std::max(bits, 16u);
}

uint64_t end_of(uint64_t offset, uint32_t bits) {
  return offset + bits / 8;
}

}  // namespace

Status Slots::add_write(const ParamAccess& access) {
  const uint64_t end = end_of(access.offset, access.bits);
  for (auto at = bits_.upper_bound(access.offset); at != bits_.begin();) {
    --at;
    if (at->first == access.offset && at->second == access.bits) return {};
    if (end_of(at->first, at->second) > access.offset)
      return fail(fmt::format("bytes {} to {} are written in pieces of different sizes",
                              access.offset, end - 1));
    break;
  }
  const auto next = bits_.lower_bound(access.offset);
  if (next != bits_.end() && next->first < end)
    return fail(fmt::format("bytes {} to {} are written in pieces of different sizes",
                            access.offset, end - 1));
  bits_.emplace(access.offset, access.bits);
  return {};
}

std::string Slots::slot(uint64_t offset) const {
  return fmt::format("{}{}", prefix_, offset);
}

std::string Slots::declare() const {
  std::string text;
  for (const auto& [offset, bits] : bits_)
    text += fmt::format("{}.reg .b{} {};", text.empty() ? "" : "\n\t", register_bits(bits),
                        slot(offset));
  return text;
}

std::string Slots::store(const ParamAccess& access, std::string_view guard,
                         std::string_view name) const {
  const uint32_t width = register_bits(access.bits);
  if (access.register_bits == 0 || access.register_bits == width)
    return fmt::format("{}mov.b{} {}, {};", guard, width, slot(access.offset), name);
  if (access.register_bits < width)  // an 8-bit register
    return fmt::format("{}cvt.u{}.u8 {}, {};", guard, width, slot(access.offset), name);
  return fmt::format("{}cvt.u{}.u{} {}, {};", guard, width, access.register_bits,
                     slot(access.offset), name);
}

std::string Slots::load(const ParamAccess& access, std::string_view guard,
                        std::string_view name) const {
  const auto found = bits_.find(access.offset);
  if (found == bits_.end() || found->second < access.bits) return gather(access, guard, name);
  const uint32_t width = register_bits(found->second);
  if (access.register_bits == access.bits && width == access.bits)
    return fmt::format("{}mov.b{} {}, {};", guard, access.bits, name, slot(access.offset));
  if (access.is_float) return gather(access, guard, name);
  const char sign = access.is_signed ? 's' : 'u';
  const uint32_t from = access.register_bits == access.bits ? width : access.bits;
  return fmt::format("{}cvt.{}{}.{}{} {}, {};", guard, sign, access.register_bits, sign, from, name,
                     slot(access.offset));
}

// Puts a value together from parts of slots, in 64 bits.
std::string Slots::gather(const ParamAccess& access, std::string_view guard,
                          std::string_view name) const {
  const uint64_t end = end_of(access.offset, access.bits);
  const std::string all = prefix_ + "all";
  const std::string part = prefix_ + "part";
  const std::string value = prefix_ + "value";
  std::string text = fmt::format("{{\n\t.reg .b64 {}, {};\n\t.reg .b{} {};\n\tmov.b64 {}, 0;\n",
                                 all, part, access.register_bits, value, all);
  for (const auto& [offset, bits] : bits_) {
    if (end_of(offset, bits) <= access.offset || offset >= end) continue;
    text += bits == 64 ? fmt::format("\tmov.b64 {}, {};\n", part, slot(offset))
                       : fmt::format("\tcvt.u64.u{} {}, {};\n", bits, part, slot(offset));
    if (offset < access.offset)
      text += fmt::format("\tshr.u64 {0}, {0}, {1};\n", part, 8 * (access.offset - offset));
    if (offset > access.offset)
      text += fmt::format("\tshl.b64 {0}, {0}, {1};\n", part, 8 * (offset - access.offset));
    text += fmt::format("\tor.b64 {0}, {0}, {1};\n", all, part);
  }
  const char sign = access.is_signed ? 's' : 'u';
  text += access.bits == 64 ? fmt::format("\tmov.b64 {}, {};\n", value, all)
                            : fmt::format("\tcvt.{}{}.{}{} {}, {};\n", sign, access.register_bits,
                                          sign, access.bits, value, all);
  text += fmt::format("\t{}mov.b{} {}, {};\n\t}}", guard, access.register_bits, name, value);
  return text;
}

}  // namespace attacca::ptx
