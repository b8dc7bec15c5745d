// The hole of a kernel template, seen from the epilogue: which values the kernel hands over in
// registers, which it takes back, and how an epilogue's inputs and outputs are placed in them.
//
// A kernel calls its hole for two elements of its tile that neighbour along the kernel's own N,
// with raw bits, so that one kernel serves every dtype of a width:
//
//   struct attacca_results { uint32_t word[W]; };
//   extern "C" __device__ attacca_results attacca_hole(
//       uint32_t acc0_0, uint32_t acc0_1,    // accumulator set 0: f32 or s32 bits of elements 0, 1
//       uint32_t acc1_0, uint32_t acc1_1,    // set 1, of templates with two (gates)
//       uint32_t full0,                      // full slot of 16 bits: element 0 in the low half
//       uint32_t full1_0, uint32_t full1_1,  // full slot of 32 bits
//       uint32_t row0_0, uint32_t row0_1,    // row slot: raw bits, zero-extended, elements 0, 1
//       uint32_t col0,                       // column slot: the same value for both elements
//       int32_t row, int32_t column, int32_t batch,  // element 0, in the problem's coordinates
//       const attacca_hole_context* context);
//
// in this order: accumulators, fulls, rows, columns, coordinates, context; a signature has only the
// slots that it counts. Results: one word for an output of 8 bits (element 0 in the lowest byte,
// element 1 in the next) or 16 bits (element 0 in the low half), two words for one of 32 bits.
// Element 1 is at (row, column + 1); in a swapped template, which computes the transpose (weights
// as its M side), at (row + 1, column). Row and column slots are the kernel's: in a swapped
// template a Row input of the epilogue goes through a column slot and a Column input through a row
// slot.
//
// A signature with a maximum has one more word: the f32 bits, without the sign, of the larger of
// those of the two elements that are inside the result. The kernel keeps the largest such word, for
// an output that is the amax of all elements; it ignores calls whose element 0 is outside.
//
// What has no slot goes through the context (templates/abi.h): the body loads or stores it itself,
// at any stride and any alignment of its dtype, and must not touch elements outside context->rows
// and context->columns. A kernel may call its hole for elements outside; that of a grouped product
// gives a row outside in place of one that another tile computes. An input whose rows an index
// names goes through the context too, and so does the index: the body reads the index at its row,
// then the element of the row that it names.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "epilogue/hole_abi.h"
#include "ir/graph/mode.hpp"

namespace attacca::epilogue {

// The operands of attacca_hole_context; also the most that an epilogue can place there.
inline constexpr int kContextOperands = ATTACCA_CONTEXT_OPERANDS;

struct HoleSignature {
  int accumulators = 1;                         // sets; 0 for the pointwise template
  ir::DType accumulator_type = ir::DType::F32;  // f32 or s32
  std::vector<int> full_bits;                   // 16 or 32, one a slot
  int rows = 0;                                 // slots
  int columns = 0;
  std::vector<int> result_bits;  // 8, 16 or 32, one an output
  bool swapped = false;
  int maxima = 0;  // 1: the kernel keeps the largest of a word that follows the results
  friend bool operator==(const HoleSignature&, const HoleSignature&) = default;
};

// Words of a result that one call of the hole returns, for two elements.
constexpr int result_words(int bits) {
  return ATTACCA_HOLE_WORDS(bits);
}

// Whether a kernel that keeps a maximum gives this output: an amax in f32 of every element.
bool is_amax_of_all(const Output& output);

// A signature with a slot for each operand and result of the epilogue that can have one.
HoleSignature roomy_signature(const Epilogue& epilogue, bool swapped = false);

// Where an input comes from or an output goes to.
enum class Place : uint8_t { Accumulator, Full, Row, Column, Context, Result, Maximum };
struct Placement {
  Place place = Place::Context;
  int slot = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Binding {
  std::vector<Placement> inputs;   // one an input of the epilogue
  std::vector<Placement> outputs;  // one an output
  // Where the index is of each input whose rows an index names, in the order of these inputs.
  std::vector<Placement> indices = {};
};

// The inputs and outputs that must go through the context, because the template's TMA does not take
// their strides or alignment in a Full or Result slot.
struct PlacementLimits {
  std::vector<bool> context_inputs;  // empty: none
  std::vector<bool> context_outputs;
};

// Places every input and output in order, in a slot if one is free, else in the context; equal
// operands share no place. Inputs whose rows an index names, and their indices, are in the context.
// Gives the reason if the template cannot take the epilogue: the number or type of accumulators, no
// output of a result's width, a reduction other than one amax of all, too many context operands.
std::variant<Binding, std::string> bind(const Epilogue& epilogue, const HoleSignature& signature,
                                        const PlacementLimits& limits = {});

// Canonical text of a binding: part of every key.
std::string serialize(const Binding& binding);

struct CudaOptions {
  ir::Mode mode = ir::Mode::Fp32;
  std::string function = "attacca_hole";
  std::vector<std::string> names;     // of the inputs, for people; empty: acc, row0, full0, ...
  std::vector<std::string> includes;  // the text of files of the user's own __device__ functions
  // The code may call functions that are not inlined, for what is rarely needed.
  bool may_call = false;
};

// The hole's body as readable CUDA C++, self-contained (no headers): what NVRTC compiles and, with
// the host shim of tests/epilogue, a host compiler too. The two accumulator inputs of a gate region
// read sets 0 and 1.
// REQUIRES: a binding that `bind` gave for this epilogue and signature.
std::string emit_cuda(const Epilogue& epilogue, const HoleSignature& signature,
                      const Binding& binding, const CudaOptions& options = {});

// The epilogue with every accumulator read from memory instead, as a full operand of the dtype that
// the unfused product stores: the second kernel of the unfused path. Input i of the result is input
// i of the argument; the Full inputs that were accumulators have `source` = the matmul node and
// dense access (column_step and column_offset applied) over `gemms`' own N.
Epilogue unfuse(const Epilogue& epilogue, const std::vector<ir::Dim>& gemm_columns,
                const std::vector<ir::Value>& gemm_nodes);

}  // namespace attacca::epilogue
