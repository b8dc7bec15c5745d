// The text form of tuned choices, for other machines and for packages. Each line is a JSON object;
// the first is about the whole file:
//
//   {"format":"attacca choices 1","device":"NVIDIA H200","tools":"attacca 0.2.0, templates ...",
//    "choices":2,"hash":"<XXH3 of all lines below>"}
//   {"problem":"...","shape":"m<=16 n=64 batch=1 k=64","candidate":"...","kernel":"<fingerprint>",
//    "seconds":1e-05,"unfused_seconds":2e-05,"made":1790000000}
//
// The choice of a quick tuning has "quick":true at its end.
//
// The lines are sorted by problem and shape, each pair occurs once, and numbers have their shortest
// text: equal choices are equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"

namespace attacca::tune {

struct FiledChoice {
  std::string problem, shape;  // of ChoiceKey
  std::string candidate;       // as launch::to_string() writes it
  std::string kernel;          // of a template: its fingerprint, 16 hexadecimal digits; else empty
  double seconds = 0, unfused_seconds = 0;
  int64_t made = 0;    // seconds since 1970
  bool quick = false;  // as Choice's
  friend bool operator==(const FiledChoice&, const FiledChoice&) = default;
};

struct ChoicesFile {
  std::string device;  // of ChoiceKey
  std::string tools;   // Toolbox::identity()
  std::vector<FiledChoice> choices;
  friend bool operator==(const ChoicesFile&, const ChoicesFile&) = default;
};

// Whether a file can hold the choice: a tuning could have given its values, and its texts are
// UTF-8.
bool can_be_filed(const FiledChoice& choice);
// Sorts the choices. REQUIRES: each can be filed, each problem and shape once.
std::string write_choices(ChoicesFile file);
// Accepts what write_choices() gives and nothing else. `source` names the file in errors.
Result<ChoicesFile> read_choices(std::string_view text, const std::string& source);

// A file's text. Only the lines that are asked for are parsed.
class ChoicesText {
 public:
  // Errors: not such a file, damaged.
  static Result<ChoicesText> open(std::string text, const std::string& source);

  const std::string& device() const { return device_; }
  const std::string& tools() const { return tools_; }
  // The first line, which no other choices have.
  std::string_view head() const { return std::string_view(text_).substr(0, body_); }
  std::optional<FiledChoice> find(const std::string& problem, const std::string& shape) const;
  // All of them, in the file's order. Errors: a line that write_choices() does not write.
  Result<std::vector<FiledChoice>> choices() const;

 private:
  ChoicesText() = default;

  std::string source_, text_, device_, tools_;
  size_t body_ = 0;  // where the first choice's line begins
};

}  // namespace attacca::tune
