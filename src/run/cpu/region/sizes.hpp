// What a region of an epilogue measures once for the same values of the symbols.
#pragma once

#include <vector>

#include "run/cpu/executable.hpp"
#include "run/cpu/products.hpp"

namespace attacca::run {

// One entry for each input, output or product of the region.
struct RegionSizes : Sizes {
  std::vector<int64_t> domain;
  std::vector<std::vector<int64_t>> results;    // shapes
  std::vector<ConcreteAccess> inputs, outputs;  // an accumulator's is empty
  std::vector<int64_t> group_strides;           // of inputs
  std::vector<ProductSizes> products;
  std::vector<RowSizes> input_rows, output_rows;  // empty where no index names the rows
  std::vector<ConcreteAccess> bases;              // of outputs to which rows are added
};

}  // namespace attacca::run
