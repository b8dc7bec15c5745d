// Real templates with an epilogue, for several problems a launch, and numbers for them in the PTX
// interpreter's memory.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "epilogue/text.hpp"
#include "gpu/compile/toolchain.hpp"
#include "ptx/splice/several.hpp"
#include "ptx/splice/splice.hpp"
#include "ptx_interpreter/interpreter.hpp"
#include "templates/catalog.hpp"

namespace attacca::gpu {

using ptx_interpreter::Memory;

inline float value_of(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounded towards zero.
inline uint16_t bf16_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// bf16 numbers in the interpreter's memory.
struct Numbers {
  uint64_t address = 0;
  std::vector<uint16_t> values;

  double operator[](size_t i) const { return value_of(values[i]); }
};

inline Numbers random_numbers(Memory& memory, std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  Numbers made;
  for (size_t i = 0; i < count; ++i) made.values.push_back(bf16_of(normal(random)));
  made.address = memory.allocate(count * 2);
  std::memcpy(memory.bytes(made.address).data(), made.values.data(), count * 2);
  return made;
}

// The template with the epilogue, for several problems.
struct SeveralKernel {
  const templates::Template* form = nullptr;
  epilogue::Binding binding;
  std::string ptx;
};

inline Result<SeveralKernel> kernel_of(const std::string& name, size_t problems,
                                       std::string_view tail, bool awaits = false) {
  static const auto catalog = templates::Catalog::open(nullptr);
  if (!catalog) return tl::make_unexpected(catalog.error());
  SeveralKernel made;
  made.form = catalog->find(name);
  if (made.form == nullptr) return fail("no template " + name);
  epilogue::TextOptions options;
  options.results = {ir::DType::BF16};
  ATTACCA_TRY(const auto parsed, epilogue::parse_text(tail, options));
  const epilogue::Epilogue epilogue = epilogue::canonicalize(parsed.epilogue);
  auto binding = epilogue::bind(epilogue, made.form->hole);
  if (const auto* reason = std::get_if<std::string>(&binding)) return fail(*reason);
  made.binding = std::get<epilogue::Binding>(std::move(binding));
  epilogue::CudaOptions cuda;
  cuda.function = "attacca_hole";
  const Toolchain toolchain;
  ATTACCA_TRY(std::string filling,
              toolchain.compile(epilogue::emit_cuda(epilogue, made.form->hole, made.binding, cuda),
                                {.arch = made.form->arch, .contract = true, .minimal = true}));
  ATTACCA_TRY(std::string text,
              templates::instantiate(*made.form, ir::DType::BF16, ir::DType::BF16));
  ATTACCA_TRY(const ptx::Module kernel, ptx::parse(std::move(text)));
  ATTACCA_TRY(const ptx::Module body, ptx::parse(std::move(filling)));
  ATTACCA_TRY(ptx::Spliced spliced, ptx::splice(kernel, body, "attacca_hole"));
  ATTACCA_TRY(const ptx::Module one, ptx::parse(std::move(spliced.ptx)));
  ATTACCA_TRY(made.ptx, ptx::compute_several(one, made.form->kernel, problems, awaits));
  return made;
}

}  // namespace attacca::gpu
