// NAME.json of a template directory, as kernels/host/describe.cpp writes it.
#pragma once

#include <string>
#include <string_view>

#include "support/error.hpp"
#include "templates/template.hpp"

namespace attacca::templates {

// All of a Template but `path` and `builder`. `where`: the file, for errors.
Result<Template> parse_metadata(std::string_view text, const std::string& where);

}  // namespace attacca::templates
