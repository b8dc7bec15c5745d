#include "torch_ops/sizes.hpp"

#include <charconv>

namespace attacca::torch_ops {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// One product of the sum, added to it; false where it is not linear in one symbol.
bool add_product(std::string_view product, int64_t sign, Linear& sum) {
  int64_t factor = sign;
  std::string_view symbol;
  for (size_t begin = 0; begin <= product.size();) {
    const size_t end = std::min(product.find('*', begin), product.size());
    std::string_view part = trimmed(product.substr(begin, end - begin));
    begin = end + 1;
    if (part.starts_with('-')) {
      factor = -factor;
      part = trimmed(part.substr(1));
    }
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error == std::errc() && rest == part.data() + part.size())
      factor *= number;
    else if (symbol.empty() && !part.empty())
      symbol = part;
    else
      return false;
  }
  if (symbol.empty()) {
    sum.offset += factor;
    return true;
  }
  if (!sum.symbol.empty() && sum.symbol != symbol) return false;
  sum.symbol = symbol;
  sum.factor += factor;
  return true;
}

}  // namespace

std::optional<Linear> linear(std::string_view extent) {
  Linear sum;
  int64_t sign = 1;
  for (size_t begin = 0; begin < extent.size();) {
    // A minus at the beginning of a product belongs to it.
    const size_t first = extent.find_first_not_of(' ', begin);
    const size_t end =
        std::min(extent.find_first_of("+-", std::min(first, extent.size() - 1) + 1), extent.size());
    if (!add_product(extent.substr(begin, end - begin), sign, sum)) return std::nullopt;
    sign = end < extent.size() && extent[end] == '-' ? -1 : 1;
    begin = end + 1;
  }
  if (sum.symbol.empty() || sum.factor == 0) return std::nullopt;
  return sum;
}

Result<std::vector<std::pair<std::string, int64_t>>> sizes_of(
    const std::vector<std::string>& symbols, const std::vector<TensorInfo>& inputs,
    const std::vector<Shape>& shapes) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const std::string& symbol : symbols) {
    std::optional<int64_t> value;
    for (size_t i = 0; i < inputs.size() && !value; ++i)
      for (size_t axis = 0; axis < inputs[i].shape.size() && axis < shapes[i].size(); ++axis)
        if (const auto found = linear(inputs[i].shape[axis]); found && found->symbol == symbol)
          value = (shapes[i][axis] - found->offset) / found->factor;
    if (!value)
      return Status("size " + symbol + " is not an extent of any input", symbol,
                    "give an input an extent that is the symbol alone");
    sizes.emplace_back(symbol, *value);
  }
  return sizes;
}

}  // namespace attacca::torch_ops
