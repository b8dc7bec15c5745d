#include "kernels/every_number.hpp"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::kernels {

std::string narrow_op_name(std::string_view op, ir::DType dtype) {
  return fmt::format("{}_{}", op.substr(0, op.find('(')), name(dtype));
}

Result<NumberPart> number_part(ir::DType dtype, std::string_view epilogue, uint32_t part) {
  const bool adds = dtype == ir::DType::BF16;
  const std::string_view entry = adds ? "add" : "write_through";
  const auto found = std::ranges::find(all_kernels(), entry, &Kernel::entry);
  ATTACCA_CHECK(found != all_kernels().end(), "kernels.def lost a kernel");
  NumberPart made;
  made.kernel = *found;
  made.kernel.parameters = adds ? "bf16[8192] bf16[8192] out s32:8192" : "f16[8192] out s32:8192";
  made.kernel.grid = {0x10000 / kNumberParts / made.kernel.block.x};
  made.kernel.rows = 0x10000 / kNumberParts / 32;
  made.kernel.columns = 32;
  made.kernel.epilogue = epilogue;
  ATTACCA_TRY(made.arguments, make_arguments(made.kernel, 1, false));
  for (uint32_t i = 0; i < 0x10000 / kNumberParts; ++i) {
    const auto bits = static_cast<uint16_t>(i * kNumberParts + part);
    constexpr uint16_t kMinusZero = 0x8000;  // changes no number that it is added to
    std::memcpy(made.arguments.buffers[0].data() + 2 * i, &bits, 2);
    if (adds) std::memcpy(made.arguments.buffers[1].data() + 2 * i, &kMinusZero, 2);
  }
  return made;
}

}  // namespace attacca::kernels
