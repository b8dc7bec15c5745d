// A problem as the arguments of a template's builder.
#pragma once

#include <span>

#include "epilogue/hole.hpp"
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

// The address of the first element.
void* first_element(void* base, const problem::View& view);

}  // namespace attacca::launch
