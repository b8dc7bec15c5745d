#include "gpu/kernel/user_kernel.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "epilogue/text.hpp"
#include "gpu/compile/machine_use.hpp"
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
  options.cuda.may_call = true;
  options.cuda.function = tail.signature.function;
  options.cuda.names = names;
  options.rows = form.rows;
  options.columns = form.columns;
  tail.source = epilogue::emit_tail_function(epilogue, options);
  for (const int count : {1, 2, 4, 8, 16})
    if (auto pack = epilogue::emit_tail_pack(epilogue, options, count))
      tail.packs[static_cast<size_t>(count)] = *std::move(pack);
  for (size_t i = 0; i < epilogue.inputs.size(); ++i) {
    const epilogue::Input& input = epilogue.inputs[i];
    if (input.role == epilogue::Role::Accumulator) continue;
    const std::string name = names.empty() ? fmt::format("operand{}", i) : names[i];
    tail.operands.push_back({name, std::string(epilogue::name(input.role)), input.dtype});
    if (input.role == epilogue::Role::Full || input.role == epilogue::Role::Row)
      tail.signature.wide_operands.push_back(tail.signature.operands.size());
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

namespace {

// With this share of its threads a multiprocessor hides most latencies.
constexpr uint32_t kEnoughThreads = 1536;
constexpr uint32_t kCheapSpills = 32;  // bytes of a thread

// Of a multiprocessor (CUDA C++ Programming Guide, technical specifications); of those between, the
// least.
uint32_t most_blocks(std::string_view arch) {
  const bool large =
      arch.starts_with("sm_80") || arch.starts_with("sm_90") || arch.starts_with("sm_10");
  return large ? 32 : 16;
}

// Whether as many blocks of the fused kernel run at once as of the kernel alone. With a tail ptxas
// would often take more registers, which hides less latency than the tail's loads add.
class Crowding {
 public:
  Crowding(const ptx::Module& module, const ptx::Analysis& analysis, const ptx::StoreTail& tail,
           const Toolchain& toolchain)
      : toolchain_(toolchain), kernel_(*analysis.bodies[0].function), arch_(target_of(module)) {
    const uint32_t declared = ptx::most_threads(module, kernel_);
    threads_ = declared == 0 ? tail.threads : declared;
    if (threads_ != 0 && !ptx::says_blocks(module, kernel_)) alone_ = use(print(module));
  }

  // Numbers of blocks, the best first.
  std::vector<uint32_t> worth_trying(const ptx::FusedKernel& fused) const {
    std::vector<uint32_t> numbers;
    if (!alone_) return numbers;
    const std::optional<MachineUse> joined = use(fused.ptx);
    if (!joined) return numbers;
    const uint32_t least = blocks(*joined);
    for (uint32_t count = blocks(*alone_); count > least; --count) numbers.push_back(count);
    return numbers;
  }

  bool is_cheap(const ptx::FusedKernel& fused) const {
    const std::optional<MachineUse> joined = use(fused.ptx);
    return joined && joined->local_bytes <= alone_->local_bytes + kCheapSpills;
  }

 private:
  uint32_t blocks(const MachineUse& use) const {
    return std::min({blocks_in_registers(threads_, use.registers), most_blocks(arch_),
                     std::max(kEnoughThreads / threads_, 1U)});
  }

  // nullopt: unknown, as where the driver assembles.
  std::optional<MachineUse> use(const std::string& ptx) const {
    const auto image = toolchain_.assemble(ptx, arch_);
    return image ? machine_use(*image, kernel_.name) : std::nullopt;
  }

  const Toolchain& toolchain_;
  const ptx::Function& kernel_;
  std::string arch_;
  uint32_t threads_ = 0;
  std::optional<MachineUse> alone_;
};

}  // namespace

Result<ptx::FusedKernel> fuse_kernel(const ptx::Module& module, const ptx::Analysis& analysis,
                                     const Tail& tail, const Toolchain& toolchain) {
  std::string source = tail.source;
  ptx::StoreTail signature = tail.signature;
  for (const size_t elements : ptx::elements_of_stores(analysis))
    if (const auto pack = tail.packs.find(elements); pack != tail.packs.end()) {
      source += '\n' + pack->second.source;
      signature.packs[elements] = {pack->second.words, pack->second.is_wide};
    }
  // Not contracted, so that no multiplication of the kernel and addition of the tail become one
  // fma.
  ATTACCA_TRY(std::string filling,
              toolchain.compile(source, {.arch = target_of(module), .contract = false}));
  ATTACCA_TRY(const ptx::Module epilogue, ptx::parse(std::move(filling), "the epilogue's PTX"));
  ATTACCA_TRY(ptx::FusedKernel fused, ptx::fuse_stores(module, analysis, epilogue, signature));
  const Crowding crowding(module, analysis, signature, toolchain);
  const size_t most_words = signature.waiting_words;
  for (const uint32_t blocks : crowding.worth_trying(fused))
    for (const size_t words : {most_words, most_words / 2}) {
      signature.blocks = blocks;
      signature.waiting_words = words;
      ATTACCA_TRY(ptx::FusedKernel tried, ptx::fuse_stores(module, analysis, epilogue, signature));
      if (crowding.is_cheap(tried)) return tried;
    }
  return fused;
}

}  // namespace attacca::gpu
