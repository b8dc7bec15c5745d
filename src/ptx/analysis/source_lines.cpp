#include "ptx/analysis/source_lines.hpp"

#include "fmt/format.h"

#include "ptx/syntax/cursor.hpp"

namespace attacca::ptx {

// .file 1 "/home/me/kernel.cu"
SourceLines::SourceLines(const Module& module) : module_(module) {
  for (const Item& item : module.items) {
    const auto* directive = std::get_if<Directive>(&item);
    if (!directive || directive->name != ".file") continue;
    if (directive->span.end - directive->span.begin < 3) continue;
    const auto number = to_integer(module.tokens[directive->span.begin + 1].text());
    std::string_view path = module.tokens[directive->span.begin + 2].text();
    if (!number || path.size() < 2) continue;
    path = path.substr(1, path.size() - 2);
    files_[*number] = std::string(path.substr(path.find_last_of('/') + 1));
  }
}

// .loc 1 12 5
std::string SourceLines::where(const Step& step) const {
  if (step.line && step.line->span.end - step.line->span.begin >= 3) {
    const std::vector<Token>& tokens = module_.tokens;
    const auto file = to_integer(tokens[step.line->span.begin + 1].text());
    const auto line = to_integer(tokens[step.line->span.begin + 2].text());
    const auto found = file ? files_.find(*file) : files_.end();
    if (line && *line > 0 && found != files_.end())
      return fmt::format("{}:{}", found->second, *line);
  }
  return module_.where(step.instruction->span);
}

}  // namespace attacca::ptx
