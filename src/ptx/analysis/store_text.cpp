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

size_t bytes_of_word(std::string_view word) {
  return word == ".b64" ? 8 : 4;
}

// A call in its own scope.
class CallText {
 public:
  explicit CallText(const TailNames& names) : names_(names) {}

  void pass(std::string_view word, const std::string& value) {
    const std::string variable = argument();
    line(".param {} {};", word, variable);
    line("st.param{} [{}+0], {};", word, variable, value);
  }
  void pass_struct(std::string_view word, const std::vector<std::string>& values) {
    const std::string variable = argument();
    declare_struct(word, variable, values.size());
    for (size_t i = 0; i < values.size(); ++i)
      line("st.param{} [{}+{}], {};", word, variable, i * bytes_of_word(word), values[i]);
  }

  std::string call(const std::string& function, std::string_view word, const std::string& into) {
    line(".param {} {};", word, result());
    return finish(function, word, {into});
  }
  std::string call_struct(const std::string& function, std::string_view word,
                          const std::vector<std::string>& into) {
    declare_struct(word, result(), into.size());
    return finish(function, word, into);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "\n\t" + fmt::format(format, std::forward<Args>(args)...);
  }

  std::string argument() {
    const std::string variable = fmt::format("{}argument{}", names_.prefix, count_++);
    arguments_ += fmt::format("{}{}", arguments_.empty() ? "" : ", ", variable);
    return variable;
  }
  std::string result() const { return names_.prefix + "result"; }

  void declare_struct(std::string_view word, const std::string& variable, size_t words) {
    const size_t bytes = bytes_of_word(word);
    line(".param .align {} .b8 {}[{}];", bytes, variable, words * bytes);
  }

  std::string finish(const std::string& function, std::string_view word,
                     const std::vector<std::string>& into) {
    line("call ({}), {}, ({});", result(), function, arguments_);
    for (size_t i = 0; i < into.size(); ++i)
      line("ld.param{} {}, [{}+{}];", word, into[i], result(), i * bytes_of_word(word));
    return "\n\t{" + text_ + "\n\t}";
  }

  const TailNames& names_;
  std::string text_, arguments_;
  size_t count_ = 0;
};

// What a register of the kernel is called where it is computed again.
using Renamed = std::unordered_map<uint32_t, std::string>;

std::string name_of(const Ref& ref, const Renamed& renamed) {
  if (ref.kind == Ref::Kind::Register)
    if (const auto found = renamed.find(ref.index); found != renamed.end()) return found->second;
  return std::string(ref.text);
}

// Of the first element of a store.
std::vector<std::string> index_lines(const std::string& index, const Step& store,
                                     const Renamed& renamed, const TailNames& names) {
  const Argument& address = store.arguments[0];
  std::vector<std::string> lines = {
      fmt::format("sub.s64 {}, {}, {};", index, name_of(address.ref, renamed), names.base())};
  if (address.offset != 0)
    lines.push_back(fmt::format("add.s64 {0}, {0}, {1};", index, address.offset));
  uint32_t shift = 0;
  while ((1U << shift) < names.element_bytes) ++shift;
  if (shift != 0) lines.push_back(fmt::format("shr.u64 {0}, {0}, {1};", index, shift));
  // If nothing is stored, the tail computes with the operands of the first elements, which exist.
  // With a branch instead, ptxas could not load the operands of several stores at once.
  if (const auto& predicate = store.instruction->predicate)
    lines.push_back(fmt::format("selp.b64 {}, {}, {}, {};", index, predicate->negated ? "0" : index,
                                predicate->negated ? index : "0",
                                name_of(store.predicate, renamed)));
  return lines;
}

// Writes what loads the operands of a group's stores. Registers: tail_i3 the index of store number
// 3, tail_c7 what the kernel's instruction computes that token 7 begins.
class FetchWriter {
 public:
  FetchWriter(const Module& module, const StoreGroup& group, const StoreNumbers& numbers,
              const TailNames& names)
      : module_(module), group_(group), numbers_(numbers), names_(names) {}

