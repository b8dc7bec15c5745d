#include "ptx_interpreter/alu.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx_interpreter {

Parts::Parts(std::string_view opcode) : left_(ptx::opcode_parts(opcode)) {
  first_ = left_.empty() ? opcode : left_.front();
  if (!left_.empty()) left_.erase(left_.begin());
}

bool Parts::take(std::string_view name) {
  const auto at = std::find(left_.begin(), left_.end(), name);
  if (at == left_.end()) return false;
  left_.erase(at);
  return true;
}

std::string_view Parts::take_one_of(std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (take(name)) return name;
  return {};
}

void Parts::take_prefixed(std::string_view prefix) {
  std::erase_if(left_, [&](std::string_view part) { return part.starts_with(prefix); });
}

std::optional<Type> Parts::take_type() {
  for (const std::string_view part : left_)
    if (const auto type = to_type(part)) {
      left_.erase(std::find(left_.begin(), left_.end(), part));
      return type;
    }
  return std::nullopt;
}

std::optional<Rounding> Parts::take_rounding() {
  static constexpr std::array<std::string_view, 8> kNames = {"rn",  "rz",  "rm",  "rp",
                                                             "rni", "rzi", "rmi", "rpi"};
  return to_rounding(take_one_of(kNames));
}

namespace {

using Sources = std::span<const uint64_t>;

int64_t extended(uint64_t bits, const Type& type) {
  return type.is_signed() ? sign_extend(bits, type.bits)
                          : static_cast<int64_t>(truncate(bits, type.bits));
}

double flushed(double value) {
  return std::abs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
}

// min and max as PTX has them: the number where the other is NaN, -0 below +0.
double smaller(double x, double y) {
  if (std::isnan(x)) return y;
  if (std::isnan(y)) return x;
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}
double larger(double x, double y) {
  return -smaller(-x, -y);
}

using Function = double (*)(double x, double y, double z);
struct FloatOp {
  size_t sources;
  Function narrow;  // of at most 32 bits; exact or rounded to odd, or innocuous to round twice
  Function wide;    // of 64 bits; null: there is none
};

const std::map<std::string_view, FloatOp>& float_ops() {
  static const std::map<std::string_view, FloatOp> ops = {
      {"add",
       {2, [](double x, double y, double) { return add_to_odd(x, y); },
        [](double x, double y, double) { return x + y; }}},
      {"sub",
       {2, [](double x, double y, double) { return add_to_odd(x, -y); },
        [](double x, double y, double) { return x - y; }}},
      {"mul",
       {2, [](double x, double y, double) { return x * y; },
        [](double x, double y, double) { return x * y; }}},
      {"fma", {3, fma_to_odd, [](double x, double y, double z) { return std::fma(x, y, z); }}},
      {"mad", {3, fma_to_odd, [](double x, double y, double z) { return std::fma(x, y, z); }}},
      {"div",
       {2, [](double x, double y, double) { return x / y; },
        [](double x, double y, double) { return x / y; }}},
      {"min",
       {2, [](double x, double y, double) { return smaller(x, y); },
        [](double x, double y, double) { return smaller(x, y); }}},
      {"max",
       {2, [](double x, double y, double) { return larger(x, y); },
        [](double x, double y, double) { return larger(x, y); }}},
      {"rcp",
       {1, [](double x, double, double) { return 1 / x; },
        [](double x, double, double) { return 1 / x; }}},
      {"sqrt",
       {1, [](double x, double, double) { return std::sqrt(x); },
        [](double x, double, double) { return std::sqrt(x); }}},
      {"rsqrt",
       {1, [](double x, double, double) { return 1 / std::sqrt(x); },
        [](double x, double, double) { return 1 / std::sqrt(x); }}},
      {"ex2", {1, [](double x, double, double) { return std::exp2(x); }, nullptr}},
      {"lg2", {1, [](double x, double, double) { return std::log2(x); }, nullptr}},
      {"sin", {1, [](double x, double, double) { return std::sin(x); }, nullptr}},
      {"cos", {1, [](double x, double, double) { return std::cos(x); }, nullptr}},
      {"tanh", {1, [](double x, double, double) { return std::tanh(x); }, nullptr}},
  };
  return ops;
}

// The same of every lane of a packed type.
Compute each_lane(const Type& type, Compute one) {
  if (type.lanes == 1) return one;
  return [type, one](Sources sources) {
    uint64_t result = 0;
    std::vector<uint64_t> lane(sources.size());
    for (uint32_t i = 0; i < type.lanes; ++i) {
      for (size_t j = 0; j < sources.size(); ++j)
        lane[j] = truncate(sources[j] >> (i * type.bits), type.bits);
      result |= truncate(one(lane), type.bits) << (i * type.bits);
    }
    return result;
  };
}

struct FloatForm {
  Type type;
  Rounding rounding = Rounding::Nearest;
  bool flush = false, saturate = false, propagate_nan = false, relu = false, absolute = false;
};

uint64_t compute_float(const FloatOp& op, const FloatForm& form, Sources sources) {
  double x[3] = {};
  bool any_nan = false;
  for (size_t i = 0; i < op.sources; ++i) {
    x[i] = to_double(sources[i], form.type);
    if (form.flush) x[i] = flushed(x[i]);
    any_nan |= std::isnan(x[i]);
  }
  double value = (form.type.bits == 64 ? op.wide : op.narrow)(x[0], x[1], x[2]);
  if (form.propagate_nan && any_nan) value = NAN;
  if (form.relu && !(value > 0)) value = std::isnan(value) ? value : 0.0;
  uint64_t bits = from_double(value, form.type, form.rounding);
  if (!form.flush && !form.saturate) return bits;
  value = to_double(bits, form.type);
  if (form.saturate) value = std::isnan(value) ? 0.0 : std::clamp(value, 0.0, 1.0);
  return from_double(form.flush ? flushed(value) : value, form.type);
}

std::optional<Alu> float_alu(Parts parts, const Type& type) {
  const auto op = float_ops().find(parts.first());
  if (op == float_ops().end()) return std::nullopt;
  FloatForm form{type};
  Type element = type;
  element.lanes = 1;
  form.type = element;
  if (const auto rounding = parts.take_rounding()) form.rounding = *rounding;
  form.flush = parts.take("ftz");
  form.saturate = parts.take("sat");
  form.propagate_nan = parts.take("NaN");
  form.relu = parts.take("relu");
  parts.take("approx");
  parts.take("full");
  const bool inexact_twice = type.bits == 64 || parts.first() == "div" || parts.first() == "rcp" ||
                             parts.first() == "sqrt";
  if (!parts.empty() || (form.rounding != Rounding::Nearest && inexact_twice)) return std::nullopt;
  if (type.bits == 64 && op->second.wide == nullptr) return std::nullopt;
  return Alu{op->second.sources, each_lane(type, [op = op->second, form](Sources sources) {
               return compute_float(op, form, sources);
             })};
}

// neg, abs: of the sign alone.
std::optional<Alu> sign_alu(Parts parts, const Type& type) {
  const bool negates = parts.first() == "neg";
  const bool flush = parts.take("ftz");
  if (!parts.empty()) return std::nullopt;
  Type element = type;
  element.lanes = 1;
  return Alu{1, each_lane(type, [=](Sources sources) {
               uint64_t bits = truncate(sources[0], element.bits);
               if (flush) bits = from_double(flushed(to_double(bits, element)), element);
               const uint64_t sign = uint64_t{1} << (element.bits - 1);
               return negates ? bits ^ sign : bits & ~sign;
             })};
}

using Integer = uint64_t (*)(int64_t x, int64_t y, const Type& type);

uint64_t divide(int64_t x, int64_t y, const Type& type) {
  if (y == 0) return ~uint64_t{0};
  if (!type.is_signed()) return static_cast<uint64_t>(x) / static_cast<uint64_t>(y);
  return y == -1 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x / y);
}
uint64_t remainder(int64_t x, int64_t y, const Type& type) {
  if (y == 0) return static_cast<uint64_t>(x);
  if (!type.is_signed()) return static_cast<uint64_t>(x) % static_cast<uint64_t>(y);
  return y == -1 ? 0 : static_cast<uint64_t>(x % y);
}
bool is_less(int64_t x, int64_t y, const Type& type) {
  return type.is_signed() ? x < y : static_cast<uint64_t>(x) < static_cast<uint64_t>(y);
}
// Shifts clamp their count to the width.
uint64_t shift_left(int64_t x, int64_t y, const Type& type) {
  return truncate(y, 32) >= type.bits ? 0 : static_cast<uint64_t>(x) << truncate(y, 32);
}
uint64_t shift_right(int64_t x, int64_t y, const Type& type) {
  const uint64_t count = std::min<uint64_t>(truncate(y, 32), 63);
  if (type.is_signed()) return static_cast<uint64_t>(x >> count);
  return truncate(y, 32) >= type.bits ? 0 : static_cast<uint64_t>(x) >> count;
}

