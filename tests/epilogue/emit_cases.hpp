// The epilogues that are emitted, compiled for the host and compared with the interpreter: the
// generator prints their code at build time, the test runs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/hole.hpp"
#include "epilogue/text.hpp"

namespace attacca::epilogue::testing {

// How far results of fp32 code may be from the reference.
enum class Check : uint8_t {
  Bits,    // none: the same bits, NaN being NaN
  Op,      // one op: from the f64 value, units in the last place of the result's dtype
  Bounds,  // a DAG: the derived bound of tests/differential
};

struct EmitCase {
  std::string text;
  TextEpilogue parsed;
  ir::Mode mode = ir::Mode::Fp32;
  Check check = Check::Bits;
  HoleSignature signature;
  Binding binding;
  bool may_call = false;      // CudaOptions::may_call
  bool every_number = false;  // the first operand is each float of 16 bits
};

// Inputs whose rows an index names have a name that begins so, and an s32 index if it ends in 32.
inline constexpr std::string_view kNamed = "named";
inline constexpr int64_t kNamedRows = 5;

inline constexpr uint64_t kEmitSeed = ATTACCA_EMIT_SEED;

// The same list in the generator and in the test.
const std::vector<EmitCase>& emit_cases();

}  // namespace attacca::epilogue::testing
