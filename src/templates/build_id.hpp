// What a linker writes into a shared object to tell one build from another.
#pragma once

#include <string>

namespace attacca::templates {

// The GNU build ID of a library that dlopen() gave, in hexadecimal; empty where it has none.
std::string build_id(void* library);

}  // namespace attacca::templates
