#include "kernels/fused.hpp"

#include <regex>

#include "fmt/format.h"

#include "ir/text/text.hpp"
#include "kernels/interpreted.hpp"

namespace attacca::kernels {

using ir::Tensor;

namespace {

std::vector<int64_t> shape_of(const Kernel& kernel, const std::string& role) {
  if (role == "row") return {kernel.columns};
  if (role == "col") return {kernel.rows, 1};
  if (role == "full") return {kernel.rows, kernel.columns};
  return {};
}

ir::NamedType named(std::string name, const Tensor& tensor) {
  return {std::move(name), {tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}}};
}

}  // namespace

Result<Fused> fuse(const Kernel& kernel, ir::Mode mode) {
  Fused fused;
  ATTACCA_TRY(const ptx::Module module, ptx::parse(text_of(kernel), to_string(kernel)));
  ATTACCA_TRY(const ptx::OutputSpec output, ptx::parse_output(kernel.output));
  ATTACCA_TRY(const ptx::Analysis analysis,
              ptx::analyse_output(module, kernel.entry, output,
                                  static_cast<uint32_t>(ir::size_of(kernel.dtype))));
  if (!analysis.eligible())
    return fail("refused: " + analysis.reasons[0].what, analysis.reasons[0].where);
  gpu::TailRequest request;
  request.epilogue = kernel.epilogue;
  request.dtype = request.result = kernel.dtype;
  request.rows = kernel.rows;
  request.columns = kernel.columns;
  request.mode = mode;
  ATTACCA_TRY(fused.tail, gpu::emit_tail(request));
  ATTACCA_TRY(ptx::FusedKernel spliced, gpu::fuse_kernel(module, analysis, fused.tail));
  fused.ptx = std::move(spliced.ptx);
  fused.stores = spliced.stores;
  return fused;
}

std::vector<Tensor> operand_tensors(const Kernel& kernel, const gpu::Tail& tail, uint64_t seed,
                                    bool special) {
  std::vector<Tensor> tensors;
  for (const gpu::Tail::Operand& operand : tail.operands)
    tensors.push_back(
        random_tensor(operand.dtype, shape_of(kernel, operand.role), ++seed, special));
  return tensors;
}

Result<Tensor> apply_epilogue(const Kernel& kernel, const gpu::Tail& tail, const Tensor& output,
                              const std::vector<Tensor>& operands, ir::Precision precision) {
  static const std::regex role(R"((row|col|full|scalar)\((\w+)(: *\w+)?\))");
  const std::string text =
      fmt::format("cast({}, {})", std::regex_replace(std::string(kernel.epilogue), role, "$2"),
                  ir::name(kernel.dtype));
  std::vector<ir::NamedType> types = {named("out", output)};
  ir::InterpreterOptions options;
  options.precision = precision;
  ir::Bindings inputs = {{"out", output}};
  for (size_t i = 0; i < operands.size(); ++i) {
    types.push_back(named(tail.operands[i].name, operands[i]));
    inputs[tail.operands[i].name] = operands[i];
  }
  ATTACCA_TRY(const ir::Graph graph, ir::parse_results(text, types, to_string(kernel)));
  ATTACCA_TRY(std::vector<Tensor> results, ir::interpret(graph, inputs, options));
  return std::move(results[0]);
}

std::string compare_with_epilogue(const Kernel& kernel, const gpu::Tail& tail,
                                  const Result<std::vector<Tensor>>& alone,
                                  const Result<std::vector<Tensor>>& joined, size_t output,
                                  const std::vector<Tensor>& operands) {
  if (!alone) return to_string(alone.error());
  if (!joined) return to_string(joined.error());
  for (size_t i = 0; i < alone->size(); ++i) {
    Tensor want = (*alone)[i];
    if (i == output) {
      auto applied = apply_epilogue(kernel, tail, want, operands);
      if (!applied) return to_string(applied.error());
      want = *std::move(applied);
    }
    const std::string difference = compare_elements((*joined)[i], want);
    if (!difference.empty()) return fmt::format("buffer {}: {}", i, difference);
  }
  return {};
}

}  // namespace attacca::kernels
