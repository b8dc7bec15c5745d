#include "fmt/format.h"

#include "cli/commands.hpp"
#include "epilogue/hole.hpp"
#include "epilogue/text.hpp"
#include "ir/text/dtype_named.hpp"
#include "support/files/file.hpp"

namespace attacca::cli {
namespace {

Result<epilogue::TextOptions> text_options(const EmitArgs& args) {
  epilogue::TextOptions options;
  ATTACCA_TRY(options.accumulator, ir::dtype_named(args.accumulator, "--acc"));
  if (options.accumulator != ir::DType::F32 && options.accumulator != ir::DType::S32)
    return fail(fmt::format("no kernel accumulates in {}", args.accumulator), "--acc",
                "f32 or s32");
  if (!args.product.empty()) {
    ATTACCA_TRY(options.product, ir::dtype_named(args.product, "--product"));
  }
  if (!args.operand.empty()) {
    ATTACCA_TRY(options.operand, ir::dtype_named(args.operand, "--operand"));
  }
  options.results.clear();
  for (const std::string& text : args.results) {
    ATTACCA_TRY(const ir::DType dtype, ir::dtype_named(text, "--out"));
    options.results.push_back(dtype);
  }
  return options;
}

Result<int> try_emit(const EmitArgs& args) {
  ATTACCA_TRY(epilogue::TextOptions options, text_options(args));
  epilogue::CudaOptions cuda;
  for (const std::string& path : args.includes) {
    ATTACCA_TRY(std::string text, read_file(path));
    for (ir::ForeignFunction& function : epilogue::device_functions(text))
      options.functions.push_back(std::move(function));
    cuda.includes.push_back(std::move(text));
  }
  ATTACCA_TRY(const epilogue::TextEpilogue parsed, epilogue::parse_text(args.epilogue, options));
  if (args.results.size() > parsed.epilogue.outputs.size())
    return fail(fmt::format("{} dtypes for {} results", args.results.size(),
                            parsed.epilogue.outputs.size()),
                "--out", "give one for each result");
  epilogue::HoleSignature signature = epilogue::roomy_signature(parsed.epilogue, args.swapped);
  if (!args.fulls.empty()) signature.full_bits = args.fulls;
  const auto bound = epilogue::bind(parsed.epilogue, signature);
  if (const auto* reason = std::get_if<std::string>(&bound)) return fail(*reason, "--epilogue");
  cuda.mode = *ir::parse_mode(args.mode);
  cuda.names = parsed.names;
  fmt::print("{}", epilogue::emit_cuda(parsed.epilogue, signature,
                                       std::get<epilogue::Binding>(bound), cuda));
  return kOk;
}

}  // namespace

int emit(const EmitArgs& args) {
  return exit_code(try_emit(args));
}

}  // namespace attacca::cli
