// A report as one HTML page, without scripts or other files: a bar for each time of a region, what
// it saved, and links to the reasons why something was refused.
//
// It is made of what `attacca tune --json` prints, or of a report:
//
//   {"format": "attacca.report/1", "title": "torch.compile", "summary": ["text", ...],
//    "regions": [{"name": "2x addmm", "detail": "relu(acc + row(b))", "verdict": "fused",
//                 "saved": "1.2 ms", "times": [{"label": "fused", "seconds": 1e-05}, ...],
//                 "reasons": ["text", ...]}, ...],
//    "tables": [{"title": "by M", "head": ["M", ...], "rows": [["1", ...], ...]}, ...]}
//
// "tables" may be missing.
#pragma once

#include <string>
#include <string_view>

#include "support/error.hpp"

namespace attacca::api {

// `source` names the JSON in errors. Errors: it is neither of the two.
Result<std::string> report_page(std::string_view json, const std::string& source);

}  // namespace attacca::api
