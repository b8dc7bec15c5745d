#include "templates/emulator/problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "fmt/format.h"

#include "ir/graph/dtype.hpp"
#include "ir/interpret/groups.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "ir/packed/packed.hpp"
#include "support/check.hpp"

namespace attacca::emulator {
namespace {

constexpr uint8_t kPoison = 0xa5;

int64_t offset(const attacca_operand& view, int batch, int row, int column) {
  return batch * view.batch_stride + row * view.row_stride + column * view.column_stride;
}

uint32_t encode(float value, int bits) {
  if (bits == 8) return static_cast<uint32_t>(static_cast<int64_t>(value)) & 0xff;
  return bits == 16 ? ir::encode16(ir::DType::BF16, value) : std::bit_cast<uint32_t>(value);
}
float decode(uint32_t raw, int bits) {
  if (bits == 8) return static_cast<float>(static_cast<int8_t>(raw));
  return bits == 16 ? ir::decode16(ir::DType::BF16, static_cast<uint16_t>(raw))
                    : std::bit_cast<float>(raw);
}

bool is_fp8(const attacca_info& info) {
  return info.input_types[0] == std::string_view("f8e4m3");
}
bool is_f16(const attacca_info& info) {
  return info.input_types[0] == std::string_view("f16");
}
int factor_bits(const attacca_info& info) {
  return info.input_types[0] == std::string_view("bf16") || is_f16(info) ? 16 : 8;
}
// From the bits of a factor to its value.
std::function<float(uint32_t)> factor_decoder(const attacca_info& info) {
  if (is_f16(info))
    return [](uint32_t raw) { return ir::decode16(ir::DType::F16, static_cast<uint16_t>(raw)); };
  if (is_fp8(info))
    return [](uint32_t raw) { return ir::decode8(ir::DType::F8E4M3, static_cast<uint8_t>(raw)); };
  return [bits = factor_bits(info)](uint32_t raw) { return decode(raw, bits); };
}

uint32_t read(const void* base, int64_t index, int bytes) {
  uint32_t raw = 0;
  std::memcpy(&raw, static_cast<const uint8_t*>(base) + index * bytes, static_cast<size_t>(bytes));
  return raw;
}
void write(void* base, int64_t index, int bytes, uint32_t raw) {
  std::memcpy(static_cast<uint8_t*>(base) + index * bytes, &raw, static_cast<size_t>(bytes));
}

int count(const int* bits) {
  int length = 0;
  while (bits[length] > 0) ++length;
  return length;
}

const char* name(Layout layout) {
  constexpr const char* kNames[] = {"rows", "odd rows", "columns", "strided", "broadcast rows"};
  return kNames[static_cast<int>(layout)];
}

int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// Strides in elements, and how many elements lie before the first one.
attacca_operand strides(Layout layout, int rows, int columns) {
  switch (layout) {
    case Layout::Rows: {
      const int64_t pitch = round_up(columns, 16);
      return {nullptr, pitch, 1, round_up(rows * pitch, 16)};
    }
    case Layout::OddRows:
      return {nullptr, columns + 1 + columns % 2, 1, (columns + 2) * rows + 1};
    case Layout::Columns: {
      const int64_t pitch = round_up(rows, 16);
      return {nullptr, 1, pitch, round_up(columns * pitch, 16)};
    }
    case Layout::Strided:
      return {nullptr, 3 * columns + 2, 3, (3 * columns + 2) * rows + 5};
    case Layout::BroadcastRows:
      return {nullptr, 0, 1, round_up(columns, 16)};
  }
  return {};
}

}  // namespace

Layout Problem::random_layout(std::initializer_list<Layout> from) {
  return from.begin()[random_() % from.size()];
}

Operand Problem::make_operand(int rows, int columns, Layout layout, int bits, bool random_values) {
  return make_matrices(rows, columns, layout, bits, random_values, arguments_.batch);
}

Operand Problem::make_matrices(int rows, int columns, Layout layout, int bits, bool random_values,
                               int count) {
  Operand operand;
  operand.view = strides(layout, rows, columns);
  const int bytes = bits / 8;
  // Memory starts at a multiple of 16; so does the operand, but of the layouts that are odd anyway.
  const int64_t before = layout == Layout::OddRows || layout == Layout::Strided ? 1 : 0;
  const int64_t last = rows > 0 && columns > 0 && count > 0
                           ? offset(operand.view, count - 1, rows - 1, columns - 1) + 1
                           : 0;
  operand.bytes.assign(static_cast<size_t>((before + last) * bytes), kPoison);
  if (random_values)
    for (int64_t i = 0; i < last; ++i)
      write(operand.bytes.data(), before + i, bytes, random_bits(bits));
  operand.view.pointer = operand.bytes.data() + before * bytes;
  description_ += fmt::format(", {}", name(layout));
  return operand;
}

// Of bytes, those of factors alone are random.
uint32_t Problem::random_bits(int bits) {
  if (bits == 8 && info_.widened) return random_() & 0xff;
  const auto value = static_cast<float>(static_cast<int>(random_() % 5) - 2);
  if (making_a_ && is_f16(info_)) return ir::encode16(ir::DType::F16, value);
  return bits == 8 && is_fp8(info_) ? ir::encode8(ir::DType::F8E4M3, value) : encode(value, bits);
}

Vector Problem::make_vector(int length) {
  Vector vector;
  // Unused, a scalar, contiguous, strided.
  const uint32_t kind = whole_ ? 2 : random_() % 4;
  constexpr int kBytes[] = {1, 2, 4};
  vector.view.bytes = kBytes[whole_ ? 2 : random_() % 3];
  vector.view.stride = kind == 1 ? 0 : kind == 2 ? 1 : 3;
  vector.view.batch_stride = random_() % 2 ? round_up(length, 16) * vector.view.stride : 0;
  if (info_.grouped && kind == 1) vector.view.batch_stride = 1;  // one number for each group
  const int64_t elements =
      (matrices() - 1) * vector.view.batch_stride + (length - 1) * vector.view.stride + 1;
  description_ += kind == 0 ? ", -" : fmt::format(", {}x{}", vector.view.bytes, vector.view.stride);
  if (kind == 0 || length == 0 || arguments_.batch == 0) return vector;
  for (int64_t i = 0; i < elements * vector.view.bytes; ++i) vector.bytes.push_back(0);
  for (int64_t i = 0; i < elements; ++i)
    write(vector.bytes.data(), i, vector.view.bytes, random_() % 4);
  vector.view.pointer = vector.bytes.data();
  return vector;
}

// Groups of any sizes, in any order: most rows may be in one group, and ends may descend, lie
// beyond the rows or leave rows behind the last one.
void Problem::make_groups() {
  constexpr int kCounts[] = {1, 2, 5, 33, 70};
  const int rows = arguments_.m;
  arguments_.groups = kCounts[random_() % 5];
  arguments_.group_stride = 1 + random_() % 3;
  ends_.resize(static_cast<size_t>(arguments_.groups * arguments_.group_stride), 1 << 30);
  const uint32_t kind = random_() % 4;
  int end = 0;
  for (int group = 0; group < arguments_.groups; ++group) {
    const auto any = static_cast<int>(random_() % static_cast<uint32_t>(rows + 1));
    if (kind == 0) end = any + static_cast<int>(random_() % 40) - 20;  // any numbers
    if (kind == 1 && random_() % 3 == 0) end += any / 4;               // with empty ones
    if (kind == 2) end = group < arguments_.groups / 2 ? 0 : rows;     // all in one
    if (kind == 3) end = (group + 1) * (rows + arguments_.groups) / arguments_.groups;  // alike
    ends_[static_cast<size_t>(group * arguments_.group_stride)] = end;
  }
  arguments_.group_ends = ends_.data();
  group_ends_ =
      ir::group_ends(ends_.data(), arguments_.groups, arguments_.group_stride, arguments_.m);
  description_ += fmt::format(", {} groups of kind {}", arguments_.groups, kind);
}

// The matrix of B that a row is multiplied by; -1: by none.
int Problem::matrix_of(int batch, int m) const {
  if (!info_.grouped) return batch;
  const auto end = std::upper_bound(group_ends_.begin(), group_ends_.end(), m);
  return end == group_ends_.end() ? -1 : static_cast<int>(end - group_ends_.begin());
}

// The batch of the epilogue's operands: a row's group. Rows of none have the last one's.
int Problem::batch_of(int batch, int m) const {
  const int matrix = matrix_of(batch, m);
  return matrix < 0 ? arguments_.groups - 1 : matrix;
}

// Any of A's rows, some several times, from the front or from the back, and some that do not exist.
void Problem::make_named_rows(int rows) {
  constexpr int64_t kFar[] = {1, -1, int64_t{1} << 31, -(int64_t{1} << 31), int64_t{1} << 40};
  arguments_.a_rows.rows = rows;
  arguments_.a_rows.stride = 1 + random_() % 2;
  arguments_.a_rows.bytes = random_() % 2 ? 4 : 8;
  const bool wide = arguments_.a_rows.bytes == 8, outside = random_() % 2;
  for (int64_t i = 0; i < arguments_.m * arguments_.a_rows.stride; ++i) {
    int64_t row = static_cast<int64_t>(random_() % static_cast<uint32_t>(2 * rows + 1)) - rows;
    if (row == rows || (outside && random_() % 5 == 0))
      row = rows + kFar[random_() % (wide ? 5 : 1)] - (random_() % 2 ? 1 : 3 * rows + 1);
    named_.push_back(row);
    narrow_.push_back(static_cast<int32_t>(row));
  }
  arguments_.a_rows.pointer = wide ? static_cast<const void*>(named_.data()) : narrow_.data();
  description_ += fmt::format(", {} rows by an index of {} bytes, stride {}, some outside {}", rows,
                              arguments_.a_rows.bytes, arguments_.a_rows.stride, outside);
}

// The row of A that a row of the product reads; -1: it does not exist.
int Problem::row_of_a(int m) const {
  const int64_t rows = arguments_.a_rows.rows;
  if (!info_.gathered) return m;
  const int64_t row = named_[static_cast<size_t>(m * arguments_.a_rows.stride)];
  if (row < -rows || row >= rows) return -1;
  return static_cast<int>(row < 0 ? row + rows : row);
}

void Problem::make_factors() {
  const auto any = [&] {
    return random_layout(
        {Layout::Rows, Layout::OddRows, Layout::Columns, Layout::Strided, Layout::BroadcastRows});
  };
  const Layout a = info_.any_strides ? any() : info_.a_k_major ? Layout::Rows : Layout::Columns;
  const Layout b = info_.any_strides ? any() : info_.b_k_major ? Layout::Columns : Layout::Rows;
  const int bits = factor_bits(info_);
  making_a_ = true;
  const int rows = info_.gathered ? 1 + static_cast<int>(random_() % 40) : arguments_.m;
  a_ = make_operand(rows, arguments_.k, a, bits, true);
  making_a_ = false;
  if (info_.packed_bits > 0) {
    arguments_.a = a_.view;
    make_packed();
    return;
  }
  if (info_.grouped) make_groups();
  if (info_.gathered) make_named_rows(rows);
  if (info_.code_bits > 0) {
    arguments_.a = a_.view;
    make_codes();
    return;
  }
  b_ = make_matrices(arguments_.k, arguments_.n, b, info_.widened ? 8 : bits, true, matrices());
  if (info_.widened && random_() % 2) arguments_.packed.zero = 128;  // s8
  arguments_.a = a_.view;
  arguments_.b = b_.view;
  if (info_.scaled_blocks) make_scales();
  if (info_.accumulators < 2) return;
  if (info_.alternate_columns) {
    make_alternate_columns();
    return;
  }
  b1_ = make_matrices(arguments_.k, arguments_.n, info_.any_strides ? any() : b, bits, true,
                      matrices());
  arguments_.b1 = b1_.view;
}

// f32, which any strides may reach.
void Problem::make_scales() {
  const auto any = [&] {
    return random_layout({Layout::Rows, Layout::OddRows, Layout::Columns, Layout::Strided});
  };
  const int blocks_k = (arguments_.k + 127) / 128, blocks_n = (arguments_.n + 127) / 128;
  scale_a_ = make_operand(arguments_.m, blocks_k, any(), 32, true);
  scale_b_ = make_matrices(blocks_k, blocks_n, any(), 32, true, matrices());
  if (info_.accumulators > 1) {
    scale_b1_ = make_matrices(blocks_k, blocks_n, any(), 32, true, matrices());
    arguments_.scale_b1 = scale_b1_.view;
  }
  arguments_.scale_a = scale_a_.view;
  arguments_.scale_b = scale_b_.view;
}

float Problem::scale(const Operand& of_b, int batch, int m, int n, int k) const {
  if (!info_.scaled_blocks) return 1;
  const attacca_operand &a = scale_a_.view, &b = of_b.view;
  return decode(read(a.pointer, offset(a, batch, m, k / 128), 4), 32) *
         decode(read(b.pointer, offset(b, matrix_of(batch, m), k / 128, n / 128), 4), 32);
}

// Codes of every kind that the kernel takes, with scales that keep every sum a whole number.
void Problem::make_packed() {
  ir::Packing packing;
  packing.bits = info_.packed_bits;
  packing.weights = info_.packed_floats ? ir::DType::F8E4M3
                    : random_() % 2     ? ir::DType::S8
                                        : ir::DType::U8;
  packing.scales = info_.packed_scale_bits == 32  ? ir::DType::F32
                   : info_.packed_scale_bits == 8 ? ir::DType::U8
                   : is_f16(info_)                ? ir::DType::F16
                                                  : ir::DType::BF16;
  constexpr int64_t kGroups[] = {0, 64, 128, 256};
  packing.group = kGroups[random_() % 3 + (packing.whole() ? 1 : 0)];
  if (packing.group == 64 && packing.whole()) packing.group = 0;
  packing.zeros = !info_.packed_floats && random_() % 2;
  const ir::PackedLayout layout = *ir::packed_layout(packing, arguments_.n, arguments_.k);
  ir::Quantized from;
  from.weights =
      *ir::Tensor::make(packing.weights, {layout.n, packing.bits == 4 ? layout.k / 2 : layout.k});
  for (int64_t i = 0; i < from.weights.size(); ++i) {
    const auto value = static_cast<int>(random_() % 33) - 16;
    from.weights.as<uint8_t>()[i] =
        info_.packed_floats ? ir::encode8(ir::DType::F8E4M3, static_cast<float>(value / 2))
                            : static_cast<uint8_t>(random_());
  }
  from.scales = *ir::Tensor::make(packing.scales, {layout.n, layout.groups});
  const uint32_t scales = packing.whole() ? 9 : random_() % 2 ? 4 : 2;
  for (int64_t i = 0; i < from.scales.size(); ++i)
    from.scales.set_number(i, static_cast<double>(random_() % scales));
  if (packing.zeros) {
    from.zeros = *ir::Tensor::make(packing.weights, {layout.n, layout.groups});
    for (int64_t i = 0; i < from.zeros->size(); ++i)
      from.zeros->set_integer(
          i, static_cast<int64_t>(random_() % (1u << packing.bits)) - layout.zero());
  }
  packed_ = *ir::pack(from, packing);
  const ir::DType rounded = packing.whole()        ? ir::DType::S8
                            : !info_.packed_rounds ? ir::DType::F64
                            : is_f16(info_)        ? ir::DType::F16
                                                   : ir::DType::BF16;
  weights_ = *ir::Tensor::make(rounded, {layout.n, layout.k});
  ir::dequantize({packed_.data(), static_cast<size_t>(packed_.bytes())}, layout, weights_);
  arguments_.b.pointer = packed_.data();
  arguments_.packed.scales_at = layout.scales_at;
  arguments_.packed.zeros_at = layout.zeros_at;
  arguments_.packed.groups = static_cast<int32_t>(layout.groups);
  arguments_.packed.group = static_cast<int32_t>(packing.group);
  arguments_.packed.zero = layout.zero();
  arguments_.packed.has_zeros = packing.zeros;
  description_ += ", " + to_string(packing);
}

// How codes lie in memory. Scales are those of 32 weights, of more, or of all along k.
void Problem::choose_codes() {
  const int k = arguments_.k;
  attacca_codes& codes = arguments_.codes;
  format_ = {.mxfp4 = info_.code_floats, .bits = info_.code_bits};
  codes.block = 32;
  if (format_.mxfp4) return;
  const uint32_t kind = random_() % 4;
  for (uint32_t i = 0; i < kind && k % (2 * codes.block) == 0; ++i) codes.block *= 2;
  if (kind == 3) codes.block = std::max(k, 32);
  const bool bf16 = info_.input_types[0] == std::string("bf16");
  format_.dtype = format_.scales = bf16 ? ir::DType::BF16 : ir::DType::F16;
  const uint32_t zeros = random_() % 4;  // signed codes, a code of 0, none, or zero points
  format_.is_signed = zeros == 0;
  format_.zero = zeros == 1 ? static_cast<int>(random_() % (1u << format_.bits)) : 0;
  format_.zeros = zeros == 3;
  format_.block = codes.block;
  codes.is_signed = format_.is_signed;
  codes.zero = format_.zero;
  codes.has_zeros = format_.zeros;
}

// Any codes, with scales that keep every sum exact; in some problems a few of them are NaN. The two
// weights of a gate are halves of the rows of one matrix, or its rows by turns.
void Problem::make_codes() {
  choose_codes();
  const int sets = info_.accumulators, n = arguments_.n, k = arguments_.k;
  const int64_t rows = int64_t{sets} * n, weights = matrices() * rows * k;
  const int64_t block = arguments_.codes.block, width = ir::size_of(format_.scales);
  for (int64_t i = 0; i < weights * format_.bits / 8; ++i)
    codes_.push_back(static_cast<uint8_t>(random_() & 0xff));
  const bool nans = random_() % 4 == 0;
  for (int64_t i = 0; i < weights / block; ++i) {
    const bool nan = nans && random_() % 64 == 0;
    if (format_.mxfp4) {
      scales_.push_back(nan ? uint8_t{255} : static_cast<uint8_t>(125 + random_() % 5));
      continue;
    }
    const float scale = nan ? NAN : std::ldexp(1.0f, static_cast<int>(random_() % 3) - 1);
    const uint16_t bits = ir::encode16(format_.scales, scale);
    scales_.insert(scales_.end(),
                   {static_cast<uint8_t>(bits & 0xff), static_cast<uint8_t>(bits >> 8)});
    zeros_.push_back(static_cast<uint8_t>(random_() & 0xff));
  }
  const bool by_turns = random_() % 2, second_first = random_() % 2;
  const int64_t column = int64_t{k} * (by_turns ? sets : 1);
  for (int s = 0; s < sets; ++s) {
    const int64_t first =
        (sets == 2 && (s == 0) == second_first) ? int64_t{k} * (by_turns ? 1 : n) : 0;
    (s == 0 ? arguments_.b : arguments_.b1) = {codes_.data() + first * format_.bits / 8, 1, column,
                                               rows * k};
    arguments_.codes.scales[s] = scales_.data() + first / block * width;
    if (format_.zeros) arguments_.codes.zeros[s] = zeros_.data() + first / block;
  }
  description_ += fmt::format(", {} of {} by turns {}, second first {}, with NaN {}",
                              to_string(format_), block, by_turns, second_first, nans);
}

float Problem::coded_weight(int s, int matrix, int k, int n) const {
  const attacca_codes& codes = arguments_.codes;
  const int64_t at = offset(s == 0 ? arguments_.b : arguments_.b1, matrix, k, n);
  const int64_t block = at / codes.block;
  const void* const from = s == 0 ? arguments_.b.pointer : arguments_.b1.pointer;
  const uint32_t byte = read(from, at * format_.bits / 8, 1);
  if (format_.mxfp4)
    return static_cast<float>(
        ir::mxfp4_value(byte >> (4 * (at % 2)), read(codes.scales[s], block, 1)));
  const int64_t signed_byte = format_.is_signed ? static_cast<int8_t>(byte) : int64_t{byte};
  const int64_t zero = codes.has_zeros ? read(codes.zeros[s], block, 1) : codes.zero;
  const auto scale = static_cast<uint16_t>(read(codes.scales[s], block, 2));
  const float weight = static_cast<float>(ir::code_of(format_, signed_byte, at) - zero) *
                       ir::decode16(format_.scales, scale);
  return ir::decode16(format_.dtype, ir::encode16(format_.dtype, weight));
}

// B and B1 by turns in the columns of one matrix.
void Problem::make_alternate_columns() {
  b_ = make_matrices(arguments_.k, 2 * arguments_.n, Layout::Rows, 16, true, matrices());
  attacca_operand even = b_.view, odd = b_.view;
  even.column_stride = odd.column_stride = 2;
  odd.pointer = static_cast<uint16_t*>(odd.pointer) + 1;
  const bool odd_first = random_() % 2 == 0;
  arguments_.b = odd_first ? odd : even;
  arguments_.b1 = odd_first ? even : odd;
}

// Full operands 0 and 1 by turns in the columns of one matrix, which starts anywhere; in one of
// four problems they only look so.
void Problem::make_alternate_fulls() {
  constexpr int kShifts[] = {0, 1, 2, 4}, kDistances[] = {1, 1, 1, 3};
  const int shift = kShifts[random_() % 4], distance = kDistances[random_() % 4];
  const Layout layout = random_layout({Layout::Rows, Layout::OddRows, Layout::BroadcastRows});
  full_[0] = make_operand(arguments_.m, shift + 2 * arguments_.n + distance - 1, layout, 16, true);
  attacca_operand lower = full_[0].view;
  lower.pointer = static_cast<uint16_t*>(lower.pointer) + shift;
  lower.column_stride = 2;
  attacca_operand upper = lower;
  upper.pointer = static_cast<uint16_t*>(upper.pointer) + distance;
  const bool upper_first = random_() % 2 == 0;
  arguments_.full[0] = upper_first ? upper : lower;
  arguments_.full[1] = upper_first ? lower : upper;
  description_ +=
      fmt::format(" from {} by turns with {} on, upper first {}", shift, distance, upper_first);
}

// The same of the vectors along rows.
void Problem::make_alternate_rows() {
  const int shift = static_cast<int>(random_() % 5), batches = random_() % 2;
  const int64_t length = round_up(2 * arguments_.n + shift, 8) + random_() % 2;
  const int64_t elements = batches * (arguments_.batch - 1) * length + shift + 2 * arguments_.n;
  row_[0].bytes.resize(static_cast<size_t>(2 * elements));
  for (int64_t i = 0; i < elements; ++i) write(row_[0].bytes.data(), i, 2, random_() % 4);
  uint8_t* const start = row_[0].bytes.data() + 2 * shift;
  const attacca_vector lower{start, 2, batches * length, 2, 0};
  attacca_vector upper = lower;
  upper.pointer = start + 2;
  const bool upper_first = random_() % 2 == 0;
  arguments_.row[0] = upper_first ? upper : lower;
  arguments_.row[1] = upper_first ? lower : upper;
  description_ += fmt::format(", vectors from {} by turns, batches {} apart, upper first {}", shift,
                              lower.batch_stride, upper_first);
}

Problem::Problem(const Kernel& kernel, int m, int n, int k, int batch, uint32_t seed)
    : info_(kernel.record->info()), random_(seed) {
  arguments_.m = m;
  arguments_.n = n;
  arguments_.k = k;
  arguments_.batch = batch;
  arguments_.context.rows = m;
  arguments_.context.columns = n;
  arguments_.context.batches = batch;
  // Of a shared tail, two clusters.
  arguments_.sm_count = info_.schedule == std::string("shared_tail") ? 4 : 2;
  arguments_.swizzle = static_cast<int>(random_() % 4);
  arguments_.raster = static_cast<int>(random_() % 3);
  description_ =
      fmt::format("{} {}x{}x{} batch {} seed {}", kernel.record->entry.name, m, n, k, batch, seed);
  if (info_.accumulators > 0) make_factors();
  // Every third problem of groups allows whole chunks. Kernels of aligned results move these and
  // full operands in boxes.
  whole_ = info_.grouped && seed % 3 == 1;
  const bool aligned = whole_ || info_.align_d == 16;
  for (int i = 0; i < count(info_.full_bits); ++i) {
    if (random_() % 5 == 0) continue;  // unused
    const Layout layout = aligned ? Layout::Rows
                                  : random_layout({Layout::Rows, Layout::OddRows, Layout::Columns,
                                                   Layout::Strided, Layout::BroadcastRows});
    full_[i] = make_operand(m, n, layout, info_.full_bits[i], true);
    arguments_.full[i] = full_[i].view;
  }
  if (info_.accumulators == 0 && info_.full_bits[0] == 16 && info_.full_bits[1] == 16 &&
      random_() % 2 == 0)
    make_alternate_fulls();
  const auto output = [&](int bits) {
    const Layout layout =
        aligned ? Layout::Rows
                : random_layout({Layout::Rows, Layout::OddRows, Layout::Columns, Layout::Strided});
    return make_operand(m, n, layout, bits, false);
  };
  for (int i = 0; i < count(info_.result_bits); ++i) {
    output_[i] = output(info_.result_bits[i]);
    arguments_.result[i] = output_[i].view;
  }
  stored_ = output(32);
  arguments_.context.operand[0] = stored_.view;
  if (info_.grouped) arguments_.context.operand[0].batch_stride = 0;
  if (info_.maxima > 0 && random_() % 3 != 0) arguments_.maximum = &maximum_;
  for (int i = 0; i < info_.rows; ++i) {
    row_[i] = make_vector(n);
    arguments_.row[i] = row_[i].view;
  }
  if (info_.accumulators == 0 && info_.rows == 2 && random_() % 2 == 0) make_alternate_rows();
  for (int i = 0; i < info_.columns; ++i) {
    column_[i] = make_vector(m);
    arguments_.column[i] = column_[i].view;
  }
}

float Problem::product(int s, int batch, int m, int n) const {
  const attacca_operand& b = s == 0 ? arguments_.b : arguments_.b1;
  const int matrix = matrix_of(batch, m);
  if (matrix < 0) return 0;
  const int bytes = factor_bits(info_) / 8;
  const auto decode_factor = factor_decoder(info_);
  const auto decode_weight = [&](int k) {
    const int64_t at = offset(b, matrix, k, n);
    if (info_.code_bits > 0) return coded_weight(s, matrix, k, n);
    if (info_.packed_bits > 0) return static_cast<float>(weights_.number_at(n * arguments_.k + k));
    if (!info_.widened) return decode_factor(read(b.pointer, at, bytes));
    const uint32_t byte = read(b.pointer, at, 1);
    return arguments_.packed.zero == 0 ? static_cast<float>(byte) : decode(byte, 8);
  };
  const int row = row_of_a(m);
  float sum = 0, block_scale = 1;
  for (int k = 0; k < arguments_.k; ++k) {
    if (k % 128 == 0) block_scale = scale(s == 0 ? scale_b_ : scale_b1_, batch, m, n, k);
    const float weight = decode_weight(k);
    const uint32_t raw =
        row < 0 ? 0xffff : read(a_.view.pointer, offset(a_.view, batch, row, k), bytes);
    sum += block_scale * weight * decode_factor(raw);
  }
  return sum;
}

// The epilogue of kernel.cpp.
float Problem::value(int batch, int m, int n) const {
  const int own = batch_of(batch, m);
  float x = static_cast<float>(3 * m + 5 * n + 7 * own);
  constexpr float kSetWeights[] = {1, -2};
  for (int s = 0; s < info_.accumulators; ++s) x += kSetWeights[s] * product(s, batch, m, n);
  for (int i = 0; i < count(info_.full_bits); ++i)
    if (const attacca_operand& full = arguments_.full[i]; full.pointer)
      x += static_cast<float>(i + 2) *
           decode(read(full.pointer, offset(full, batch, m, n), info_.full_bits[i] / 8),
                  info_.full_bits[i]);
  constexpr float kRowWeights[] = {11, 13}, kColumnWeights[] = {17, 19};
  const auto add = [&](const attacca_vector& vector, int index, float weight) {
    if (vector.pointer)
      x += weight *
           static_cast<float>(read(
               vector.pointer, index * vector.stride + own * vector.batch_stride, vector.bytes));
  };
  for (int i = 0; i < info_.rows; ++i) add(arguments_.row[i], n, kRowWeights[i]);
  for (int i = 0; i < info_.columns; ++i) add(arguments_.column[i], m, kColumnWeights[i]);
  return x;
}

// Row by row, batch after batch.
std::vector<float> Problem::values() const {
  std::vector<float> all;
  for (int batch = 0; batch < arguments_.batch; ++batch)
    for (int m = 0; m < arguments_.m; ++m)
      for (int n = 0; n < arguments_.n; ++n) all.push_back(value(batch, m, n));
  return all;
}

bool Problem::maximum_as_expected(const std::vector<float>& values, std::string& difference) const {
  if (!arguments_.maximum) return true;
  float largest = 0;
  for (const float each : values) largest = std::max(largest, std::fabs(each));
  if (maximum_ == largest) return true;
  difference = fmt::format("the maximum is {}, not {}", maximum_, largest);
  return false;
}

// Of every byte from the values plus `added`; empty: there is none.
std::string Problem::difference_of(const Operand& output, int bits,
                                   const std::vector<float>& values, float added) const {
  std::vector<uint8_t> expected(output.bytes.size(), kPoison);
  const int64_t before = static_cast<const uint8_t*>(output.view.pointer) - output.bytes.data();
  const float* next = values.data();
  for (int batch = 0; batch < arguments_.batch; ++batch)
    for (int m = 0; m < arguments_.m; ++m)
      for (int n = 0; n < arguments_.n; ++n)
        write(expected.data() + before, offset(output.view, batch, m, n), bits / 8,
              encode(*next++ + added, bits));
  for (int64_t at = 0; at < static_cast<int64_t>(expected.size()); at += bits / 8) {
    const uint32_t want = read(expected.data() + at, 0, bits / 8);
    const uint32_t got = read(output.bytes.data() + at, 0, bits / 8);
    if (want == got || (std::isnan(decode(want, bits)) && std::isnan(decode(got, bits)))) continue;
    return fmt::format("element {} of its memory: {} ({:#x}), not {} ({:#x})",
                       (at - before) / (bits / 8), decode(got, bits), got, decode(want, bits),
                       want);
  }
  return "";
}

bool Problem::outputs_as_expected(std::string& difference) const {
  const std::vector<float> expected = values();
  if (!maximum_as_expected(expected, difference)) return false;
  for (int i = 0; i < count(info_.result_bits); ++i) {
    difference = difference_of(output_[i], info_.result_bits[i], expected, static_cast<float>(i));
    if (!difference.empty()) {
      difference = fmt::format("result {}, {}", i, difference);
      return false;
    }
  }
  difference = difference_of(stored_, 32, expected, 0);
  if (!difference.empty()) difference = "stored by the hole, " + difference;
  return difference.empty();
}

}  // namespace attacca::emulator
