// Finds the functions of CUDA C++ text that an epilogue may call, without parsing C++: it looks for
// the words of their heads. Not by std::regex, which recurses for each character.
#include <algorithm>
#include <array>
#include <cctype>

#include "epilogue/text.hpp"

namespace attacca::epilogue {
namespace {

constexpr std::array<std::string_view, 7> kSpecifiers = {
    "inline", "static", "constexpr", "__forceinline__", "__inline__", "__host__", "__noinline__"};

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_name(std::string_view word) {
  return !word.empty() && is_word_character(word[0]) &&
         std::isdigit(static_cast<unsigned char>(word[0])) == 0;
}

// Words and single other characters, without white space. Empty at the end.
class Words {
 public:
  explicit Words(std::string_view rest) : rest_(rest) {}

  std::string_view peek() const { return word_at(rest_); }
  std::string_view take() {
    const std::string_view word = peek();
    rest_.remove_prefix(word.empty()
                            ? rest_.size()
                            : static_cast<size_t>(word.data() - rest_.data()) + word.size());
    return word;
  }
  bool accept(std::string_view wanted) {
    if (peek() != wanted) return false;
    take();
    return true;
  }

 private:
  static std::string_view word_at(std::string_view text) {
    const auto begin = std::find_if(text.begin(), text.end(), [](char c) {
      return std::isspace(static_cast<unsigned char>(c)) == 0;
    });
    if (begin == text.end()) return {};
    auto end = std::find_if_not(begin, text.end(), is_word_character);
    if (end == begin) ++end;
    return {begin, end};
  }

  std::string_view rest_;
};

// What follows '(' up to ')': float [name] {',' float [name]}. How many; 0: something else.
size_t count_floats(Words& words) {
  size_t count = 0;
  do {
    words.accept("const");
    if (!words.accept("float")) return 0;
    if (is_name(words.peek())) words.take();
    ++count;
  } while (words.accept(","));
  return words.accept(")") ? count : 0;
}

std::optional<ir::ForeignFunction> function_after_device(Words words) {
  while (std::find(kSpecifiers.begin(), kSpecifiers.end(), words.peek()) != kSpecifiers.end())
    words.take();
  if (!words.accept("float") || !is_name(words.peek())) return std::nullopt;
  const std::string_view name = words.take();
  if (!words.accept("(")) return std::nullopt;
  const size_t arity = count_floats(words);
  if (arity == 0) return std::nullopt;
  return ir::ForeignFunction{std::string(name), arity};
}

}  // namespace

std::vector<ir::ForeignFunction> device_functions(std::string_view cuda) {
  std::vector<ir::ForeignFunction> functions;
  constexpr std::string_view kDevice = "__device__";
  Words words(cuda);
  while (!words.peek().empty())
    if (words.take() == kDevice)
      if (auto function = function_after_device(words)) functions.push_back(*std::move(function));
  return functions;
}

}  // namespace attacca::epilogue
