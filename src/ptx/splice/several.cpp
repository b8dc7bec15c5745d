#include "ptx/splice/several.hpp"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"

#include "ptx/syntax/edits.hpp"
#include "ptx/syntax/names.hpp"
#include "support/check.hpp"

namespace attacca::ptx {
namespace {

// Where a cluster lies in the grid, and how large the grid is in clusters.
constexpr std::string_view kPlacesOfClusters[] = {"%clusterid", "%nclusterid"};

Result<const Function*> entry_named(const Module& kernel, std::string_view name) {
  for (const Item& item : kernel.items)
    if (const auto* function = std::get_if<Function>(&item);
        function && function->is_entry && function->name == name && function->body)
      return function;
  return fail(fmt::format("there is no kernel '{}'", name), kernel.source.where(0),
              "give the name of its entry");
}

Result<const Variable*> only_parameter(const Module& kernel, const Function& entry) {
  if (entry.parameters.size() != 1 || !size_in_bytes(entry.parameters[0]) ||
      entry.parameters[0].dims.size() != 1)
    return fail(fmt::format("'{}' does not have one struct as its only parameter", entry.name),
                kernel.where(entry.span), "give it one");
  return &entry.parameters[0];
}

// 90 of a module's ".target sm_90a"; 0: unknown.
int target_of(const Module& kernel) {
  const Directive* target = kernel.find_directive(".target");
  int number = 0;
  if (target == nullptr) return 0;
  for (uint32_t i = target->span.begin; i < target->span.end; ++i) {
    std::string_view word = kernel.tokens[i].text();
    if (!word.starts_with("sm_")) continue;
    word.remove_prefix(3);
    std::from_chars(word.data(), word.data() + word.size(), number);
  }
  return number;
}

// Leaves in registers the address of the block's own parameters, its x and the blocks along x.
class Choice {
 public:
  Choice(std::string prefix, std::string_view parameter)
      : prefix_(std::move(prefix)), parameter_(parameter) {}

  std::string base() const { return name("base"); }
  std::string x() const { return name("x"); }
  std::string blocks() const { return name("end"); }

  // `fence`: of what other proxies than the generic one read; may be empty.
  std::string text(const SeveralParameters& parameters, size_t problems,
                   std::string_view fence) const {
    const bool awaits = parameters.awaited_at > 0;
    std::string text = fmt::format(
        "\n\t.reg .pred {after};\n\t.reg .b32 {x}, {begin}, {end}, {next};\n\t.reg .b64 {base};\n"
        "\tmov.u32 {x}, %ctaid.x;\n\tmov.u32 {begin}, 0;\n\tmov.b64 {base}, {parameter};\n"
        "\tld.param.u32 {end}, [{parameter}+{at}];",
        fmt::arg("after", name("after")), fmt::arg("x", x()), fmt::arg("begin", name("begin")),
        fmt::arg("end", blocks()), fmt::arg("next", name("next")), fmt::arg("base", base()),
        fmt::arg("parameter", parameter_), fmt::arg("at", parameters.ends_at));
    if (awaits)
      text += fmt::format("\n\t.reg .b64 {word};\n\tmov.b64 {word}, {parameter};",
                          fmt::arg("word", name("word")), fmt::arg("parameter", parameter_));
    for (size_t i = 1; i < problems; ++i) {
      text += fmt::format(
          "\n\tsetp.ge.u32 {after}, {x}, {end};\n\tld.param.u32 {next}, [{parameter}+{at}];\n"
          "\t@{after} mov.u32 {begin}, {end};\n\t@{after} mov.u32 {end}, {next};\n"
          "\t@{after} add.s64 {base}, {base}, {stride};",
          fmt::arg("after", name("after")), fmt::arg("x", x()), fmt::arg("end", blocks()),
          fmt::arg("next", name("next")), fmt::arg("begin", name("begin")),
          fmt::arg("base", base()), fmt::arg("parameter", parameter_),
          fmt::arg("at", parameters.ends_at + i * sizeof(uint32_t)),
          fmt::arg("stride", parameters.stride));
      if (awaits)
        text += fmt::format("\n\t@{} add.s64 {}, {}, {};", name("after"), name("word"),
                            name("word"), sizeof(AwaitedWord));
    }
    text += fmt::format("\n\tsub.u32 {x}, {x}, {begin};\n\tsub.u32 {end}, {end}, {begin};\n",
                        fmt::arg("x", x()), fmt::arg("begin", name("begin")),
                        fmt::arg("end", blocks()));
    return awaits ? text + awaiting(parameters.awaited_at, fence) : text;
  }

