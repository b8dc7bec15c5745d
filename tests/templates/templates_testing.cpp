#include "templates_testing.hpp"

#include <algorithm>
#include <cstdlib>

#include "fmt/format.h"

#include "support/files/file.hpp"

namespace attacca::templates::testing {
namespace {

// `compute`: instructions that leave %r0 to be returned in every word.
std::string body(const Template& kernel, std::string_view compute) {
  const epilogue::HoleSignature& hole = kernel.hole;
  std::string parameters;
  for (std::string_view type : hole_parameters(hole)) {
    const size_t index =
        static_cast<size_t>(std::count(parameters.begin(), parameters.end(), '\n'));
    parameters += fmt::format("{}  .param .{} p{}\n", index == 0 ? "" : ", ", type, index);
  }
  std::string stores;
  for (int at = 0; at < result_bytes(hole); at += 4)
    stores += fmt::format("  st.param.b32 [result+{}], %r0;\n", at);
  return fmt::format(
      ".version 8.0\n.target {}\n.address_size 64\n\n"
      ".visible .func (.param .align 4 .b8 result[{}]) attacca_hole(\n{})\n{{\n"
      "  .reg .b32 %r<3>;\n  .reg .b64 %rd<2>;\n  mov.b32 %r0, 0;\n{}{}  ret;\n}}\n",
      kernel.arch, result_bytes(hole), parameters, compute, stores);
}

}  // namespace

int fake_encode_tiled() {
  return 0;
}

void* fake_encoder() {
  return reinterpret_cast<void*>(&fake_encode_tiled);
}

const Catalog& built() {
  static const Catalog catalog = [] {
    auto opened = Catalog::open(fake_encoder());
    if (!opened) {
      ADD_FAILURE() << to_string(opened.error());
      std::abort();
    }
    return *std::move(opened);
  }();
  return catalog;
}

std::vector<std::string_view> hole_parameters(const epilogue::HoleSignature& hole) {
  size_t words = 2 * static_cast<size_t>(hole.accumulators);
  for (int bits : hole.full_bits) words += static_cast<size_t>(bits / 16);
  words += 2 * static_cast<size_t>(hole.rows) + static_cast<size_t>(hole.columns);
  std::vector<std::string_view> types(words + 3, "b32");  // 3 coordinates
  types.emplace_back("b64");
  return types;
}

int result_bytes(const epilogue::HoleSignature& hole) {
  int bytes = 0;
  for (int bits : hole.result_bits) bytes += 4 * epilogue::result_words(bits);
  return std::max(bytes + 4 * hole.maxima, 4);
}

std::string trivial_body(const Template& kernel) {
  return body(kernel, "");
}

std::string thorough_body(const Template& kernel) {
  std::string compute;
  const auto types = hole_parameters(kernel.hole);
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "b32") {
      compute += fmt::format("  ld.param.b32 %r1, [p{}];\n", i);
    } else {
      compute += fmt::format("  ld.param.b64 %rd1, [p{}];\n  ld.b32 %r1, [%rd1];\n", i);
    }
    // The result depends on every argument and its position.
    compute += fmt::format("  mul.lo.u32 %r2, %r1, {};\n  xor.b32 %r0, %r0, %r2;\n", 2 * i + 3);
  }
  return body(kernel, compute);
}

std::string read(const std::filesystem::path& path) {
  auto text = read_file(path.string());
  if (!text) ADD_FAILURE() << to_string(text.error());
  return text.value_or(std::string());
}

}  // namespace attacca::templates::testing
