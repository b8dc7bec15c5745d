// A problem as the arguments of a template's builder.
#pragma once

#include <memory>
#include <span>

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "launch/candidate.hpp"
#include "problem/problem.hpp"
#include "templates/template.hpp"

namespace attacca::launch {

// describe() gives the arguments without addresses, set_addresses() fills those in. `factors`: the
// problem's.
attacca_gemm_arguments describe(const problem::Problem& problem, const templates::Template& kernel,
                                const epilogue::Binding& binding, const Candidate& candidate,
                                int sm_count);
void set_addresses(const problem::Problem& problem, std::span<const problem::Factor> factors,
                   const epilogue::Binding& binding, const problem::Addresses& at,
                   attacca_gemm_arguments& arguments);

// Memory for a kernel's parameters, which no launch reads any more when it ends.
struct FreeParameters {
  void operator()(void* memory) const;
};
using ParameterMemory = std::unique_ptr<void, FreeParameters>;
ParameterMemory allocate_parameters(size_t bytes, size_t alignment);

// The parameters and the grid of a launch. Errors: addresses that the template does not take.
Status build_parameters(const templates::Template& kernel, const attacca_gemm_arguments& arguments,
                        void* parameters, uint32_t (&grid)[3]);
// The launch with these parameters on this grid.
gpu::Launch launch_of(const templates::Template& kernel, const uint32_t (&grid)[3]);

// The address of the first element.
void* first_element(void* base, const problem::View& view);

}  // namespace attacca::launch
