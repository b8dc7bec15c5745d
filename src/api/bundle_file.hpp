// The kernels in a plan's file. A member of its header describes them; their machine code is at the
// file's end.
#pragma once

#include <string>
#include <string_view>

#include "run/cuda/options.hpp"
#include "support/text/json.hpp"

namespace attacca::api {

// {"library", "device", "capability", "assembler", "driver", "builders", "sizes" ([{"M": 16}]),
// "choices", "templates" (their metadata), "kernels" ([{"key", "entry", "bytes"}])}.
json::Value bundle_json(const run::Bundle& bundle);
// The images, one after the other in the order of "kernels".
void append_kernels(const run::Bundle& bundle, std::string& bytes);

// Errors: members that are missing or of another type, bytes that are not those described.
Result<run::Bundle> read_bundle(const json::Value& bundle, std::string_view bytes,
                                const std::string& source);

}  // namespace attacca::api
