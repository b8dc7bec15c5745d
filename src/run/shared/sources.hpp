// Part of the key of every kept decision: two builds of one version may decide otherwise.
#pragma once

#include <string_view>

namespace attacca::run {

// 16 hexadecimal digits: a hash of the sources that cut graphs into regions and choose their
// kernels (../CMakeLists.txt has the folders).
std::string_view deciding_sources();

}  // namespace attacca::run
