// Applies the rules to a class until they add nothing.
//
// Classes are saturated bottom up, as the graph's values arrive: a rule reads only classes below,
// which are saturated already. Bounds: kMaxRounds rounds a class, a bounded number of forms a class
// and of proposals a rule (fold/match.cpp), normal forms of bounded size.
#pragma once

#include "fold/egraph.hpp"

namespace attacca::fold {

void saturate(EGraph& graph, ClassId cls);

}  // namespace attacca::fold
