/* The calling convention of a kernel's hole (epilogue/hole.hpp explains it), spelled once: kernels
 * declare the hole by these macros, the host by these structs, and the emitter of its body writes
 * their text. C, C++ and CUDA include it. */
#ifndef ATTACCA_EPILOGUE_HOLE_ABI_H_
#define ATTACCA_EPILOGUE_HOLE_ABI_H_

#include <stdint.h>

/* Names of the parameters, all uint32_t. Element 0 or 1 of a slot; those of 16 bits share a word.
 */
#define ATTACCA_HOLE_ACCUMULATOR(slot, element) acc##slot##_##element
#define ATTACCA_HOLE_FULL_16(slot) full##slot
#define ATTACCA_HOLE_FULL_32(slot, element) full##slot##_##element
#define ATTACCA_HOLE_ROW(slot, element) row##slot##_##element
#define ATTACCA_HOLE_COLUMN(slot) col##slot

/* The parameters of one slot, each with a comma. */
#define ATTACCA_HOLE_ACCUMULATOR_PARAMETERS(slot) \
  uint32_t ATTACCA_HOLE_ACCUMULATOR(slot, 0), uint32_t ATTACCA_HOLE_ACCUMULATOR(slot, 1),
#define ATTACCA_HOLE_FULL_PARAMETERS_16(slot) uint32_t ATTACCA_HOLE_FULL_16(slot),
#define ATTACCA_HOLE_FULL_PARAMETERS_32(slot) \
  uint32_t ATTACCA_HOLE_FULL_32(slot, 0), uint32_t ATTACCA_HOLE_FULL_32(slot, 1),
#define ATTACCA_HOLE_ROW_PARAMETERS(slot) \
  uint32_t ATTACCA_HOLE_ROW(slot, 0), uint32_t ATTACCA_HOLE_ROW(slot, 1),
#define ATTACCA_HOLE_COLUMN_PARAMETERS(slot) uint32_t ATTACCA_HOLE_COLUMN(slot),

/* All parameters in their order, from those of each kind of slot. */
/* clang-format off: it takes `*` for a product, and the emitted text is as it is written here. */
#define ATTACCA_HOLE_PARAMETERS(accumulators, fulls, rows, columns)           \
  accumulators fulls rows columns int32_t row, int32_t column, int32_t batch, \
      const attacca_hole_context* context
/* clang-format on */

/* Words that a call returns of a result of so many bits, for both elements. */
#define ATTACCA_HOLE_WORDS(bits) ((bits) == 8 ? 1 : (bits) / 16)

/* An operand that the hole's body reaches itself: element (batch, row, column) is at
 * pointer + batch * batch_stride + row * row_stride + column * column_stride. Of an index that
 * names rows of another operand, batch_stride is the number of rows among which it chooses; a
 * negative one counts from the last row back, and all bytes of a row outside are 0xff. INT64: the
 * compiler's type. */
#define ATTACCA_OPERAND_MEMBERS(MEMBER, INT64) \
  MEMBER(void* pointer)                        \
  MEMBER(INT64 row_stride, column_stride, batch_stride)

/* Lies in the kernel's parameters. Rows, columns, batches: the problem's m, n, batch. */
#define ATTACCA_CONTEXT_OPERANDS 12
#define ATTACCA_HOLE_CONTEXT_MEMBERS(MEMBER)       \
  MEMBER(int32_t rows, columns, batches, reserved) \
  MEMBER(attacca_operand operand[ATTACCA_CONTEXT_OPERANDS])

#define ATTACCA_MEMBER(...) __VA_ARGS__;
typedef struct attacca_operand {
  ATTACCA_OPERAND_MEMBERS(ATTACCA_MEMBER, int64_t)
} attacca_operand;
typedef struct attacca_hole_context {
  ATTACCA_HOLE_CONTEXT_MEMBERS(ATTACCA_MEMBER)
} attacca_hole_context;
#undef ATTACCA_MEMBER

#endif