  std::string run() {
    bool is_wide = false, is_any = false;
    for (const Step* store : group_.stores)
      if (const StorePack* pack = pack_of(*store); pack && pack->words > 0) {
        is_any = true;
        is_wide = is_wide || pack->is_wide;
      }
    if (!is_any) return {};
    text_ = "{";
    write_indices();
    const std::string apart = fmt::format("{}apart", names_.prefix);
    const std::string fetched = fmt::format("{}fetched", names_.prefix);
    if (is_wide) line("@{} bra {};", names_.apart(), apart);
    for (const Step* store : group_.stores) call(*store, false);
    if (is_wide) {
      line("bra.uni {};", fetched);
      text_ += fmt::format("\n{}:", apart);
      for (const Step* store : group_.stores) call(*store, true);
      text_ += fmt::format("\n{}:", fetched);
    }
    return text_ + "\n\t}\n\t";
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "\n\t" + fmt::format(format, std::forward<Args>(args)...);
  }

  const StorePack* pack_of(const Step& store) const {
    return names_.pack(elements_of(*store.instruction, names_.element_bytes));
  }
  std::string index_of(const Step& store) const {
    return fmt::format("%{}i{}", names_.prefix, numbers_.at(&store));
  }

  // What a store needs is computed again up to it: a register that is written behind it still has
  // its old value.
  void write_indices() {
    auto step = group_.again.begin();
    for (const Step* store : group_.stores) {
      for (; step != group_.again.end() && is_before(**step, *store); ++step) compute(**step);
      const StorePack* pack = pack_of(*store);
      if (!pack || pack->words == 0) continue;
      line(".reg .b64 {};", index_of(*store));
      for (const std::string& words : index_lines(index_of(*store), *store, renamed_, names_))
        line("{}", words);
    }
  }

  static bool is_before(const Step& a, const Step& b) {
    return a.instruction->span.begin < b.instruction->span.begin;
  }

  void compute(const Step& step) {
    const Ref& into = step.arguments[0].ref;
    const std::string fresh = fmt::format("%{}c{}", names_.prefix, step.instruction->span.begin);
    std::string words;
    for (size_t i = 1; i < step.arguments.size(); ++i) {
      const Argument& argument = step.arguments[i];
      words += ", ";
      words += argument.ref.kind == Ref::Kind::Register
                   ? name_of(argument.ref, renamed_)
                   : std::string(module_.text(step.instruction->operands[i].span));
    }
    line(".reg {} {};", into.variable->type, fresh);
    line("{} {}{};", step.instruction->opcode, fresh, words);
    renamed_[into.index] = fresh;
  }

  void call(const Step& store, bool is_apart) {
    const StorePack* pack = pack_of(store);
    if (!pack || pack->words == 0) return;
    std::vector<std::string> fetched;
    for (size_t k = 0; k < pack->words; ++k)
      fetched.push_back(fmt::format("{}{}", names_.fetched(numbers_.at(&store)), k));
    CallText call(names_);
    call.pass(".b64", index_of(store));
    for (size_t i = 0; i < names_.operands; ++i) call.pass(".b64", names_.operand(i));
    const size_t elements = elements_of(*store.instruction, names_.element_bytes);
    text_ += call.call_struct(names_.fetch(elements, is_apart && pack->is_wide), ".b32", fetched);
  }

  const Module& module_;
  const StoreGroup& group_;
  const StoreNumbers& numbers_;
  const TailNames& names_;
  Renamed renamed_;
  std::string text_;
};

// Writes the lines of one store. Registers: tail_u0 the first unit that the store moves, tail_h0_1
// the upper 32 bits of it, tail_w3 the fourth element, tail_d0 the first unit to store.
class StoreWriter {
 public:
  StoreWriter(const Module& module, const Step& store, size_t number, const TailNames& names)
      : module_(module), store_(store), number_(number), names_(names) {
    unit_bits_ = access_bits(store.opcode);
    element_bits_ = names.element_bytes * 8;
  }

