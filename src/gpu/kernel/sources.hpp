// Part of the key of every cached kernel: two builds of one version may make different kernels.
#pragma once

#include <string_view>

namespace attacca::gpu {

// 16 hexadecimal digits: a hash of the sources that make a kernel's bytes from what its key names
// (CMakeLists.txt has the folders).
std::string_view kernel_sources();

}  // namespace attacca::gpu
