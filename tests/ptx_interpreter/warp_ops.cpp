// Instructions that the lanes of a warp execute together: shfl, vote, redux, bar.warp.sync, mma,
// ldmatrix. All lanes of the mask that have not ended must come to the same instruction.
#include <array>
#include <cstring>

#include "ptx_interpreter/alu.hpp"
#include "ptx_interpreter/families.hpp"

namespace attacca::ptx_interpreter {
namespace {

using Values = std::array<uint64_t, kWarpSize>;

Values read_all(Lanes& lanes, const Read& read) {
  Values values{};
  for (uint32_t i = 0; i < kWarpSize; ++i)
    if (lanes[i] != nullptr) values[i] = read(*lanes[i]);
  return values;
}

uint64_t whole_warp(Thread&) {
  return 0xFFFFFFFFu;
}

// Otherwise every lane that has arrived gets the fault.
bool is_whole(Lanes& lanes) {
  bool whole = true;
  for (const Thread* thread : lanes) whole &= thread != nullptr;
  for (Thread* thread : lanes)
    if (!whole && thread != nullptr) thread->fault = "a warp that is not whole";
  return whole;
}

// Of shfl.MODE.b32: the lane to take from, and whether it is in the segment.
std::pair<uint32_t, bool> shuffle_source(std::string_view mode, uint32_t lane, uint64_t operand,
                                         uint64_t bounds) {
  const uint32_t b = operand & 31, clamp = bounds & 31, segment = bounds >> 8 & 31;
  const uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  if (mode == "idx") {
    const uint32_t from = first | (b & ~segment);
    return {from, from <= last};
  }
  if (mode == "up")
    return {lane - b, static_cast<int>(lane) - static_cast<int>(b) >= static_cast<int>(last)};
  const uint32_t from = mode == "down" ? lane + b : lane ^ b;
  return {from, from <= last};
}

Decoded decode_shuffle(const ptx::Instruction& instruction, Operands& operands) {
  static constexpr std::array<std::string_view, 4> kModes = {"up", "down", "bfly", "idx"};
  Parts parts(instruction.opcode);
  const std::string_view mode = parts.take_one_of(kModes);
  if (!parts.take("sync") || mode.empty() || !parts.take("b32") || !parts.empty() ||
      instruction.operands.size() != 5)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const auto target, operands.write_pair(instruction.operands[0], 32));
  ATTACCA_TRY(const Read value, operands.read(instruction.operands[1], {}));
  ATTACCA_TRY(const Read lane, operands.read(instruction.operands[2], {}));
  ATTACCA_TRY(const Read bounds, operands.read(instruction.operands[3], {}));
  Step step;
  ATTACCA_TRY(step.mask, operands.read(instruction.operands[4], {}));
  step.run_warp = [=](Lanes& lanes) {
    const Values values = read_all(lanes, value), from = read_all(lanes, lane),
                 limits = read_all(lanes, bounds);
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      if (lanes[i] == nullptr) continue;
      const auto [source, is_inside] = shuffle_source(mode, i, from[i], limits[i]);
      if (is_inside && lanes[source & 31] == nullptr) {
        lanes[i]->fault = "a shuffle from a lane that takes no part";
        continue;
      }
      target.first(*lanes[i], is_inside ? values[source & 31] : values[i]);
      target.second(*lanes[i], is_inside);
    }
  };
  return step;
}

Decoded decode_vote(const ptx::Instruction& instruction, Operands& operands) {
  static constexpr std::array<std::string_view, 3> kModes = {"all", "any", "ballot"};
  Parts parts(instruction.opcode);
  const std::string_view mode = parts.take_one_of(kModes);
  if (!parts.take("sync") || mode.empty() || !parts.take_type() || !parts.empty() ||
      instruction.operands.size() != 3)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Write write, operands.write(instruction.operands[0], 32));
  ATTACCA_TRY(const Read value, operands.read(instruction.operands[1], {Kind::Predicate, 1}));
  Step step;
  ATTACCA_TRY(step.mask, operands.read(instruction.operands[2], {}));
  step.run_warp = [=](Lanes& lanes) {
    uint64_t present = 0, votes = 0;
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      if (lanes[i] == nullptr) continue;
      present |= uint64_t{1} << i;
      votes |= uint64_t{value(*lanes[i]) != 0} << i;
    }
    const uint64_t result = mode == "ballot" ? votes
                            : mode == "all"  ? votes == present
                                             : votes != 0;
    for (Thread* thread : lanes)
      if (thread != nullptr) write(*thread, result);
  };
  return step;
}

