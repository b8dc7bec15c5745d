// The items of its module that an epilogue's body refers to: helper functions, tables of constants
// and declarations of external functions.
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

// Adds the names that these items define to the renamer. What they only declare keeps its name.
void add_names(const std::vector<const Item*>& items, Renamer& renamer);

// Their text, renamed and without .loc lines, whose files have other numbers in the kernel's
// module. What the kernel also declares is left out.
Result<std::string> carried_text(const Module& epilogue, const std::vector<const Item*>& items,
                                 const Renamer& renamer, const Module& kernel);

}  // namespace attacca::ptx
