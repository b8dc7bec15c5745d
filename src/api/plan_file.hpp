// A plan as a file. It describes itself: text up to the constants.
//
//   attacca-plan 1\n                          magic and version
//   HEADER_BYTES CONSTANT_BYTES CHECKSUM\n    decimal, decimal, 16 hexadecimal digits of XXH3 over
//                                             all that follows
//   {...}                                     HEADER_BYTES of JSON
//   ...                                       CONSTANT_BYTES: the constants, one after the other
//
// The file of a bundle, a plan with its kernels, has version 2: KERNEL_BYTES after CONSTANT_BYTES,
// the machine code at the end, and the member "bundle" (bundle_file.hpp).
//
// The header's members: "attacca" (the version that wrote it), "graph" (text; large constants are
// inputs at its end), "constants" ([{"input", "name", "dtype", "shape"}] in their order), "device",
// "mode" ("fp32" or "eager", perhaps with "+batch_invariant"), "tuning", "tuning_seconds",
// "threads", "fuse", "choices" ([{"device", "problem", "shape", "candidate", "seconds",
// "unfused_seconds"}]).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/plan.hpp"

namespace attacca::api {

// With: the machine code of every kernel of the plan's instances so far.
enum class Kernels { Without, With };

// Errors of Kernels::With: those of Plan::bundle().
Result<std::string> write_plan(const Plan& plan, Kernels kernels = Kernels::Without);

// `source` names the bytes in errors; `device`: another than the plan's own.
Result<std::shared_ptr<const Plan>> read_plan(std::string_view bytes, const std::string& source,
                                              std::optional<run::DeviceId> device = {});

// Writes the whole file or none.
Status save_plan(const Plan& plan, const std::string& path, Kernels kernels = Kernels::Without);

}  // namespace attacca::api
