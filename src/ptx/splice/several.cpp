#include "ptx/splice/several.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

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

// The word of the entry's only `ret`; an error: it ends elsewhere, too, or only some threads there.
Result<uint32_t> only_end(const Module& kernel, const Function& entry) {
  std::optional<uint32_t> end;
  for (uint32_t i = entry.body->span.begin; i < entry.body->span.end; ++i) {
    const std::string_view word = kernel.tokens[i].text();
    if (kernel.tokens[i].kind != TokenKind::Word || (word != "ret" && word != "exit")) continue;
    const Token& before = kernel.tokens[i - 1];
    if (end || word == "exit" ||
        !(before.is('{') || before.is('}') || before.is(';') || before.is(':')))
      return fail(fmt::format("'{}' ends in several places, or not for all threads", entry.name),
                  kernel.source.where(word), "let all threads come to one `ret`");
    end = i;
  }
  if (!end)
    return fail(fmt::format("'{}' has no `ret`", entry.name), kernel.where(entry.span),
                "let all threads come to one");
  return *end;
}

// What is read of a block's own problem. In its texts '~' stands for a prefix that no other name
// has.
class Choice {
 public:
  Choice(std::string prefix, std::string_view parameter, const SeveralParameters& layout,
         size_t problems)
      : prefix_(std::move(prefix)), parameter_(parameter), layout_(layout), problems_(problems) {}

  std::string base() const { return named("%~base"); }
  std::string x() const { return named("%~x"); }
  std::string blocks() const { return named("%~end"); }

  // Leaves in registers the address of the problem's parameters, the block's x in it and its blocks
  // along x, and, if there are signals, how far the problem's are from the first one's.
  std::string find() const {
    std::string text = fmt::format(
        "\n\t.reg .pred %~after;\n\t.reg .b32 %~x, %~begin, %~end, %~next;\n\t.reg .b64 %~base;\n"
        "\tmov.u32 %~x, %ctaid.x;\n\tmov.u32 %~begin, 0;\n\tmov.b64 %~base, {0};\n"
        "\tld.param.u32 %~end, [{0}+{1}];",
        parameter_, layout_.ends_at);
    if (has_signals())
      text += fmt::format("\n\t.reg .b64 %~signals;\n\tmov.b64 %~signals, {};", parameter_);
    for (size_t i = 1; i < problems_; ++i) {
      text += fmt::format(
          "\n\tsetp.ge.u32 %~after, %~x, %~end;\n\tld.param.u32 %~next, [{}+{}];\n"
          "\t@%~after mov.u32 %~begin, %~end;\n\t@%~after mov.u32 %~end, %~next;\n"
          "\t@%~after add.s64 %~base, %~base, {};",
          parameter_, layout_.ends_at + i * sizeof(uint32_t), layout_.stride);
      if (has_signals())
        text += fmt::format("\n\t@%~after add.s64 %~signals, %~signals, {};", sizeof(Signals));
    }
    return named(text + "\n\tsub.u32 %~x, %~x, %~begin;\n\tsub.u32 %~end, %~end, %~begin;\n");
  }

  // Behind find(). `fence`: of what other proxies than the generic one read; may be empty. The
  // lanes of a warp go on together, as they began.
  std::string await(std::string_view fence) const {
    const size_t at = layout_.signals_at + offsetof(Signals, awaited);
    return named(fmt::format(
        "\t.reg .b64 %~address, %~now, %~until;\n\t.reg .b32 %~value, %~most, %~left, %~seen;\n"
        "\tld.param.u64 %~address, [%~signals+{}];\n"
        "\tld.param.u32 %~value, [%~signals+{}];\n"
        "\tld.param.u32 %~most, [%~signals+{}];\n"
        "\tld.param.u32 %~left, [%~signals+{}];\n"
        "\tsetp.eq.u64 %~after, %~address, 0;\n\t@%~after bra $~here;\n"
        "\tcvta.to.global.u64 %~address, %~address;\n\tmov.u64 %~now, %globaltimer;\n"
        "\tmul.wide.u32 %~until, %~most, 1000000;\n\tadd.s64 %~until, %~until, %~now;\n$~again:\n"
        "\tld.acquire.sys.global.u32 %~seen, [%~address];\n"
        "\tsetp.eq.u32 %~after, %~seen, %~value;\n\t@%~after bra $~arrived;\n"
        "\tnanosleep.u32 40;\n\tsetp.eq.u32 %~after, %~most, 0;\n\t@%~after bra $~again;\n"
        "\tmov.u64 %~now, %globaltimer;\n\tsetp.lt.u64 %~after, %~now, %~until;\n"
        "\t@%~after bra $~again;\n\ttrap;\n$~arrived:\n"
        "\tadd.s64 %~address, %~address, 4;\n\tsub.u32 %~left, %~left, 1;\n"
        "\tsetp.ne.u32 %~after, %~left, 0;\n\t@%~after bra $~again;\n{}$~here:\n"
        "\tbar.warp.sync 0xffffffff;\n",
        at + offsetof(AwaitedWord, address), at + offsetof(AwaitedWord, value),
        at + offsetof(AwaitedWord, most_ms), at + offsetof(AwaitedWord, count), fence));
  }