Decoded decode_reduction(const ptx::Instruction& instruction, Operands& operands) {
  std::string alone(instruction.opcode);  // redux.sync.add.s32 -> add.s32
  constexpr std::string_view kPrefix = "redux.sync.";
  const auto alu =
      alone.starts_with(kPrefix) ? find_alu(alone.substr(kPrefix.size())) : std::nullopt;
  if (!alu || alu->sources != 2 || instruction.operands.size() != 3)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Write write, operands.write(instruction.operands[0], 32));
  ATTACCA_TRY(const Read value, operands.read(instruction.operands[1], {}));
  Step step;
  ATTACCA_TRY(step.mask, operands.read(instruction.operands[2], {}));
  step.run_warp = [=, compute = alu->compute](Lanes& lanes) {
    std::optional<uint64_t> total;
    for (Thread* thread : lanes) {
      if (thread == nullptr) continue;
      const std::array<uint64_t, 2> both = {total.value_or(0), value(*thread)};
      total = total ? compute(both) : both[1];
    }
    for (Thread* thread : lanes)
      if (thread != nullptr) write(*thread, *total);
  };
  return step;
}

Decoded decode_warp_barrier(const ptx::Instruction& instruction, Operands& operands) {
  if (instruction.operands.size() != 1) return operands.unknown(instruction.span, "the opcode");
  Step step;
  ATTACCA_TRY(step.mask, operands.read(instruction.operands[0], {}));
  step.run_warp = [](Lanes&) {};
  return step;
}

// Threads run one by one, so each is the only active one.
Decoded decode_active_mask(const ptx::Instruction& instruction, Operands& operands) {
  if (instruction.operands.size() != 1) return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Write write, operands.write(instruction.operands[0], 32));
  Step step;
  step.run = [write](Thread& thread) { write(thread, uint64_t{1} << thread.lane); };
  return step;
}

// ---- mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}.{f16,bf16}.f32

struct Fragments {
  std::vector<Write> d;
  std::vector<Read> a, b, c;
  Type type;
};

// Element (row, column) of A is in register `reg` of `lane`, in its low or high half: PTX's figure.
double element_of_a(const std::array<Values, 4>& a, uint32_t row, uint32_t k, const Type& type) {
  const uint32_t lane = row % 8 * 4 + k % 8 / 2, reg = row / 8 + k / 8 * 2;
  return to_double(truncate(a[reg][lane] >> (k % 2 * 16), 16), type);
}
double element_of_b(const std::array<Values, 2>& b, uint32_t k, uint32_t column, const Type& type) {
  return to_double(truncate(b[k / 8][column * 4 + k % 8 / 2] >> (k % 2 * 16), 16), type);
}

void multiply_tile(Lanes& lanes, const Fragments& f) {
  std::array<Values, 4> a, c;
  std::array<Values, 2> b;
  for (size_t i = 0; i < 4; ++i) a[i] = read_all(lanes, f.a[i]), c[i] = read_all(lanes, f.c[i]);
  for (size_t i = 0; i < 2; ++i) b[i] = read_all(lanes, f.b[i]);
  const Type single{Kind::Float, 32};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane)
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = to_double(c[i][lane], single);
      for (uint32_t k = 0; k < 16; ++k)
        sum += element_of_a(a, row, k, f.type) * element_of_b(b, k, column, f.type);
      f.d[i](*lanes[lane], from_double(sum, single));
    }
}