struct IntegerOp {
  size_t sources;
  Integer compute;
};

const std::map<std::string_view, IntegerOp>& integer_ops() {
  using U = uint64_t;
  static const std::map<std::string_view, IntegerOp> ops = {
      {"add", {2, [](int64_t x, int64_t y, const Type&) { return U(x) + U(y); }}},
      {"sub", {2, [](int64_t x, int64_t y, const Type&) { return U(x) - U(y); }}},
      {"div", {2, divide}},
      {"rem", {2, remainder}},
      {"min", {2, [](int64_t x, int64_t y, const Type& t) { return U(is_less(x, y, t) ? x : y); }}},
      {"max", {2, [](int64_t x, int64_t y, const Type& t) { return U(is_less(x, y, t) ? y : x); }}},
      {"and", {2, [](int64_t x, int64_t y, const Type&) { return U(x & y); }}},
      {"or", {2, [](int64_t x, int64_t y, const Type&) { return U(x | y); }}},
      {"xor", {2, [](int64_t x, int64_t y, const Type&) { return U(x ^ y); }}},
      {"shl", {2, shift_left}},
      {"shr", {2, shift_right}},
      {"not", {1, [](int64_t x, int64_t, const Type&) { return ~U(x); }}},
      {"neg", {1, [](int64_t x, int64_t, const Type&) { return 0 - U(x); }}},
      {"abs", {1, [](int64_t x, int64_t, const Type&) { return x < 0 ? 0 - U(x) : U(x); }}},
      {"popc", {1, [](int64_t x, int64_t, const Type&) { return U(std::popcount(U(x))); }}},
      {"clz",
       {1, [](int64_t x, int64_t,
              const Type& t) { return U(std::countl_zero(U(x))) - (64 - t.bits); }}},
      {"brev",
       {1,
        [](int64_t x, int64_t, const Type& t) {
          U result = 0;
          for (uint32_t i = 0; i < t.bits; ++i) result |= (U(x) >> i & 1) << (t.bits - 1 - i);
          return result;
        }}},
  };
  return ops;
}