  // Behind find(), at the end of the entry. `wait`: for copies that have not written yet; may be
  // empty.
  std::string report(std::string_view wait) const {
    const size_t at = layout_.signals_at + offsetof(Signals, reported);
    return named(fmt::format(
        "\t.reg .b64 %~address, %~counter;\n\t.reg .b32 %~value, %~thread, %~all, %~other;\n"
        "\tld.param.u64 %~address, [%~signals+{}];\n"
        "\tld.param.u64 %~counter, [%~signals+{}];\n"
        "\tld.param.u32 %~value, [%~signals+{}];\n"
        "\tsetp.eq.u64 %~after, %~address, 0;\n\t@%~after bra $~end;\n{}"
        "\tbarrier.sync 0;\n"
        "\tmov.u32 %~thread, %tid.x;\n\tmov.u32 %~other, %tid.y;\n"
        "\tor.b32 %~thread, %~thread, %~other;\n\tmov.u32 %~other, %tid.z;\n"
        "\tor.b32 %~thread, %~thread, %~other;\n"
        "\tsetp.ne.u32 %~after, %~thread, 0;\n\t@%~after bra $~end;\n"
        "\tmov.u32 %~other, %nctaid.y;\n\tmul.lo.u32 %~all, %~end, %~other;\n"
        "\tmov.u32 %~other, %nctaid.z;\n\tmul.lo.u32 %~all, %~all, %~other;\n"
        "\tcvta.to.global.u64 %~counter, %~counter;\n"
        "\tcvta.to.global.u64 %~address, %~address;\n"
        "\tfence.acq_rel.sys;\n"
        "\tatom.acq_rel.gpu.global.add.u32 %~other, [%~counter], 1;\n"
        "\tadd.u32 %~other, %~other, 1;\n\tsetp.ne.u32 %~after, %~other, %~all;\n"
        "\t@%~after bra $~end;\n"
        "\tst.relaxed.gpu.global.u32 [%~counter], 0;\n"
        "\tfence.acq_rel.sys;\n"
        "\tst.release.sys.global.u32 [%~address], %~value;\n$~end:\n\t",
        at + offsetof(ReportedWord, address), at + offsetof(ReportedWord, counter),
        at + offsetof(ReportedWord, value), wait));
  }

 private:
  bool has_signals() const { return layout_.signals_at > 0; }

  std::string named(std::string_view text) const {
    std::string made;
    for (const char each : text) {
      if (each == '~') {
        made += prefix_;
      } else {
        made += each;
      }
    }
    return made;
  }

  std::string prefix_;
  std::string_view parameter_;
  const SeveralParameters& layout_;
  size_t problems_;
};

// Adds to the entry that a block awaits its problem's word, and reports when all have finished.
Status add_signals(const Module& kernel, const Function& entry, const Choice& at_begin,
                   const Choice& at_end, int target, Edits& edits) {
  ATTACCA_TRY(const uint32_t end, only_end(kernel, entry));
  const bool copies = std::any_of(
      kernel.tokens.begin() + entry.body->span.begin, kernel.tokens.begin() + end,
      [](const Token& token) { return token.text().starts_with("cp.async.bulk.commit_group"); });
  edits.insert_after(
      entry.body->span.begin,
      at_begin.find() + at_begin.await(target >= 90 ? "\tfence.proxy.async;\n" : ""));
  edits.insert_after(
      end - 1, at_end.find() + at_end.report(copies ? "\tcp.async.bulk.wait_group 0;\n" : ""));
  return {};
}

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
                                        bool has_signals) {
  alignment = std::max(alignment, sizeof(uint32_t));
  const size_t stride = (bytes + alignment - 1) / alignment * alignment;
  SeveralParameters made{stride, problems * stride, 0, problems * (stride + sizeof(uint32_t))};
  if (has_signals) {
    constexpr size_t kAlignment = alignof(Signals);
    made.signals_at = (made.bytes + kAlignment - 1) / kAlignment * kAlignment;
    made.bytes = made.signals_at + problems * sizeof(Signals);
  }
  return made;
}

Result<std::string> compute_several(const Module& kernel, std::string_view name, size_t problems,
                                    bool has_signals) {
  ATTACCA_CHECK(problems > 1, "one problem is not several");
  ATTACCA_TRY(const Function* entry, entry_named(kernel, name));
  ATTACCA_TRY(const Variable* parameter, only_parameter(kernel, *entry));
  const SeveralParameters parameters = parameters_of_several(
      *size_in_bytes(*parameter), parameter->alignment, problems, has_signals);
  const int target = target_of(kernel);
  if (has_signals && (target < 70 || parameter->alignment < alignof(Signals)))
    return fail(fmt::format("'{}' is for sm_{}, with a parameter aligned to {} bytes", name, target,
                            parameter->alignment),
                kernel.where(entry->span), "signals need sm_70 and 8 bytes");
  if (parameters.bytes > kMostParameterBytes)
    return fail(fmt::format("the parameters of {} problems take {} bytes, more than {}", problems,
                            parameters.bytes, kMostParameterBytes),
                kernel.where(entry->span), "launch fewer at once");
  const std::string prefix = fresh_prefix("several", kernel, kernel);
  const Choice choice(prefix, parameter->name, parameters, problems);
  Edits edits(kernel);
  resize(kernel, *entry, *parameter, parameters.bytes, edits);
  const Span body = entry->body->span;
  if (has_signals) {
    // Found again at the end, so that no register is kept for it meanwhile.
    const Choice again(prefix + "end_", parameter->name, parameters, problems);
    ATTACCA_TRY_VOID(add_signals(kernel, *entry, choice, again, target, edits));
  } else {
    edits.insert_after(body.begin, choice.find());
  }
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
