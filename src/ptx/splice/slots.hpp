// The registers, called slots, that replace a .param variable of a call. A st.param writes one slot
// for each register that it moves. A ld.param may read other pieces: a caller may store 32 bits of
// which the callee loads the low 8, or four words that the callee loads as one double.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ptx/splice/param_uses.hpp"
#include "support/error.hpp"

namespace attacca::ptx {

class Slots {
 public:
  explicit Slots(std::string prefix) : prefix_(std::move(prefix)) {}

  // Adds the slot of a write. Fails if it overlaps a slot that begins or ends elsewhere.
  Status add_write(const ParamAccess& access);

  // ".reg .b32 %slot_param0_0;" a slot.
  std::string declare() const;
  // The text that replaces an ld.param or st.param of the variable; `guard` is "@%p1 " or empty.
  // `name` gives the name of the access's register, if that is renamed.
  std::string store(const ParamAccess& access, std::string_view guard, std::string_view name) const;
  std::string load(const ParamAccess& access, std::string_view guard, std::string_view name) const;

 private:
  std::string slot(uint64_t offset) const;
  std::string gather(const ParamAccess& access, std::string_view guard,
                     std::string_view name) const;

  std::string prefix_;
  std::map<uint64_t, uint32_t> bits_;  // of the slot at each offset
};

}  // namespace attacca::ptx
