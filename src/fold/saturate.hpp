// Applies the rules to a class until nothing is new.
//
// Classes are saturated bottom up, as the graph's values arrive: a rule looks only downward, so all
// that it may see is saturated before. Bounds: kMaxRounds rounds a class, a bounded number of forms
// a class and of proposals a rule (fold/match.cpp), normal forms of bounded size.
#pragma once

#include "fold/egraph.hpp"

namespace attacca::fold {

void saturate(EGraph& graph, ClassId cls);

}  // namespace attacca::fold