std::optional<Alu> integer_alu(Parts parts, const Type& type) {
  const auto op = integer_ops().find(parts.first());
  if (op == integer_ops().end() || !parts.empty()) return std::nullopt;
  // The count of a shift has 32 bits whatever the type.
  const bool shifts = parts.first() == "shl" || parts.first() == "shr";
  return Alu{op->second.sources, [=, op = op->second](Sources sources) {
               const int64_t y = op.sources < 2 ? 0
                                 : shifts       ? static_cast<int64_t>(sources[1])
                                                : extended(sources[1], type);
               return op.compute(extended(sources[0], type), y, type);
             }};
}

// mul and mad: .lo, .hi or .wide halves of the product.
std::optional<Alu> multiply_alu(Parts parts, const Type& type) {
  static constexpr std::array<std::string_view, 3> kHalves = {"lo", "hi", "wide"};
  const std::string_view half = parts.take_one_of(kHalves);
  if (half.empty() || !parts.empty()) return std::nullopt;
  const bool adds = parts.first() == "mad";
  return Alu{
      adds ? size_t{3} : size_t{2}, [=](Sources sources) {
        __extension__ using Wide = __int128;
        const int64_t x = extended(sources[0], type), y = extended(sources[1], type);
        const Wide product = type.is_signed()
                                 ? Wide(x) * y
                                 : static_cast<Wide>(static_cast<unsigned __int128>(uint64_t(x)) *
                                                     static_cast<uint64_t>(y));
        const auto part = static_cast<uint64_t>(half == "hi" ? product >> type.bits : product);
        return part + (adds ? sources[2] : 0);
      }};
}

