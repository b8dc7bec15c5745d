// The expected time of grouped products, and of what is done before them.
#pragma once

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "problem/problem.hpp"
#include "templates/template.hpp"

namespace attacca::tune {

// Seconds. REQUIRES: a template of grouped products, and as features() of cost_model.hpp.
double grouped_seconds(const problem::Problem& problem, const templates::Template& kernel,
                       const epilogue::Binding& binding, const gpu::DeviceInfo& device);

// How many of so many groups random routing gives some of the rows.
double groups_with_rows(int64_t groups, int64_t rows);

// Of the kernel that gathers rows of A that an index names, where the template does not.
double gather_seconds(const problem::Problem& problem, const gpu::DeviceInfo& device);
// Of the kernels that widen weights in codes, where the template does not.
double widen_seconds(const problem::Problem& problem, const gpu::DeviceInfo& device);

}  // namespace attacca::tune
