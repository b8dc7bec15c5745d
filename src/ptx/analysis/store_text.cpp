#include "ptx/analysis/store_text.hpp"

#include "fmt/format.h"

#include "ptx/analysis/opcode_rules.hpp"
#include "ptx/splice/body.hpp"

namespace attacca::ptx {
namespace {

bool is_float_immediate(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' &&
         std::string_view("fFdD").find(text[1]) != std::string_view::npos;
}

// Writes the lines of one store. Registers: tail_u0 the first unit that the store moves, tail_h0_1
// the upper 32 bits of it, tail_w3 the fourth element, tail_d0 the first unit to store.
class StoreWriter {
 public:
  StoreWriter(const Module& module, const Step& store, const TailNames& names)
      : module_(module), store_(store), names_(names) {
    unit_bits_ = access_bits(store.opcode);
    element_bits_ = names.element_bytes * 8;
  }

  std::string run() {
    text_ = "{";
    write_index();
    const Argument& data = store_.arguments[1];
    const std::vector<Ref> units =
        data.form == Argument::Form::Value ? std::vector{data.ref} : data.parts;
    for (size_t i = 0; i < units.size(); ++i) read_unit(i, units[i]);
    const size_t count = names_.at_once(elements_);
    for (size_t j = 0; j < elements_; j += count) call_tail(j, count);
    std::string stored;
    for (size_t i = 0; i < units.size(); ++i)
      stored += fmt::format("{}{}", i == 0 ? "" : ", ", write_unit(i));
    line("{}{} {}, {}{};", guard_text(store_.instruction->predicate), store_.instruction->opcode,
         operand_text(0),
         data.form == Argument::Form::Value ? stored : fmt::format("{{{}}}", stored),
         store_.arguments.size() == 3 ? fmt::format(", {}", operand_text(2)) : "");
    return text_ + "\n\t}";
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "\n\t" + fmt::format(format, std::forward<Args>(args)...);
  }

  std::string_view operand_text(size_t i) const {
    return module_.text(store_.instruction->operands[i].span);
  }

  std::string name(std::string_view stem, size_t i) const {
    return fmt::format("%{}{}{}", names_.prefix, stem, i);
  }
  std::string half(size_t unit, size_t i) const {
    return fmt::format("%{}h{}_{}", names_.prefix, unit, i);
  }

  // The first element's.
  void write_index() {
    const Argument& address = store_.arguments[0];
    const std::string index = name("i", 0);
    line(".reg .b64 {};", index);
    line("sub.s64 {}, {}, {};", index, address.ref.text, names_.base());
    if (address.offset != 0) line("add.s64 {0}, {0}, {1};", index, address.offset);
    uint32_t shift = 0;
    while ((1U << shift) < names_.element_bytes) ++shift;
    if (shift != 0) line("shr.u64 {0}, {0}, {1};", index, shift);
    // If nothing is stored, the tail computes with the operands of the first elements, which exist.
    // With a branch instead, ptxas could not load the operands of several stores at once.
    if (const auto& predicate = store_.instruction->predicate)
      line("selp.b64 {}, {}, {}, {};", index, predicate->negated ? "0" : index,
           predicate->negated ? index : "0", predicate->name);
  }

  // ---- From a unit to elements

  void read_unit(size_t i, const Ref& source) {
    const std::string unit = name("u", i);
    line(".reg .b{} {};", unit_bits_ == 64 ? 64 : 32, unit);
    if (source.kind == Ref::Kind::Immediate)
      read_immediate(unit, source.text);
    else
      read_register(unit, source);
    if (element_bits_ == 64) return element_from(unit, 0);
    if (unit_bits_ < 64) return split(unit, unit_bits_);
    line(".reg .b32 {}, {};", half(i, 0), half(i, 1));
    line("mov.b64 {{{}, {}}}, {};", half(i, 0), half(i, 1), unit);
    for (size_t k = 0; k < 2; ++k) split(half(i, k), 32);
  }

  void read_immediate(const std::string& unit, std::string_view text) {
    const uint32_t width = unit_bits_ == 64 ? 64 : 32;
    const bool is_float = store_.opcode.back().starts_with('f') || is_float_immediate(text);
    line("mov.{}{} {}, {};", is_float ? 'f' : 'b', width, unit, text);
    if (unit_bits_ < 32) line("and.b32 {0}, {0}, {1};", unit, (1U << unit_bits_) - 1);
  }

  void read_register(const std::string& unit, const Ref& source) {
    const uint32_t width = type_bits(source.variable->type);
    if (unit_bits_ >= 32) {
      if (width == unit_bits_) return line("mov.b{} {}, {};", width, unit, source.text);
      return line("cvt.u32.u64 {}, {};", unit, source.text);
    }
    if (width == 8) return line("cvt.u32.u8 {}, {};", unit, source.text);
    if (width == 16) {  // perhaps of a float type, which cvt.u32 refuses
      line("{{\n\t.reg .b16 {0}bits;\n\tmov.b16 {0}bits, {1};\n\tcvt.u32.u16 {0}, {0}bits;\n\t}}",
           unit, source.text);
    } else if (width == 32) {
      line("mov.b32 {}, {};", unit, source.text);
    } else {
      line("cvt.u32.u64 {}, {};", unit, source.text);
    }
    if (width > unit_bits_) line("and.b32 {0}, {0}, {1};", unit, (1U << unit_bits_) - 1);
  }

