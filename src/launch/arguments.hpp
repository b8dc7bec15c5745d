// A problem as a template's builder and its hole want to hear it.
#pragma once

#include <string>
#include <variant>

#include "epilogue/hole.hpp"
#include "gpu/driver/device.hpp"
#include "launch/candidate.hpp"
#include "problem/problem.hpp"
#include "templates/catalog.hpp"

namespace attacca::launch {

// Where every operand of the problem goes in a template, or why the template cannot serve it: the
// device, dtypes, layouts, the hole. Operands that a full or result slot cannot take (strides,
// alignment) go through the context.
std::variant<epilogue::Binding, std::string> place(const problem::Problem& problem,
                                                   const templates::Template& kernel,
                                                   const gpu::DeviceInfo& device);

// How many of the epilogue's full operands and outputs a binding leaves to the context: what makes
// a template slow for the problem.
int context_operands(const problem::Problem& problem, const epilogue::Binding& binding);

// The arguments without addresses, and with them filled in.
attacca_gemm_arguments describe(const problem::Problem& problem, const templates::Template& kernel,
                                const epilogue::Binding& binding, const Candidate& candidate,
                                int sm_count);
void set_addresses(const problem::Problem& problem, const epilogue::Binding& binding,
                   const problem::Addresses& at, attacca_gemm_arguments& arguments);

// The address of the first element.
void* first_element(void* base, const problem::View& view);

}  // namespace attacca::launch
