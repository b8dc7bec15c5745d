#include "gpu/kernel/user_kernel.hpp"

#include "fmt/format.h"

#include "epilogue/code/tail_function.hpp"
#include "epilogue/text.hpp"
#include "support/check.hpp"

namespace attacca::gpu {

std::string target_of(const ptx::Module& module) {
  const ptx::Span span = module.find_directive(".target")->span;
  return span.end - span.begin < 2 ? std::string()
                                   : std::string(module.tokens[span.begin + 1].text());
}

Tail emit_tail(const epilogue::Epilogue& epilogue, const TailForm& form,
               const std::vector<std::string>& names) {
  ATTACCA_CHECK(!epilogue::tail_refusal(epilogue), "an epilogue that is no tail");
  Tail tail;
  tail.signature.threads = form.threads;
  epilogue::TailOptions options;
  options.cuda.mode = form.mode;
  options.cuda.function = tail.signature.function;
  options.cuda.names = names;
  options.rows = form.rows;
  options.columns = form.columns;
  tail.source = epilogue::emit_tail_function(epilogue, options);
  for (const int count : {2, 4, 8, 16})
    if (std::string pack = epilogue::emit_tail_pack(epilogue, options, count); !pack.empty())
      tail.packs[static_cast<size_t>(count)] = std::move(pack);
  for (size_t i = 0; i < epilogue.inputs.size(); ++i) {
    const epilogue::Input& input = epilogue.inputs[i];
    if (input.role == epilogue::Role::Accumulator) continue;
    const std::string name = names.empty() ? fmt::format("operand{}", i) : names[i];
    tail.operands.push_back({name, std::string(epilogue::name(input.role)), input.dtype});
    tail.signature.operands.push_back(name);
  }
  return tail;
}

Result<Tail> emit_tail(const TailRequest& request) {
  if (request.rows <= 0 || request.columns <= 0 || request.rows > INT64_MAX / request.columns)
    return fail(fmt::format("no output is of {} x {}", request.rows, request.columns), "--shape",
                "give M,N of the output");
  epilogue::TextOptions text;
  text.accumulator = request.dtype;
  text.product = request.dtype;
  text.operand = request.operand.value_or(request.dtype);
  text.results = {request.result};
  text.value = "out";
  ATTACCA_TRY(const epilogue::TextEpilogue parsed, epilogue::parse_text(request.epilogue, text));
  if (const auto reason = epilogue::tail_refusal(parsed.epilogue))
    return fail(*reason, "--epilogue",
                "give one result, made of `out`, as large as what the kernel stores");
  return emit_tail(parsed.epilogue,
                   {.rows = request.rows,
                    .columns = request.columns,
                    .mode = request.mode,
                    .threads = request.threads},
                   parsed.names);
}

Result<ptx::FusedKernel> fuse_kernel(const ptx::Module& module, const ptx::Analysis& analysis,
                                     const Tail& tail, const Toolchain& toolchain) {
  std::string source = tail.source;
  ptx::StoreTail signature = tail.signature;
  for (const size_t elements : ptx::elements_of_stores(analysis))
    if (const auto pack = tail.packs.find(elements); pack != tail.packs.end()) {
      source += '\n' + pack->second;
      signature.packs.insert(elements);
    }
  // Not contracted, so that no multiplication of the kernel and addition of the tail become one
  // fma.
  ATTACCA_TRY(std::string filling,
              toolchain.compile(source, {.arch = target_of(module), .contract = false}));
  ATTACCA_TRY(const ptx::Module epilogue, ptx::parse(std::move(filling), "the epilogue's PTX"));
  return ptx::fuse_stores(module, analysis, epilogue, signature);
}

}  // namespace attacca::gpu