  // The elements in the low bits of 32.
  void split(const std::string& source, uint32_t bits) {
    for (uint32_t at = 0; at < bits; at += element_bits_) element_from(source, at);
  }

  void element_from(const std::string& source, uint32_t shift) {
    const std::string word = name("w", elements_++);
    line(".reg {} {};", names_.word(), word);
    if (shift == 0)
      line("mov{} {}, {};", names_.word(), word, source);
    else
      line("shr.u32 {}, {}, {};", word, source, shift);
    if (element_bits_ < 32 && unit_bits_ > element_bits_)
      line("and.b32 {0}, {0}, {1};", word, (1U << element_bits_) - 1);
  }

  // ---- Through the tail

  // For `count` elements at once.
  void call_tail(size_t first, size_t count) {
    const std::string index = name("i", first);
    if (first != 0) {
      line(".reg .b64 {};", index);
      line("add.s64 {}, {}, {};", index, name("i", 0), first);
    }
    std::string arguments;
    text_ += "\n\t{";
    const auto declare = [&](std::string_view stem, std::string_view type) {
      const std::string variable = fmt::format("{}{}", names_.prefix, stem);
      if (count == 1 || type.empty())
        line(".param {} {};", type.empty() ? ".b64" : type, variable);
      else
        line(".param .align {0} .b8 {1}[{2}];", word_bytes(), variable, count * word_bytes());
      return variable;
    };
    const std::string values = declare("argument0", names_.word());
    for (size_t k = 0; k < count; ++k)
      line("st.param{} [{}+{}], {};", names_.word(), values, k * word_bytes(),
           name("w", first + k));
    arguments = values;
    const auto pass = [&](size_t i, const std::string& value) {
      const std::string variable = declare(fmt::format("argument{}", i), "");
      line("st.param.b64 [{}], {};", variable, value);
      arguments += fmt::format(", {}", variable);
    };
    pass(1, index);
    for (size_t i = 0; i < names_.operands; ++i) pass(i + 2, names_.operand(i));
    const std::string result = declare("result", names_.word());
    line("call ({}), {}, ({});", result, names_.tail(count), arguments);
    for (size_t k = 0; k < count; ++k)
      line("ld.param{} {}, [{}+{}];", names_.word(), name("w", first + k), result,
           k * word_bytes());
    text_ += "\n\t}";
  }

  size_t word_bytes() const { return names_.element_bytes == 8 ? 8 : 4; }

  // ---- And back

  std::string write_unit(size_t i) {
    const size_t count = unit_bits_ / element_bits_;
    if (count == 1) return name("w", i);
    const std::string unit = name("d", i);
    if (unit_bits_ < 64) return join(unit, i * count, count);
    const size_t each = count / 2;
    const std::string low = join(unit + "_0", i * count, each);
    const std::string high = join(unit + "_1", i * count + each, each);
    line(".reg .b64 {};", unit);
    line("mov.b64 {}, {{{}, {}}};", unit, low, high);
    return unit;
  }

  // Elements in one register of 32 bits.
  std::string join(const std::string& into, size_t first, size_t count) {
    if (count == 1) return name("w", first);
    line(".reg .b32 {};", into);
    line("mov.b32 {}, {};", into, name("w", first));
    for (size_t k = 1; k < count; ++k) {
      const std::string word = name("w", first + k);
      line("shl.b32 {0}, {0}, {1};", word, k * element_bits_);
      line("or.b32 {0}, {0}, {1};", into, word);
    }
    return into;
  }

  const Module& module_;
  const Step& store_;
  const TailNames& names_;
  uint32_t unit_bits_ = 0, element_bits_ = 0;
  size_t elements_ = 0;
  std::string text_;
};

}  // namespace

std::string TailNames::base() const {
  return fmt::format("%{}base", prefix);
}
std::string TailNames::operand(size_t i) const {
  return fmt::format("%{}operand{}", prefix, i);
}
std::string TailNames::parameter(size_t i) const {
  return fmt::format("{}param_{}", prefix, i);
}
std::string TailNames::base_parameter() const {
  return fmt::format("{}param_base", prefix);
}
std::string TailNames::clone(std::string_view name, size_t body) const {
  return fmt::format("{}{}_{}", prefix, body, name);
}

std::string TailNames::tail(size_t elements) const {
  return packs.contains(elements) ? fmt::format("{}_{}", function, elements) : function;
}

size_t elements_of(const Instruction& store, uint32_t element_bytes) {
  const std::vector<std::string_view> opcode = opcode_parts(store.opcode);
  return size_t{access_count(opcode)} * access_bits(opcode) / 8 / element_bytes;
}

std::string tail_declaration(const TailNames& names, size_t elements) {
  const uint32_t bytes = names.element_bytes == 8 ? 8 : 4;
  const bool is_pack = names.packs.contains(elements);
  const auto words = [&](std::string_view name) {
    return is_pack ? fmt::format(".param .align {} .b8 {}[{}]", bytes, name, bytes * elements)
                   : fmt::format(".param {} {}", names.word(), name);
  };
  std::string parameters = words("a") + ", .param .b64 b";
  for (size_t i = 0; i < names.operands; ++i) parameters += fmt::format(", .param .b64 c{}", i);
  return fmt::format(".extern .func ({}) {} ({});", words("r"), names.tail(elements), parameters);
}

std::string store_text(const Module& module, const Step& store, const TailNames& names) {
  return StoreWriter(module, store, names).run();
}

}  // namespace attacca::ptx