 private:
  // The lanes of a warp go on together, as they began.
  std::string awaiting(size_t at, std::string_view fence) const {
    return fmt::format(
        "\t.reg .b64 {address}, {now}, {end};\n\t.reg .b32 {value}, {most}, {seen};\n"
        "\tld.param.u64 {address}, [{word}+{at}];\n\tld.param.u32 {value}, [{word}+{value_at}];\n"
        "\tld.param.u32 {most}, [{word}+{most_at}];\n"
        "\tsetp.eq.u64 {after}, {address}, 0;\n\t@{after} bra {here};\n"
        "\tcvta.to.global.u64 {address}, {address};\n\tmov.u64 {now}, %globaltimer;\n"
        "\tmul.wide.u32 {end}, {most}, 1000000;\n\tadd.s64 {end}, {end}, {now};\n{again}:\n"
        "\tld.acquire.sys.global.u32 {seen}, [{address}];\n"
        "\tsetp.eq.u32 {after}, {seen}, {value};\n\t@{after} bra {arrived};\n"
        "\tnanosleep.u32 40;\n\tsetp.eq.u32 {after}, {most}, 0;\n\t@{after} bra {again};\n"
        "\tmov.u64 {now}, %globaltimer;\n\tsetp.lt.u64 {after}, {now}, {end};\n"
        "\t@{after} bra {again};\n\ttrap;\n{arrived}:\n{fence}{here}:\n"
        "\tbar.warp.sync 0xffffffff;\n",
        fmt::arg("address", name("address")), fmt::arg("now", name("now")),
        fmt::arg("end", name("until")), fmt::arg("value", name("value")),
        fmt::arg("most", name("most")), fmt::arg("seen", name("seen")),
        fmt::arg("word", name("word")), fmt::arg("at", at),
        fmt::arg("value_at", at + offsetof(AwaitedWord, value)),
        fmt::arg("most_at", at + offsetof(AwaitedWord, most_ms)), fmt::arg("after", name("after")),
        fmt::arg("again", label("again")), fmt::arg("arrived", label("arrived")),
        fmt::arg("here", label("here")), fmt::arg("fence", fence));
  }

  std::string label(std::string_view what) const { return fmt::format("${}{}", prefix_, what); }
  std::string name(std::string_view what) const { return fmt::format("%{}{}", prefix_, what); }

  std::string prefix_;
  std::string_view parameter_;
};

// Gives the parameter, which is declared as `.b8 name[bytes]`, another size.
void resize(const Module& kernel, const Function& entry, const Variable& parameter, size_t bytes,
            Edits& edits) {
  for (uint32_t i = entry.span.begin; i < entry.body->span.begin; ++i)
    if (kernel.tokens[i].text() == parameter.name && kernel.tokens[i + 1].is('[')) {
      edits.replace({i + 2, i + 3}, fmt::format("{}", bytes));
      return;
    }
  ATTACCA_CHECK(false, "a parameter without its declaration");
}

}  // namespace

SeveralParameters parameters_of_several(size_t bytes, size_t alignment, size_t problems,
                                        bool awaits) {
  alignment = std::max(alignment, sizeof(uint32_t));
  const size_t stride = (bytes + alignment - 1) / alignment * alignment;
  SeveralParameters made{stride, problems * stride, 0, problems * (stride + sizeof(uint32_t))};
  if (awaits) {
    constexpr size_t kAlignment = alignof(AwaitedWord);
    made.awaited_at = (made.bytes + kAlignment - 1) / kAlignment * kAlignment;
    made.bytes = made.awaited_at + problems * sizeof(AwaitedWord);
  }
  return made;
}

Result<std::string> compute_several(const Module& kernel, std::string_view name, size_t problems,
                                    bool awaits) {
  ATTACCA_CHECK(problems > 1, "one problem is not several");
  ATTACCA_TRY(const Function* entry, entry_named(kernel, name));
  ATTACCA_TRY(const Variable* parameter, only_parameter(kernel, *entry));
  const SeveralParameters parameters =
      parameters_of_several(*size_in_bytes(*parameter), parameter->alignment, problems, awaits);
  const int target = target_of(kernel);
  if (awaits && (target < 70 || parameter->alignment < alignof(AwaitedWord)))
    return fail(fmt::format("'{}' is for sm_{}, with a parameter aligned to {} bytes", name, target,
                            parameter->alignment),
                kernel.where(entry->span), "awaiting needs sm_70 and 8 bytes");
  if (parameters.bytes > kMostParameterBytes)
    return fail(fmt::format("the parameters of {} problems take {} bytes, more than {}", problems,
                            parameters.bytes, kMostParameterBytes),
                kernel.where(entry->span), "launch fewer at once");
  const Choice choice(fresh_prefix("several", kernel, kernel), parameter->name);
  const std::string_view fence = target >= 90 ? "\tfence.proxy.async;\n" : "";
  Edits edits(kernel);
  resize(kernel, *entry, *parameter, parameters.bytes, edits);
  const Span body = entry->body->span;
  edits.insert_after(body.begin, choice.text(parameters, problems, fence));
  for (uint32_t i = 0; i < kernel.tokens.size(); ++i) {
    if (kernel.tokens[i].kind != TokenKind::Word) continue;
    const std::string_view word = kernel.tokens[i].text();
    const bool is_grid = word == "%ctaid.x" || word == "%nctaid.x";
    const bool is_cluster =
        std::any_of(std::begin(kPlacesOfClusters), std::end(kPlacesOfClusters),
                    [&](std::string_view place) { return word.starts_with(place); });
    const bool inside = i > body.begin && i < body.end;
    if (is_cluster || (is_grid && !inside))
      return fail(fmt::format("{} is read{}", word, inside ? "" : " outside of the entry"),
                  kernel.source.where(word), "read %ctaid.x and %nctaid.x in the entry");
    if (!inside) continue;
    if (is_grid) edits.replace({i, i + 1}, word == "%ctaid.x" ? choice.x() : choice.blocks());
    if (word == parameter->name) edits.replace({i, i + 1}, choice.base());
  }
  return edits.apply();
}

}  // namespace attacca::ptx
