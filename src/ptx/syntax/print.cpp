// Prints the tree node by node. A token that no node covers would be missing, and the round-trip
// tests would fail.
#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {
namespace {

class Printer {
 public:
  explicit Printer(const Module& module) : module_(module) {}

  std::string run() {
    out_.reserve(module_.source.text().size());
    for (const Item& item : module_.items) std::visit([&](const auto& node) { print(node); }, item);
    tokens({static_cast<uint32_t>(module_.tokens.size() - 1),
            static_cast<uint32_t>(module_.tokens.size())});
    return std::move(out_);
  }

 private:
  // The tokens with the blanks and comments before each.
  void tokens(Span span) {
    if (span.begin == span.end) return;
    const size_t begin =
        span.begin == 0 ? 0 : module_.source.end_of(module_.tokens[span.begin - 1]);
    out_ += module_.source.text().substr(
        begin, module_.source.end_of(module_.tokens[span.end - 1]) - begin);
  }

  void print(const Directive& directive) { tokens(directive.span); }
  void print(const Declaration& declaration) { tokens(declaration.span); }
  void print(const Label& label) { tokens(label.span); }
  void print(const Instruction& instruction) { tokens(instruction.span); }

  void print(const Scope& scope) {
    tokens({scope.span.begin, scope.span.begin + 1});
    for (const Statement& statement : scope.statements)
      std::visit([&](const auto& node) { print(node); }, statement.node);
    tokens({scope.span.end - 1, scope.span.end});
  }

  void print(const Function& function) {
    if (!function.body) return tokens(function.span);
    tokens({function.span.begin, function.body->span.begin});
    print(*function.body);
  }

  const Module& module_;
  std::string out_;
};

}  // namespace

std::string print(const Module& module) {
  return Printer(module).run();
}

std::string_view Module::text(Span span) const {
  if (span.begin == span.end) return {};
  const size_t begin = source.begin_of(tokens[span.begin]);
  return source.text().substr(begin, source.end_of(tokens[span.end - 1]) - begin);
}

std::vector<std::string_view> opcode_parts(std::string_view opcode) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t dot = opcode.find('.');
    parts.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    opcode.remove_prefix(dot + 1);
  }
}

}  // namespace attacca::ptx
