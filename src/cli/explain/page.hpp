// `attacca explain --svg` and `--html`.
#pragma once

#include <string>

#include "fuse/fuse.hpp"

namespace attacca::cli {

// What Graphviz's dot draws of the text: an SVG document for each graph in it.
// Errors: dot is missing, or fails.
Result<std::string> drawn(const std::string& dot, const std::string& option);

// A page that needs nothing else: the overview of the regions, and each region's description and
// picture behind a line that opens it. Parts that repeat stand once.
Result<std::string> explanation_page(const fuse::Partition& partition);

}  // namespace attacca::cli
