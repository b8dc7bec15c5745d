// Expressions computed by <cmath> alone: it shares no code with the rules or the op table. Each
// value has a bound of its rounding error, and its limit where an intermediate overflows.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::fold {

using Inputs = std::map<std::string, double>;

struct Evaluated {
  double value = 0;
  double error = 0;        // by rounding on the way; infinite: the value is arbitrary
  bool by_size = false;    // something overflowed or underflowed on the way, from finite numbers
  bool pole = false;       // something was divided by zero, say
  bool near_pole = false;  // or by what rounding may have made zero
  bool zero_sign = false;  // another sign of a zero on the way gives another value
};

// The relative error that a graph's literal may have.
using LiteralError = std::function<double(double)>;

// Of the first output.
Evaluated evaluated(const ir::Graph& graph, const Inputs& inputs,
                    const LiteralError& literals = {});
// The value in real arithmetic, with an exponent in f64; NaN: unknown. Infinite inputs count as
// `large`.
double limit_of(const ir::Graph& graph, const Inputs& inputs, double large);

// These, both signs of them, zeros, infinities, NaN, and numbers at the ends of f64.
std::vector<double> special_numbers(std::vector<double> moderate);

enum class Verdict {
  Same,     // but for rounding
  Limit,    // the first overflows or underflows, the second is its limit
  Unknown,  // the value is ill-conditioned, depends on a zero's sign, or its limit is unknown
  Nan,      // one of them is NaN
  Differs,
};
struct Compared {
  Verdict verdict;
  std::string values;  // of both
};
Compared compare(const ir::Graph& before, const ir::Graph& after, const Inputs& inputs,
                 const LiteralError& literals = {});

}  // namespace attacca::fold