std::optional<Alu> logic3_alu(Parts parts) {
  if (!parts.take_type() || !parts.empty()) return std::nullopt;
  return Alu{4, [](Sources sources) {
               uint64_t result = 0;
               for (int bit = 0; bit < 32; ++bit) {
                 const uint64_t row = (sources[0] >> bit & 1) << 2 | (sources[1] >> bit & 1) << 1 |
                                      (sources[2] >> bit & 1);
                 result |= (sources[3] >> row & 1) << bit;
               }
               return result;
             }};
}

std::optional<Alu> permute_alu(Parts parts) {
  if (!parts.take("b32") || !parts.empty()) return std::nullopt;
  return Alu{3, [](Sources sources) {
               const uint64_t bytes = truncate(sources[0], 32) | sources[1] << 32;
               uint64_t result = 0;
               for (int i = 0; i < 4; ++i) {
                 const uint64_t selector = sources[2] >> (4 * i) & 15;
                 uint64_t byte = bytes >> (8 * (selector & 7)) & 255;
                 if ((selector & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
                 result |= byte << (8 * i);
               }
               return result;
             }};
}

// dp4a: four products of bytes, and a sum.
std::optional<Alu> dot_product_alu(Parts parts) {
  if (!parts.take("s32") || !parts.take("s32") || !parts.empty()) return std::nullopt;
  return Alu{3, [](Sources sources) {
               uint64_t sum = sources[2];
               for (int shift = 0; shift < 32; shift += 8)
                 sum += static_cast<uint64_t>(static_cast<int8_t>(sources[0] >> shift) *
                                              static_cast<int8_t>(sources[1] >> shift));
               return sum;
             }};
}

// shf: 64 bits shifted, 32 taken.
std::optional<Alu> funnel_alu(Parts parts) {
  const bool left = parts.take("l");
  if (!left && !parts.take("r")) return std::nullopt;
  const bool wraps = parts.take("wrap");
  if (!wraps && !parts.take("clamp")) return std::nullopt;
  if (!parts.take("b32") || !parts.empty()) return std::nullopt;
  return Alu{3, [=](Sources sources) {
               const uint64_t both = truncate(sources[0], 32) | sources[1] << 32;
               const uint64_t asked = truncate(sources[2], 32);
               const uint64_t count = wraps ? asked & 31 : std::min<uint64_t>(asked, 32);
               return left ? (both << count) >> 32 : both >> count;
             }};
}

std::optional<Alu> bit_field_alu(Parts parts) {
  const auto type = parts.take_type();
  if (!type || !parts.empty()) return std::nullopt;
  const auto mask_of = [](uint64_t length) { return truncate(~uint64_t{0}, length); };
  if (parts.first() == "bfi")
    return Alu{4, [=](Sources sources) {
                 const uint64_t at = sources[2] & 255, length = sources[3] & 255;
                 if (at >= type->bits) return sources[1];
                 const uint64_t mask = mask_of(length) << at;
                 return (sources[1] & ~mask) | (sources[0] << at & mask);
               }};
  return Alu{3, [=](Sources sources) {
               const uint64_t at = sources[1] & 255, length = sources[2] & 255;
               const int64_t all = extended(sources[0], *type);
               if (length == 0) return uint64_t{0};
               const int64_t shifted = at < 64 ? all >> at : type->is_signed() ? all >> 63 : 0;
               if (at + length >= type->bits || length >= 64) return static_cast<uint64_t>(shifted);
               return type->is_signed() ? static_cast<uint64_t>(sign_extend(shifted, length))
                                        : truncate(shifted, length);
             }};
}

std::optional<Alu> copysign_alu(Parts parts) {
  const auto type = parts.take_type();
  if (!type || !type->is_float() || !parts.empty()) return std::nullopt;
  const uint64_t sign = uint64_t{1} << (type->bits - 1);
  return Alu{2, [=](Sources sources) { return (sources[1] & ~sign) | (sources[0] & sign); }};
}

std::optional<Alu> select_alu(Parts parts) {
  if (!parts.take_type() || !parts.empty()) return std::nullopt;
  return Alu{3, [](Sources sources) { return sources[2] != 0 ? sources[0] : sources[1]; }};
}

std::optional<Alu> move_alu(Parts parts) {
  if (!parts.take_type() || !parts.empty()) return std::nullopt;
  return Alu{1, [](Sources sources) { return sources[0]; }};
}

// ---- cvt

uint64_t saturated_integer(double value, const Type& to) {
  if (std::isnan(value)) return to.bits == 64 ? uint64_t{1} << 63 : 0;
  const double low = to.is_signed() ? -std::ldexp(1.0, static_cast<int>(to.bits) - 1) : 0.0;
  const double high = std::ldexp(1.0, static_cast<int>(to.bits - to.is_signed()));
  if (value < low) value = low;
  if (value >= high) return truncate(~uint64_t{0}, to.bits - (to.is_signed() ? 1 : 0));
  return to.is_signed() ? static_cast<uint64_t>(static_cast<int64_t>(value))
                        : static_cast<uint64_t>(value);
}

uint64_t convert_integer(uint64_t bits, const Type& from, const Type& to, bool saturate) {
  const int64_t value = extended(bits, from);
  if (!saturate)
    return to.is_signed() ? static_cast<uint64_t>(sign_extend(value, to.bits))
                          : truncate(value, to.bits);
  const bool is_negative = from.is_signed() && value < 0;
  if (!to.is_signed()) {
    if (is_negative) return 0;
    return std::min(static_cast<uint64_t>(value), truncate(~uint64_t{0}, to.bits));
  }
  const auto high = static_cast<int64_t>(truncate(~uint64_t{0}, to.bits - 1));
  if (!is_negative) return std::min(static_cast<uint64_t>(value), static_cast<uint64_t>(high));
  return static_cast<uint64_t>(std::max(value, -high - 1));
}

struct Conversion {
  Type to, from;
  std::optional<Rounding> rounding;
  bool integral = false, flush = false, saturate = false, relu = false;
};

uint64_t convert(uint64_t bits, const Conversion& c) {
  if (!c.from.is_float() && !c.to.is_float())
    return convert_integer(bits, c.from, c.to, c.saturate);
  if (!c.from.is_float()) {
    const int64_t value = extended(bits, c.from);
    // 64 bits do not fit in a double: rounded to odd by hand.
    const bool negative = c.from.is_signed() && value < 0;
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    if (c.to.bits == 64) {
      const auto rounded = static_cast<double>(magnitude);
      return from_double(negative ? -rounded : rounded, c.to);
    }
    const int excess = std::max(0, 64 - std::countl_zero(magnitude) - 50);
    const uint64_t kept = magnitude >> excess;
    const bool is_exact = kept << excess == magnitude;
    const double odd = std::ldexp(static_cast<double>(kept | (is_exact ? 0 : 1)), excess);
    return from_double(negative ? -odd : odd, c.to, c.rounding.value_or(Rounding::Nearest));
  }
  double value = to_double(bits, c.from);
  if (c.flush && c.from.bits == 32) value = flushed(value);
  if (c.integral) value = round_to_integer(value, c.rounding.value_or(Rounding::Nearest));
  if (!c.to.is_float()) return saturated_integer(value, c.to);
  if (c.saturate) value = std::isnan(value) ? 0.0 : std::clamp(value, 0.0, 1.0);
  if (c.relu && value < 0) value = 0.0;
  if (c.to.bits == 64 && c.from.bits == 64) return from_double(value, c.to);
  const uint64_t rounded = from_double(value, c.to, c.rounding.value_or(Rounding::Nearest));
  if (c.flush && c.to.bits == 32) return from_double(flushed(to_double(rounded, c.to)), c.to);
  return rounded;
}

std::optional<Alu> convert_alu(Parts parts) {
  static constexpr std::array<std::string_view, 4> kIntegral = {"rni", "rzi", "rmi", "rpi"};
  Conversion c;
  const auto to = parts.take_type(), from = parts.take_type();
  if (!to || !from) return std::nullopt;
  c.to = *to;
  c.from = *from;
  if (const std::string_view name = parts.take_one_of(kIntegral); !name.empty()) {
    c.integral = true;
    c.rounding = to_rounding(name);
  } else {
    c.rounding = parts.take_rounding();
  }
  c.flush = parts.take("ftz");
  c.saturate = parts.take("sat");
  c.relu = parts.take("relu");
  if (!parts.empty()) return std::nullopt;
  if (c.to.is_float() && c.to.bits == 64 &&
      c.rounding.value_or(Rounding::Nearest) != Rounding::Nearest && !c.integral)
    return std::nullopt;
  if (c.to.lanes == 1) return Alu{1, [c](Sources sources) { return convert(sources[0], c); }};
  if (c.from.lanes != 1 || c.from.bits != 32) return std::nullopt;
  c.to.lanes = 1;
  return Alu{2, [c](Sources sources) {  // the first source becomes the high half
               return convert(sources[0], c) << 16 | convert(sources[1], c);
             }};
}

// ---- Comparisons

enum Outcome { Less = 1, Equal = 2, Greater = 4, Unordered = 8 };

int outcomes_of(std::string_view name, bool is_float) {
  static const std::map<std::string_view, int> outcomes = {{"eq", Equal},
                                                           {"ne", Less | Greater},
                                                           {"lt", Less},
                                                           {"le", Less | Equal},
                                                           {"gt", Greater},
                                                           {"ge", Greater | Equal},
                                                           {"lo", Less},
                                                           {"ls", Less | Equal},
                                                           {"hi", Greater},
                                                           {"hs", Greater | Equal},
                                                           {"equ", Equal | Unordered},
                                                           {"neu", Less | Greater | Unordered},
                                                           {"ltu", Less | Unordered},
                                                           {"leu", Less | Equal | Unordered},
                                                           {"gtu", Greater | Unordered},
                                                           {"geu", Greater | Equal | Unordered},
                                                           {"num", Less | Equal | Greater},
                                                           {"nan", Unordered}};
  const auto at = outcomes.find(name);
  if (at == outcomes.end() || (!is_float && (at->second & Unordered) != 0)) return 0;
  return at->second;
}

int compare(uint64_t x, uint64_t y, const Type& type, bool flush) {
  if (type.is_float()) {
    double a = to_double(x, type), b = to_double(y, type);
    if (flush) a = flushed(a), b = flushed(b);
    return std::isnan(a) || std::isnan(b) ? Unordered : a < b ? Less : a == b ? Equal : Greater;
  }
  const int64_t a = extended(x, type), b = extended(y, type);
  return a == b ? Equal : is_less(a, b, type) ? Less : Greater;
}

constexpr std::array<std::string_view, 18> kComparisons = {
    "eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
    "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

}  // namespace

std::optional<Comparison> find_comparison(std::string_view opcode) {
  static constexpr std::array<std::string_view, 3> kCombine = {"and", "or", "xor"};
  Parts parts(opcode);
  const std::string_view name = parts.take_one_of(kComparisons);
  const std::string_view combine = parts.take_one_of(kCombine);
  const bool flush = parts.take("ftz");
  const auto type = parts.take_type();
  if (parts.first() != "setp" || !type || type->lanes != 1 || !parts.empty()) return std::nullopt;
  const int wanted = outcomes_of(name, type->is_float());
  if (wanted == 0) return std::nullopt;
  return Comparison{combine.empty() ? size_t{2} : size_t{3}, [=, type = *type](Sources sources) {
                      const bool holds =
                          (compare(sources[0], sources[1], type, flush) & wanted) != 0;
                      const auto combined = [&](bool x) {
                        if (combine.empty()) return x;
                        const bool y = sources[2] != 0;
                        return combine == "and" ? x && y : combine == "or" ? x || y : x != y;
                      };
                      return std::pair(combined(holds), combined(!holds));
                    }};
}

std::optional<Alu> find_alu(std::string_view opcode) {
  const Parts parts(opcode);
  static const std::map<std::string_view, std::optional<Alu> (*)(Parts)> special = {
      {"lop3", logic3_alu},     {"prmt", permute_alu},  {"shf", funnel_alu},
      {"bfe", bit_field_alu},   {"bfi", bit_field_alu}, {"copysign", copysign_alu},
      {"selp", select_alu},     {"mov", move_alu},      {"cvt", convert_alu},
      {"dp4a", dot_product_alu}};
  if (const auto at = special.find(parts.first()); at != special.end()) return at->second(parts);
  Parts rest = parts;
  const auto type = rest.take_type();
  if (!type) return std::nullopt;
  const bool is_sign = parts.first() == "neg" || parts.first() == "abs";
  if (type->is_float()) return is_sign ? sign_alu(rest, *type) : float_alu(rest, *type);
  if (type->kind == Kind::Predicate && parts.first() == "not")
    return Alu{1, [](Sources sources) { return uint64_t{sources[0] == 0}; }};
  if (parts.first() == "mul" || parts.first() == "mad") return multiply_alu(rest, *type);
  return integer_alu(rest, *type);
}

}  // namespace attacca::ptx_interpreter