  std::string run() {
    text_ = "{";
    const StorePack* pack = names_.pack(elements_of(*store_.instruction, names_.element_bytes));
    if (!pack) {
      line(".reg .b64 {};", name("i", 0));
      for (const std::string& words : index_lines(name("i", 0), store_, {}, names_))
        line("{}", words);
    }
    const Argument& data = store_.arguments[1];
    const std::vector<Ref> units =
        data.form == Argument::Form::Value ? std::vector{data.ref} : data.parts;
    for (size_t i = 0; i < units.size(); ++i) read_unit(i, units[i]);
    if (pack)
      call_pack(*pack);
    else
      for (size_t j = 0; j < elements_; ++j) call_tail(j);
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

  void call_tail(size_t element) {
    const std::string index = name("i", element);
    if (element != 0) {
      line(".reg .b64 {};", index);
      line("add.s64 {}, {}, {};", index, name("i", 0), element);
    }
    CallText call(names_);
    call.pass(names_.word(), name("w", element));
    call.pass(".b64", index);
    for (size_t i = 0; i < names_.operands; ++i) call.pass(".b64", names_.operand(i));
    text_ += call.call(names_.tail(elements_), names_.word(), name("w", element));
  }

  void call_pack(const StorePack& pack) {
    std::vector<std::string> words, fetched;
    for (size_t k = 0; k < elements_; ++k) words.push_back(name("w", k));
    for (size_t k = 0; k < pack.words; ++k)
      fetched.push_back(fmt::format("{}{}", names_.fetched(number_), k));
    CallText call(names_);
    call.pass_struct(names_.word(), words);
    if (!fetched.empty()) call.pass_struct(".b32", fetched);
    text_ += call.call_struct(names_.tail(elements_), names_.word(), words);
  }

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
  size_t number_;
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

std::string TailNames::apart() const {
  return fmt::format("%{}apart", prefix);
}
std::string TailNames::fetched(size_t store) const {
  return fmt::format("%{}f{}_", prefix, store);
}
std::string TailNames::tail(size_t elements) const {
  return pack(elements) ? fmt::format("{}_{}", function, elements) : function;
}
std::string TailNames::fetch(size_t elements, bool is_apart) const {
  return fmt::format("{}_fetch_{}{}", function, elements, is_apart ? "_apart" : "");
}
const StorePack* TailNames::pack(size_t elements) const {
  const auto found = packs.find(elements);
  return found == packs.end() ? nullptr : &found->second;
}

size_t elements_of(const Instruction& store, uint32_t element_bytes) {
  const std::vector<std::string_view> opcode = opcode_parts(store.opcode);
  return size_t{access_count(opcode)} * access_bits(opcode) / 8 / element_bytes;
}

std::map<std::string, std::string> tail_declarations(const TailNames& names, size_t elements) {
  const std::string_view word = names.word();
  const auto words = [](std::string_view name, std::string_view word, size_t count) {
    const size_t bytes = bytes_of_word(word);
    return fmt::format(".param .align {} .b8 {}[{}]", bytes, name, bytes * count);
  };
  const auto declared = [](const std::string& result, const std::string& name,
                           const std::string& parameters) {
    return std::pair(name, fmt::format(".extern .func ({}) {} ({});", result, name, parameters));
  };
  std::string place = ".param .b64 b";
  for (size_t i = 0; i < names.operands; ++i) place += fmt::format(", .param .b64 c{}", i);
  const StorePack* pack = names.pack(elements);
  if (!pack)
    return {declared(fmt::format(".param {} r", word), names.tail(elements),
                     fmt::format(".param {} a, {}", word, place))};
  std::string values = words("a", word, elements);
  if (pack->words > 0) values += ", " + words("f", ".b32", pack->words);
  std::map<std::string, std::string> all = {
      declared(words("r", word, elements), names.tail(elements), values)};
  if (pack->words > 0)
    for (const bool is_apart : {false, true})
      if (!is_apart || pack->is_wide)
        all.insert(
            declared(words("r", ".b32", pack->words), names.fetch(elements, is_apart), place));
  return all;
}

std::string fetch_text(const Module& module, const StoreGroup& group, const StoreNumbers& numbers,
                       const TailNames& names) {
  return FetchWriter(module, group, numbers, names).run();
}

std::string store_text(const Module& module, const Step& store, size_t number,
                       const TailNames& names) {
  return StoreWriter(module, store, number, names).run();
}

}  // namespace attacca::ptx