Decoded decode_mma(const ptx::Instruction& instruction, Operands& operands) {
  constexpr std::string_view kBf16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
  constexpr std::string_view kF16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
  const bool is_known = instruction.opcode == kBf16 || instruction.opcode == kF16;
  constexpr std::array<size_t, 4> kRegisters = {4, 4, 2, 4};
  if (!is_known || instruction.operands.size() != kRegisters.size())
    return operands.unknown(instruction.span, "the opcode");
  Fragments f;
  f.type = *to_type(instruction.opcode == kBf16 ? "bf16" : "f16");
  for (size_t i = 0; i < kRegisters.size(); ++i) {
    const auto* tuple = std::get_if<ptx::Tuple>(&instruction.operands[i].form);
    if (tuple == nullptr || tuple->elements.size() != kRegisters[i])
      return operands.unknown(instruction.span, "the fragment");
    for (const ptx::Operand& element : tuple->elements) {
      if (i == 0) {
        ATTACCA_TRY(Write write, operands.write(element, 32));
        f.d.push_back(std::move(write));
        continue;
      }
      ATTACCA_TRY(Read read, operands.read(element, {}));
      (i == 1 ? f.a : i == 2 ? f.b : f.c).push_back(std::move(read));
    }
  }
  Step step;
  step.mask = whole_warp;
  step.run_warp = [f](Lanes& lanes) {
    if (is_whole(lanes)) multiply_tile(lanes, f);
  };
  return step;
}

// ---- ldmatrix.sync.aligned.m8n8.x{1,2,4}[.trans].shared.b16

// Matrix m is of the rows whose addresses lanes 8m to 8m + 7 have; a lane gets two neighbours of
// it.
void load_matrices(Lanes& lanes, const Location& rows, const std::vector<Write>& targets,
                   bool transposes) {
  for (uint32_t matrix = 0; matrix < targets.size(); ++matrix) {
    std::array<std::array<uint16_t, 8>, 8> elements{};
    for (uint32_t row = 0; row < 8; ++row) {
      Thread& lane = *lanes[8 * matrix + row];
      const std::byte* data = lane.memory(rows.space, rows.address(lane), 16);
      if (data == nullptr) return;
      std::memcpy(elements[row].data(), data, 16);
    }
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t row = lane / 4, column = lane % 4 * 2;
      const uint64_t low = transposes ? elements[column][row] : elements[row][column];
      const uint64_t high = transposes ? elements[column + 1][row] : elements[row][column + 1];
      targets[matrix](*lanes[lane], low | high << 16);
    }
  }
}

Decoded decode_load_matrix(const ptx::Instruction& instruction, Operands& operands) {
  Parts parts(instruction.opcode);
  const bool is_known = parts.take("sync") && parts.take("aligned") && parts.take("m8n8") &&
                        (parts.take("shared") || parts.take("shared::cta")) && parts.take("b16");
  const size_t count = parts.take("x1") ? 1 : parts.take("x2") ? 2 : parts.take("x4") ? 4 : 0;
  const bool transposes = parts.take("trans");
  const auto* tuple = instruction.operands.size() == 2
                          ? std::get_if<ptx::Tuple>(&instruction.operands[0].form)
                          : nullptr;
  if (!is_known || !parts.empty() || tuple == nullptr || tuple->elements.size() != count)
    return operands.unknown(instruction.span, "the opcode");
  ATTACCA_TRY(const Location rows, operands.location(instruction.operands[1], Space::Shared));
  std::vector<Write> targets;
  for (const ptx::Operand& element : tuple->elements) {
    ATTACCA_TRY(Write write, operands.write(element, 32));
    targets.push_back(std::move(write));
  }
  Step step;
  step.mask = whole_warp;
  step.run_warp = [=](Lanes& lanes) {
    if (is_whole(lanes)) load_matrices(lanes, rows, targets, transposes);
  };
  return step;
}

}  // namespace

Decoded decode_warp(const ptx::Instruction& instruction, Operands& operands) {
  const std::string_view opcode = instruction.opcode;
  const std::string_view first = Parts(opcode).first();
  if (first == "shfl") return decode_shuffle(instruction, operands);
  if (first == "vote") return decode_vote(instruction, operands);
  if (first == "redux") return decode_reduction(instruction, operands);
  if (first == "activemask") return decode_active_mask(instruction, operands);
  if (first == "ldmatrix") return decode_load_matrix(instruction, operands);
  if (first == "mma") return decode_mma(instruction, operands);
  if (opcode == "bar.warp.sync") return decode_warp_barrier(instruction, operands);
  return std::nullopt;
}

}  // namespace attacca::ptx_interpreter
