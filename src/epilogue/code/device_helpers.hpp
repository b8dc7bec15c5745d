// Helper functions of emitted CUDA C++, each self-contained text.
#pragma once

#include <span>
#include <string_view>

namespace attacca::epilogue {

struct Helper {
  std::string_view name;
  std::string_view text;
};

// In an order in which each precedes those that call it. Overloads share a row.
std::span<const Helper> all_helpers();

}  // namespace attacca::epilogue
