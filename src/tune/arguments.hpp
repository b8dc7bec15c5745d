// A problem as a template's builder and its hole want to hear it.
#pragma once

#include <string>
#include <variant>

#include "epilogue/hole.hpp"
#include "templates/catalog.hpp"
#include "tune/candidate.hpp"
#include "tune/problem.hpp"

namespace attacca::tune {

// Where every operand of the problem goes in a template, or why the template cannot serve it: the
// device, dtypes, layouts, the hole. Operands that a full or result slot cannot take (strides,
// alignment) go through the context.
std::variant<epilogue::Binding, std::string> place(const Problem& problem,
                                                   const templates::Template& kernel,
                                                   const jit::DeviceInfo& device);

// How many of the epilogue's full operands and outputs a binding leaves to the context: what makes
// a template slow for the problem.
int context_operands(const Problem& problem, const epilogue::Binding& binding);

// The arguments without addresses, and with them filled in.
attacca_gemm_arguments describe(const Problem& problem, const templates::Template& kernel,
                                const epilogue::Binding& binding, const Candidate& candidate,
                                int sm_count);
void set_pointers(const Problem& problem, const epilogue::Binding& binding,
                  const Pointers& pointers, attacca_gemm_arguments& arguments);

// The address of the first element.
void* first_element(void* base, const View& view);

}  // namespace attacca::tune
