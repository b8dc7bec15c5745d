// Prints one C++ source with every case's emitted code, for a host compiler.
#include <cstdio>

#include "fmt/format.h"

#include "epilogue/emit_cases.hpp"

namespace attacca::epilogue::testing {
namespace {

// How many words a case's hole takes before the coordinates.
int words_of(const HoleSignature& signature) {
  int count = 2 * signature.accumulators + 2 * signature.rows + signature.columns;
  for (const int bits : signature.full_bits) count += bits / 16;
  return count;
}

void print_case(size_t index, const EmitCase& each) {
  CudaOptions options;
  options.mode = each.mode;
  options.may_call = each.may_call;
  options.names = each.parsed.names;
  options.function = fmt::format("attacca_hole_{}", index);
  fmt::print("namespace case_{} {{\n// {}\n{}", index, each.text,
             emit_cuda(each.parsed.epilogue, each.signature, each.binding, options));
  fmt::print(
      "static void call(const uint32_t* w, int row, int column, int batch, const void* context, "
      "uint32_t* out) {{\n");
  std::string arguments;
  for (int i = 0; i < words_of(each.signature); ++i) arguments += fmt::format("w[{}], ", i);
  fmt::print(
      "  const attacca_results r = {}({}row, column, batch, (const "
      "attacca_hole_context*)context);\n",
      options.function, arguments);
  int words = each.signature.maxima;
  for (const int bits : each.signature.result_bits) words += result_words(bits);
  for (int i = 0; i < words; ++i) fmt::print("  out[{0}] = r.word[{0}];\n", i);
  fmt::print("}}\n}}\n");
}

}  // namespace
}  // namespace attacca::epilogue::testing

int main() {
  using namespace attacca::epilogue::testing;
  fmt::print("#include \"epilogue/host_shim.hpp\"\n#include \"epilogue/emit_calls.hpp\"\n");
  const auto& cases = emit_cases();
  for (size_t i = 0; i < cases.size(); ++i) print_case(i, cases[i]);
  fmt::print("EmitCall const kEmitCalls[] = {{\n");
  for (size_t i = 0; i < cases.size(); ++i) fmt::print("  case_{}::call,\n", i);
  fmt::print("}};\n");
  fmt::print(
      "void set_approximations(double exp2_error, double rcp_error) {{\n"
      "  attacca_shim_exp2_error = exp2_error;\n"
      "  attacca_shim_rcp_error = rcp_error;\n"
      "}}\n");
}
