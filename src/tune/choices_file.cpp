#include "tune/choices_file.hpp"

#include <algorithm>
#include <tuple>

#include "fmt/format.h"

#include "launch/candidate.hpp"
#include "launch/user_kernel.hpp"
#include "support/hash.hpp"
#include "support/text/json.hpp"
#include "tune/choice.hpp"

namespace attacca::tune {
namespace {

constexpr std::string_view kFormatName = "attacca choices ";
constexpr std::string_view kFormat = "attacca choices 1";
constexpr const char* kCopyAgain = "copy the file again, or export it again";

std::string digits(uint64_t number) {
  return fmt::format("{:016x}", number);
}

json::Value key_of(const std::string& problem, const std::string& shape) {
  return json::Value::object().set("problem", problem).set("shape", shape);
}

std::string line_of(const FiledChoice& choice) {
  json::Value line = key_of(choice.problem, choice.shape)
                         .set("candidate", choice.candidate)
                         .set("kernel", choice.kernel)
                         .set("seconds", choice.seconds)
                         .set("unfused_seconds", choice.unfused_seconds)
                         .set("made", choice.made);
  if (choice.quick) line.set("quick", true);
  return json::dump(line, -1) + "\n";
}

// How a choice's line begins, after the end of the line before it.
std::string line_start(const std::string& problem, const std::string& shape) {
  std::string start = "\n" + json::dump(key_of(problem, shape), -1);
  start.back() = ',';
  return start;
}

std::string head_of(const std::string& device, const std::string& tools, size_t choices,
                    std::string_view body) {
  return json::dump(json::Value::object()
                        .set("format", kFormat)
                        .set("device", device)
                        .set("tools", tools)
                        .set("choices", choices)
                        .set("hash", digits(hash64(body))),
                    -1) +
         "\n";
}

bool is_fingerprint(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Whether a tuning could have given these values.
bool is_sound(const FiledChoice& choice) {
  const auto candidate = launch::parse_candidate(choice.candidate);
  if (!candidate || to_string(*candidate) != choice.candidate) return false;
  const bool is_template =
      candidate->kind == launch::CandidateKind::Fused && candidate->kernel != launch::kUserKernel;
  return !choice.problem.empty() && !choice.shape.empty() &&
         are_times(choice.seconds, choice.unfused_seconds) && choice.made >= 0 &&
         (is_template ? is_fingerprint(choice.kernel) : choice.kernel.empty());
}

template <class T>
std::optional<T> member(const json::Value& line, std::string_view key) {
  const json::Value* found = line.find(key);
  return found != nullptr && found->is<T>() ? std::optional<T>(found->as<T>()) : std::nullopt;
}

// None: line_of() does not write such a line.
std::optional<FiledChoice> parse_line(std::string_view text) {
  const auto line = json::parse(text);
  if (!line) return std::nullopt;
  FiledChoice choice;
  const auto take = [&]<class T>(std::string_view key, T& into) {
    const auto value = member<T>(*line, key);
    if (value) into = *value;
    return value.has_value();
  };
  const bool all = take("problem", choice.problem) && take("shape", choice.shape) &&
                   take("candidate", choice.candidate) && take("kernel", choice.kernel) &&
                   take("seconds", choice.seconds) &&
                   take("unfused_seconds", choice.unfused_seconds) && take("made", choice.made);
  take("quick", choice.quick);
  if (!all || !is_sound(choice) || line_of(choice) != text) return std::nullopt;
  return choice;
}

auto order(const FiledChoice& choice) {
  return std::tie(choice.problem, choice.shape);
}

tl::unexpected<Error> damaged(const std::string& source, size_t line, const std::string& how) {
  return fail("the file of tuned choices is damaged: " + how, fmt::format("{}:{}", source, line),
              kCopyAgain);
}

}  // namespace

bool can_be_filed(const FiledChoice& choice) {
  return parse_line(line_of(choice)) == choice;
}

std::string write_choices(ChoicesFile file) {
  std::sort(file.choices.begin(), file.choices.end(),
            [](const FiledChoice& a, const FiledChoice& b) { return order(a) < order(b); });
  std::string body;
  for (const FiledChoice& choice : file.choices) body += line_of(choice);
  return head_of(file.device, file.tools, file.choices.size(), body) + body;
}

Result<ChoicesFile> read_choices(std::string_view text, const std::string& source) {
  ATTACCA_TRY(const ChoicesText file, ChoicesText::open(std::string(text), source));
  ATTACCA_TRY(std::vector<FiledChoice> choices, file.choices());
  return ChoicesFile{file.device(), file.tools(), std::move(choices)};
}

Result<ChoicesText> ChoicesText::open(std::string text, const std::string& source) {
  const size_t end = text.find('\n');
  const auto head = json::parse(std::string_view(text).substr(0, end), source);
  const auto format = head ? member<std::string>(*head, "format") : std::nullopt;
  if (!format || !format->starts_with(kFormatName))
    return fail("not a file of tuned choices", source, "give a file of `attacca tune --export`");
  if (*format != kFormat)
    return fail(fmt::format("the file's format is {}, this version reads {}", *format, kFormat),
                source, "export it again with this version of Attacca");
  const auto device = member<std::string>(*head, "device");
  const auto tools = member<std::string>(*head, "tools");
  const auto count = member<int64_t>(*head, "choices");
  if (end == std::string::npos || !device || !tools || !count)
    return damaged(source, 1, "its first line is not whole");
  const std::string_view body = std::string_view(text).substr(end + 1);
  const auto lines = std::count(body.begin(), body.end(), '\n');
  if (lines != *count)
    return damaged(source, 1, fmt::format("it should have {} choices and has {}", *count, lines));
  if (head_of(*device, *tools, static_cast<size_t>(lines), body) != text.substr(0, end + 1))
    return damaged(source, 1, "its lines do not have the hash that the first line says");
  ChoicesText file;
  file.source_ = source;
  file.text_ = std::move(text);
  file.device_ = *device;
  file.tools_ = *tools;
  file.body_ = end + 1;
  return file;
}

std::optional<FiledChoice> ChoicesText::find(const std::string& problem,
                                             const std::string& shape) const {
  const size_t before = text_.find(line_start(problem, shape), body_ - 1);
  if (before == std::string::npos) return std::nullopt;
  const size_t begin = before + 1;
  return parse_line(std::string_view(text_).substr(begin, text_.find('\n', begin) + 1 - begin));
}

Result<std::vector<FiledChoice>> ChoicesText::choices() const {
  std::vector<FiledChoice> choices;
  for (size_t begin = body_, end = 0; begin < text_.size(); begin = end) {
    end = text_.find('\n', begin);
    end = end == std::string::npos ? text_.size() : end + 1;
    const size_t line = choices.size() + 2;
    auto choice = parse_line(std::string_view(text_).substr(begin, end - begin));
    if (!choice) return damaged(source_, line, "the line is not a tuned choice");
    if (!choices.empty() && !(order(choices.back()) < order(*choice)))
      return damaged(source_, line, "its lines are not in order");
    choices.push_back(*std::move(choice));
  }
  return choices;
}

}  // namespace attacca::tune
