// In which order a template sums what a row and a column multiply to.
#pragma once

#include <string>

#include "templates/template.hpp"

namespace attacca::templates {

// Templates of the same order give the same bits for the same product, whatever their tiles are:
// the device test SumOrders compares them all. "steps of 16": tensor cores add 16 products at a
// time to the sum so far, from the first value of k to the last. A template that divides K, or
// whose steps were compared with no other's, has an order of its own: its name.
std::string sum_order(const Template& kernel);

}  // namespace attacca::templates
