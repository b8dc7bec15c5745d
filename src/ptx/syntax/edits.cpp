#include "ptx/syntax/edits.hpp"

#include <algorithm>

#include "support/check.hpp"

namespace attacca::ptx {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool before(Span a, Span b) {
  return a.end <= b.begin;
}

}  // namespace

void Edits::replace(Span span, std::string text) {
  if (edits_.empty() || (before(edits_.back().span, span) && edits_.back().span.begin < span.begin))
    return edits_.push_back({span, std::move(text)});
  const auto next =
      std::upper_bound(edits_.begin(), edits_.end(), span,
                       [](Span value, const Edit& edit) { return value.begin < edit.span.begin; });
  ATTACCA_CHECK(next == edits_.end() || before(span, next->span), "edits overlap");
  ATTACCA_CHECK(next == edits_.begin() || before(std::prev(next)->span, span), "edits overlap");
  edits_.insert(next, {span, std::move(text)});
}

void Edits::insert_after(uint32_t token, std::string text) {
  replace({token + 1, token + 1}, std::move(text));
}

bool Edits::covers(uint32_t token) const {
  const auto next =
      std::upper_bound(edits_.begin(), edits_.end(), token,
                       [](uint32_t value, const Edit& edit) { return value < edit.span.begin; });
  for (auto edit = next; edit != edits_.begin();) {
    --edit;
    if (edit->span.begin != edit->span.end) return token < edit->span.end;
  }
  return false;
}

// An insertion follows the token before it. A replacement keeps the blanks before it, but a removal
// at the end of a line removes them, too.
size_t Edits::begin_of(const Edit& edit) const {
  if (edit.span.begin == edit.span.end) return end_of(edit);
  const std::string_view text = module_.source.text();
  size_t begin = module_.source.begin_of(module_.tokens[edit.span.begin]);
  if (edit.text.empty() && text.substr(end_of(edit)).starts_with('\n'))
    while (begin > 0 && is_blank(text[begin - 1])) --begin;
  return begin;
}

size_t Edits::end_of(const Edit& edit) const {
  return edit.span.end == 0 ? 0 : module_.source.end_of(module_.tokens[edit.span.end - 1]);
}

std::string Edits::apply(size_t begin, size_t end) const {
  const std::string_view text = module_.source.text();
  size_t size = end - begin;
  for (const Edit& edit : edits_) size += edit.text.size();
  std::string out;
  out.reserve(size);
  for (const Edit& edit : edits_) {
    const size_t next = std::max(begin, begin_of(edit));
    out += text.substr(begin, next - begin);
    out += edit.text;
    begin = end_of(edit);
  }
  out += text.substr(begin, end - begin);
  return out;
}

std::string Edits::apply() const {
  return apply(0, module_.source.text().size());
}

std::string Edits::apply(Span span) const {
  if (span.begin == span.end) return {};
  return apply(module_.source.begin_of(module_.tokens[span.begin]),
               module_.source.end_of(module_.tokens[span.end - 1]));
}

}  // namespace attacca::ptx
