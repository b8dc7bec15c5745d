// An epilogue compiled to steps over short chunks of one row, whose values stay in the first-level
// cache. Shapes, strides and addresses come later (epilogue_runner.hpp): one program serves every
// shape.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/graph/mode.hpp"
#include "run/cpu/kernels/chain.hpp"
#include "run/cpu/kernels/integer_chain.hpp"
#include "run/cpu/kernels/kernel.hpp"

namespace attacca::run {

// Columns a step handles at once.
inline constexpr int64_t kChunk = 1024;

// A value during a chunk: an array of lanes, or one lane for the whole row.
struct Slot {
  enum class Kind : uint8_t { Input, Constant, Buffer };
  Kind kind = Kind::Buffer;
  Lane lane = Lane::F32;
  bool splat = false;
  int index = 0;  // of the epilogue's input, of the constant, of the buffer
};

struct Step {
  Kernel kernel = nullptr;
  int out = 0;  // a slot
  int in[3] = {};
  int arity = 1;
  double params[3] = {};
  std::unique_ptr<ScalarCall> scalar;
};

struct ChunkProgram {
  std::vector<Slot> slots;  // the epilogue's inputs come first
  std::vector<Step> steps;
  size_t alike = 0;               // of the steps, the first, which compute the same for every row
  std::vector<double> constants;  // the bytes of one lane each
  int buffers = 0;
  // One for each epilogue output: the slot of its value, not yet rounded to the dtype stored.
  struct Store {
    int slot = 0;
    ir::DType dtype = ir::DType::F32;  // of a reduction: the lane's, to store unrounded values
  };
  std::vector<Store> stores;
  std::optional<Chain> chain;  // computes the same in one loop, if every row is contiguous
  // Such a loop over accumulators of bytes. Its values are slots, set by inputs and alike steps.
  std::optional<IntegerChain> integer_chain;
  // For each slot, the output whose memory it may be computed in, or -1.
  std::vector<int> direct;
  // The program for chunks of several rows: operands that have one value for each row are arrays of
  // lanes. nullptr where there are none.
  std::unique_ptr<const ChunkProgram> of_rows;
};

// Whether the epilogue reads no accumulators.
bool is_pointwise(const epilogue::Epilogue& epilogue);

ChunkProgram compile_chunk_program(const epilogue::Epilogue& epilogue, ir::Mode mode);

}  // namespace attacca::run
