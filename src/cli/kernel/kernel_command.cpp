#include <cstdio>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/kernel/kernel_source.hpp"
#include "gpu/kernel/out_pointer.hpp"
#include "ir/text/dtype_named.hpp"
#include "support/files/draft_file.hpp"
#include "support/text/json.hpp"
#include "support/text/standard_error.hpp"

namespace attacca::cli {
namespace {

// ---- What was found

std::string describe(const ptx::PointerUse& use) {
  std::string text;
  for (const auto& [is_so, word] : {std::pair{use.read, "read"},
                                    {use.written, "written"},
                                    {use.atomics, "atomics"},
                                    {use.escapes, "escapes"}})
    if (is_so) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  return text.empty() ? "unused" : text;
}

void print_reasons(std::FILE* to, const ptx::Analysis& analysis) {
  for (const ptx::Reason& reason : analysis.reasons)
    fmt::print(to, "  {}: {} [{}]\n", reason.where, reason.what, reason.rule);
}

void print_analysis(const LoadedKernel& kernel, const ptx::Analysis& analysis) {
  fmt::print("kernel {}: {}\n", kernel.entry, analysis.eligible() ? "eligible" : "refused");
  print_reasons(stdout, analysis);
  if (analysis.eligible()) fmt::print("  stores to the output: {}\n", analysis.stores.size());
  fmt::print("  pointers:\n");
  for (const ptx::PointerUse& use : analysis.uses)
    fmt::print("    {} {}: {}{}\n", use.parameter, use.name, describe(use),
               use.is_output ? " (the output)" : "");
}

json::Value as_json(const ptx::PointerUse& use) {
  json::Value value = json::Value::object();
  value.set("parameter", use.parameter).set("offset", use.offset).set("name", use.name);
  value.set("output", use.is_output).set("read", use.read).set("written", use.written);
  return value.set("atomics", use.atomics).set("escapes", use.escapes);
}

json::Value as_json(const LoadedKernel& kernel, const ptx::Analysis& analysis) {
  json::Value value = json::Value::object(), uses = json::Value::array(),
              reasons = json::Value::array();
  for (const ptx::PointerUse& use : analysis.uses) uses.push(as_json(use));
  for (const ptx::Reason& reason : analysis.reasons) {
    json::Value each = json::Value::object();
    reasons.push(each.set("rule", reason.rule).set("what", reason.what).set("where", reason.where));
  }
  value.set("kernel", kernel.entry);
  value.set("decision", analysis.eligible() ? "eligible" : "refused");
  value.set("parameter", analysis.parameter).set("offset", analysis.offset);
  value.set("stores", analysis.stores.size());
  return value.set("pointers", std::move(uses)).set("reasons", std::move(reasons));
}

Result<int> try_inspect(const KernelArgs& args) {
  uint32_t bytes = 1;  // for an unknown dtype: every store then counts as whole elements
  if (!args.dtype.empty()) {
    ATTACCA_TRY(const ir::DType dtype, ir::dtype_named(args.dtype, "--dtype"));
    bytes = static_cast<uint32_t>(ir::info(dtype).bits) / 8;
  }
  ATTACCA_TRY(const LoadedKernel kernel, load_kernel(args));
  ATTACCA_TRY(const ptx::Analysis analysis,
              ptx::analyse_output(kernel.module, kernel.entry, kernel.output, bytes));
  if (args.json)
    print_json(as_json(kernel, analysis));
  else
    print_analysis(kernel, analysis);
  return analysis.eligible() ? kOk : kCheckFailed;
}

// ---- Fusing

// "M,N"
Result<std::pair<int64_t, int64_t>> parse_shape(const std::string& text) {
  int64_t rows = 0, columns = 0;
  int read = 0;
  if (std::sscanf(text.c_str(), "%ld,%ld%n", &rows, &columns, &read) == 2 &&
      static_cast<size_t>(read) == text.size() && rows > 0 && columns > 0)
    return std::pair(rows, columns);
  return fail(fmt::format("{} is no shape", text), "--shape", "write M,N, such as 1024,4096");
}

Result<gpu::TailRequest> tail_request(const KernelArgs& args) {
  gpu::TailRequest request;
  request.epilogue = args.epilogue;
  ATTACCA_TRY(request.dtype, ir::dtype_named(args.dtype, "--dtype"));
  request.result = request.dtype;
  if (!args.result.empty()) {
    ATTACCA_TRY(request.result, ir::dtype_named(args.result, "--result"));
  }
  if (!args.operand.empty()) {
    ATTACCA_TRY(request.operand, ir::dtype_named(args.operand, "--operand"));
  }
  ATTACCA_TRY(const auto shape, parse_shape(args.shape));
  request.rows = shape.first;
  request.columns = shape.second;
  request.mode = *ir::parse_mode(args.mode);
  request.threads = args.threads;
  return request;
}

int64_t elements_of(const std::string& role, const gpu::TailRequest& request) {
  if (role == "scalar") return 1;
  return (role == "row" ? 1 : request.rows) * (role == "col" ? 1 : request.columns);
}

json::Value describe_operand(const gpu::Tail::Operand& operand, const gpu::TailRequest& request) {
  json::Value value = json::Value::object();
  value.set("operand", operand.name).set("role", operand.role);
  return value.set("dtype", ir::name(operand.dtype))
      .set("elements", elements_of(operand.role, request));
}

// The description that both ways of fusing write.
json::Value describe_request(const LoadedKernel& kernel, const gpu::TailRequest& request,
                             json::Value output) {
  json::Value value = json::Value::object(), shape = json::Value::array();
  output.set("stored", ir::name(request.dtype)).set("dtype", ir::name(request.result));
  value.set("kernel", kernel.entry).set("epilogue", request.epilogue);
  value.set("mode", ir::name(request.mode)).set("output", std::move(output));
  return value.set("shape", shape.push(request.rows).push(request.columns));
}

json::Value describe_fused(const LoadedKernel& kernel, const ptx::Analysis& analysis,
                           const gpu::TailRequest& request, const gpu::Tail& tail,
                           const ptx::FusedKernel& fused) {
  json::Value appended = json::Value::array(), output = json::Value::object();
  for (size_t i = 0; i < fused.appended.size(); ++i) {
    json::Value each = describe_operand(tail.operands[i], request);
    each.set("index", fused.appended[i].index).set("parameter", fused.appended[i].parameter);
    appended.push(std::move(each));
  }
  output.set("parameter", analysis.parameter).set("offset", analysis.offset);
  json::Value value = describe_request(kernel, request, std::move(output));
  return value.set("stores", fused.stores).set("appended", std::move(appended));
}

// For a kernel that writes through attacca::Out: the pointers in it, by their index.
json::Value describe_filled(const LoadedKernel& kernel, const gpu::TailRequest& request,
                            const gpu::Tail& tail, const ptx::Spliced& filled) {
  json::Value carried = json::Value::array();
  for (size_t i = 0; i < tail.operands.size(); ++i)
    carried.push(describe_operand(tail.operands[i], request).set("index", i));
  json::Value value = describe_request(kernel, request, json::Value::object());
  return value.set("calls", filled.calls).set("carried", std::move(carried));
}

// The bytes of a .cubin, or the PTX itself.
Result<std::string> image_of(const KernelArgs& args, const LoadedKernel& kernel,
                             const std::string& ptx) {
  if (!args.out.ends_with(".cubin")) return ptx;
  ATTACCA_TRY(const gpu::AssemblerDescription assembler, gpu::describe_assembler());
  if (assembler.kind == gpu::Assembler::Driver)
    return fail("there is no assembler here", args.out,
                "install nvJitLink or ptxas (attacca doctor), or write a .ptx");
  ATTACCA_TRY(const std::vector<char> image,
              gpu::assemble(ptx, gpu::target_of(kernel.module), assembler));
  return std::string(image.begin(), image.end());
}

int refused(const KernelArgs& args, const LoadedKernel& kernel, const ptx::Analysis& analysis) {
  if (args.json) print_json(as_json(kernel, analysis));
  print_to_stderr(fmt::format("refused: nothing may join {}\n", kernel.entry));
  print_reasons(stderr, analysis);
  return kCheckFailed;
}

Status write_outputs(const KernelArgs& args, const LoadedKernel& kernel, const std::string& ptx,
                     const json::Value& described, const std::string& summary) {
  ATTACCA_TRY(const std::string image, image_of(args, kernel, ptx));
  ATTACCA_TRY_VOID(write_file(args.out, image));
  const std::string description = json::dump(described) + "\n";
  ATTACCA_TRY_VOID(write_file(args.out + ".json", description));
  if (args.json)
    fmt::print("{}", description);
  else
    fmt::print("{}: {}, see {}.json\n", args.out, summary, args.out);
  return {};
}

Result<int> fuse_open_output(const KernelArgs& args, const LoadedKernel& kernel,
                             const gpu::TailRequest& request, const gpu::Tail& tail,
                             uint32_t bytes) {
  ATTACCA_TRY(const ptx::Spliced filled, gpu::fill_output(kernel.module, bytes, tail));
  ATTACCA_TRY_VOID(write_outputs(
      args, kernel, filled.ptx, describe_filled(kernel, request, tail, filled),
      fmt::format("{} assignments to an attacca::Out go through {}; it carries {} operands",
                  filled.calls, args.epilogue, tail.operands.size())));
  return kOk;
}

Result<int> fuse_analysed(const KernelArgs& args, const LoadedKernel& kernel,
                          const gpu::TailRequest& request, const gpu::Tail& tail, uint32_t bytes) {
  ATTACCA_TRY(const ptx::Analysis analysis,
              ptx::analyse_output(kernel.module, kernel.entry, kernel.output, bytes));
  if (!analysis.eligible()) return refused(args, kernel, analysis);
  ATTACCA_TRY(const ptx::FusedKernel fused, gpu::fuse_kernel(kernel.module, analysis, tail));
  ATTACCA_TRY_VOID(
      write_outputs(args, kernel, fused.ptx, describe_fused(kernel, analysis, request, tail, fused),
                    fmt::format("{} stores of {} go through {}; {} parameters appended",
                                fused.stores, kernel.entry, args.epilogue, fused.appended.size())));
  return kOk;
}

Result<int> try_fuse(const KernelArgs& args) {
  ATTACCA_TRY(const gpu::TailRequest request, tail_request(args));
  if (!args.out.ends_with(".ptx") && !args.out.ends_with(".cubin"))
    return fail(fmt::format("{} is neither PTX nor a cubin", args.out), "-o",
                "give a name that ends in .ptx or .cubin");
  if (ir::info(request.dtype).bits != ir::info(request.result).bits) {
    print_to_stderr(fmt::format("refused: the kernel stores {}, and {} needs another size\n",
                                ir::name(request.dtype), ir::name(request.result)));
    return kCheckFailed;
  }
  ATTACCA_TRY(const gpu::Tail tail, gpu::emit_tail(request));
  ATTACCA_TRY(const LoadedKernel kernel, load_kernel(args));
  const uint32_t bytes = static_cast<uint32_t>(ir::info(request.dtype).bits) / 8;
  const bool is_open = !gpu::open_output(kernel.module, bytes).empty();
  return (is_open ? fuse_open_output : fuse_analysed)(args, kernel, request, tail, bytes);
}

}  // namespace

int kernel_inspect(const KernelArgs& args) {
  return exit_code(try_inspect(args));
}

int kernel_fuse(const KernelArgs& args) {
  return exit_code(try_fuse(args));
}

}  // namespace attacca::cli
