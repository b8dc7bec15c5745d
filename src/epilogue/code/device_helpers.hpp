// Helper functions of emitted CUDA C++, each self-contained text.
#pragma once

#include <span>
#include <string_view>

namespace attacca::epilogue {

struct Helper {
  std::string_view name;
  std::string_view text;
};

// In an order in which each precedes those that call it, groups included. Overloads share a row.
std::span<const Helper> conversion_helpers();
std::span<const Helper> approximation_helpers();
std::span<const Helper> operation_helpers();

}  // namespace attacca::epilogue
