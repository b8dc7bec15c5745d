#include "kernels/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::kernels {
namespace {

using ir::DType;
using ir::Tensor;

Tensor make_tensor(DType dtype, std::vector<int64_t> shape) {
  auto made = Tensor::make(dtype, std::move(shape));
  ATTACCA_CHECK(made.has_value(), "no memory");
  return *std::move(made);
}

size_t aligned(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

class Reader {
 public:
  Reader(const Kernel& kernel, uint64_t seed, bool special)
      : kernel_(kernel), text_(kernel.parameters), seed_(seed), special_(special) {}

  Result<Arguments> read() {
    while (skip_blanks(), !text_.empty()) {
      ATTACCA_TRY(Parameter parameter, read_parameter());
      arguments_.parameters.push_back(std::move(parameter));
    }
    return std::move(arguments_);
  }

 private:
  tl::unexpected<Error> unexpected(std::string_view wanted) const {
    return fail(fmt::format("{}: wanted {} at '{}'", to_string(kernel_), wanted, text_));
  }
  void skip_blanks() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view take_until(std::string_view ends) {
    const std::string_view word = text_.substr(0, text_.find_first_of(ends));
    text_.remove_prefix(word.size());
    return word;
  }

  Result<Parameter> read_parameter() {
    if (take('{')) return read_struct();
    const std::string_view word = take_until(" [:}");
    if (word == "out") {
      arguments_.output = arguments_.buffers.size();
      return pointer_to(make_tensor(kernel_.dtype, {kernel_.rows, kernel_.columns}));
    }
    if (take('[')) return read_buffer(word);
    if (take(':')) return read_number(word);
    return unexpected("'[', ':' or out");
  }

  Result<Parameter> read_struct() {
    Parameter whole;
    while (skip_blanks(), !take('}')) {
      if (text_.empty()) return unexpected("'}'");
      ATTACCA_TRY(const Parameter member, read_parameter());
      const size_t at = aligned(whole.bytes, member.alignment);
      for (Field field : member.fields) {
        field.offset += at;
        whole.fields.push_back(std::move(field));
      }
      whole.bytes = at + member.bytes;
      whole.alignment = std::max(whole.alignment, member.alignment);
    }
    whole.bytes = aligned(whole.bytes, whole.alignment);
    return whole;
  }

  Parameter pointer_to(Tensor buffer) {
    arguments_.buffers.push_back(std::move(buffer));
    return {8, 8, {{0, {}, arguments_.buffers.size() - 1}}};
  }

  Result<Parameter> read_buffer(std::string_view type) {
    int64_t count = 1;
    do {
      int64_t factor = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), factor);
      if (error != std::errc()) return unexpected("a number of elements");
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      count *= factor;
    } while (take('*'));
    if (!take(']')) return unexpected("']'");
    if (type == "permutation") return pointer_to(permutation(count));
    const auto dtype = ir::parse_dtype(type);
    if (!dtype) return unexpected("a dtype before '['");
    return pointer_to(random_tensor(*dtype, {count}, ++seed_, special_));
  }

  Tensor permutation(int64_t count) {
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(++seed_);
    std::shuffle(order.begin(), order.end(), random);
    Tensor tensor = make_tensor(DType::S32, {count});
    std::memcpy(tensor.data(), order.data(), order.size() * sizeof(int32_t));
    return tensor;
  }

  Result<Parameter> read_number(std::string_view type) {
    const auto dtype = ir::parse_dtype(type);
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (!dtype || error != std::errc()) return unexpected("DTYPE:NUMBER");
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    const Tensor number = Tensor::of(*dtype, {}, {value});
    const auto bytes = bytes_of(number);
    return Parameter{bytes.size(), bytes.size(), {{0, {bytes.begin(), bytes.end()}, 0}}};
  }

  const Kernel& kernel_;
  std::string_view text_;
  uint64_t seed_;
  bool special_;
  Arguments arguments_;
};

}  // namespace

std::vector<std::vector<std::byte>> Arguments::pack(std::span<const uint64_t> addresses) const {
  std::vector<std::vector<std::byte>> packed;
  for (const Parameter& parameter : parameters) {
    std::vector<std::byte>& bytes = packed.emplace_back(parameter.bytes);
    for (const Field& field : parameter.fields) {
      if (field.number.empty())
        std::memcpy(bytes.data() + field.offset, &addresses[field.buffer], sizeof(uint64_t));
      else
        std::memcpy(bytes.data() + field.offset, field.number.data(), field.number.size());
    }
  }
  return packed;
}

Result<Arguments> make_arguments(const Kernel& kernel, uint64_t seed, bool special) {
  return Reader(kernel, seed, special).read();
}

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, bool special) {
  static constexpr double kSpecial[] = {NAN,  INFINITY, -INFINITY, 0.0,   -0.0,
                                        1e30, -1e30,    1e-40,     -1e-7, 65504};
  Tensor tensor = make_tensor(dtype, std::move(shape));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (!ir::is_float(dtype))
      tensor.set_integer(i, static_cast<int64_t>(random() % 201) - 100);
    else if (special && random() % 4 == 0)
      tensor.set_number(i, kSpecial[random() % std::size(kSpecial)]);
    else
      tensor.set_number(i, normal(random));
  }
  return tensor;
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}
std::span<std::byte> bytes_of(Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}

}  // namespace attacca::kernels
