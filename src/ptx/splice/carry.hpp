// What the body of an epilogue refers to beyond itself: helper functions, tables of constants and
// declarations of functions that live elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/names.hpp"
#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

// The items of the epilogue's module that the function reaches, itself excluded, in the module's
// order. Errors: it reaches itself.
Result<std::vector<const Item*>> reachable_items(const Module& epilogue, const Function& function);

// Gives the renamer the names that these items define; what they merely declare keeps its name.
void add_names(const std::vector<const Item*>& items, Renamer& renamer);

// Their text, renamed and without .loc lines, whose files another module counts. What the kernel
// declares already is left out.
Result<std::string> carried_text(const Module& epilogue, const std::vector<const Item*>& items,
                                 const Renamer& renamer, const Module& kernel);

}  // namespace attacca::ptx
