// Which values of an epilogue may carry an error far below half a unit in the last place of f16.
#pragma once

#include <vector>

#include "epilogue/epilogue.hpp"

namespace attacca::epilogue {

// Of each value of [inputs..., nodes...]: whether fp32 mode may compute it with a fast form. True
// where the unfused graph itself rounds it to a float of at most 16 bits, and where everything that
// reads it only scales, negates, selects or rounds it on the way to such a rounding, so that a
// small relative error stays one.
std::vector<bool> tolerant_values(const Epilogue& epilogue);

}  // namespace attacca::epilogue
