/* The C ABI between Attacca and its kernel templates. Host code that was compiled with a template,
 * in a shared object that is opened at run time, builds the parameters of a launch, so that neither
 * Attacca's headers nor the machines where it runs need CUTLASS.
 *
 * Strides and extents are in elements, coordinates and operands the problem's own: D[batch, m, n] =
 * epilogue(A[batch, m, k] x B[batch, k, n]). A swapped template computes D transposed from B and A
 * transposed; its builder exchanges them. A gate, a template with two accumulator sets, computes
 * epilogue(A x B, A x B1). B and B1 are two operands even if they are halves or alternate columns
 * of one matrix.
 */
#ifndef ATTACCA_TEMPLATES_ABI_H_
#define ATTACCA_TEMPLATES_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "epilogue/hole_abi.h" /* attacca_operand, attacca_hole_context */

#ifdef __cplusplus
extern "C" {
#endif

#define ATTACCA_ABI_VERSION 8

/* A vector that the kernel stages itself for a row or column slot, in the KERNEL's coordinates (the
 * caller exchanges rows and columns for swapped templates): element i of batch b is the `bytes`
 * bytes (1, 2 or 4) at pointer + (i * stride + b * batch_stride) * bytes. A scalar has stride 0.
 * NULL: the slot is unused. */
typedef struct {
  const void* pointer;
  int64_t stride, batch_stride;
  int32_t bytes;
  int32_t reserved;
} attacca_vector;

/* A packed tensor (ir/packed/packed.hpp); b.pointer is its first byte. */
typedef struct {
  int64_t scales_at, zeros_at; /* bytes from there */
  int32_t groups;              /* in a row */
  int32_t group;               /* values of k in a group; 0: all */
  int32_t zero;                /* the code of 0 if there are no zero points; of bytes that a
                                  kernel widens: 128 if they are s8, 0 if they are u8 */
  int32_t has_zeros;
} attacca_packed;

/* Weights as codes in memory, (n, k) row-major, [0] of B and [1] of B1: of 4 bits, two a byte, the
 * first one in its lower half, or 8 bits. Scales and zero points are those of the first weights,
 * which begin a block along k; their strides are those of the weights, divided by `block`. */
typedef struct {
  const void* scales[2];
  const void* zeros[2]; /* u8; with has_zeros */
  int64_t block;        /* weights along k that share a scale */
  int32_t zero;         /* the code of 0 if there are no zero points */
  int32_t has_zeros, is_signed;
} attacca_codes;

/* Rows that an index names: its element i lies i * stride elements of `bytes` bytes (4: s32,
 * 8: s64) behind the first one, and names one of `rows` rows, from the last one back if it is
 * negative. All bytes of a row outside are 0xff. */
typedef struct {
  const void* pointer;
  int64_t stride;
  int32_t bytes; /* 0: there is no index */
  int32_t rows;
} attacca_row_index;

typedef struct {
  int32_t m, n, k, batch;
  attacca_operand a;         /* [m, k]: row_stride along m, column_stride along k */
  attacca_operand b;         /* [k, n] */
  attacca_operand result[2]; /* [m, n], of the signature's widths */
  attacca_operand full[4];   /* [m, n]; a GEMM template has at most 2 slots, a pointwise one 4 */
  attacca_vector row[2], column[2];
  attacca_hole_context context;
  int32_t sm_count;
  int32_t swizzle; /* 1, 2, 4, 8; 0: the template's default */
  int32_t raster;  /* 0: heuristic, 1: along the kernel's M, 2: along its N */
  int32_t splits;  /* stream-K templates: 0 stream-K, >= 1 that many splits of K */
  void* workspace;
  attacca_operand b1; /* [k, n]; of gates */
  void* maximum;      /* one f32, 0 before the launch, which the kernel raises to the largest value
                         that the hole returns for it; NULL: none */
  attacca_packed packed; /* of templates whose B is packed, or bytes that they widen (zero) */
  /* Of templates that scale blocks: f32 scales [m, k / 128] of A and [k / 128, n / 128] of B, the
   * quotients rounded up. Axes as of a and b; strides are from one block to the next. Of grouped
   * templates a batch of scale_b is a group. scale_a has the product's rows also where an index
   * names those of A. scale_b1: of gates, B1's. */
  attacca_operand scale_a, scale_b, scale_b1;
  /* Of grouped templates: the s32 ends of `groups` groups of A's rows, group_stride elements apart,
   * which the kernel alone reads (ir/interpret/groups.hpp). Group e is multiplied by the matrix
   * that lies e * batch_stride elements behind the first one of B, and of B1. `batch` is 1. A batch
   * of the epilogue's vectors, and of what its body loads through the context, is a group; rows of
   * no group have the last one's. The batch_stride of full operands and results is ignored; a
   * result that the body stores has one of 0. */
  const void* group_ends;
  int64_t group_stride;
  int32_t groups;
  /* Of templates that gather: row m of the product is the row of A that element m names. */
  attacca_row_index a_rows;
  /* Of templates of weights in codes: the pointers of b and b1 are those of codes, and their
   * strides count weights. */
  attacca_codes codes;
} attacca_gemm_arguments;

typedef struct {
  const char* name;    /* as in the metadata */
  size_t params_bytes; /* of the kernel's one parameter */
  size_t params_align;
  /* Returns 0 if the template takes the arguments, else 1 and writes the reason, with the offending
   * value. Pointers are checked unless they are NULL. */
  int (*check)(const attacca_gemm_arguments*, char* reason, size_t reason_bytes);
  /* Bytes of device memory a launch needs, and the range of it that must be zero before each
   * launch. */
  size_t (*workspace)(const attacca_gemm_arguments*, size_t* zero_offset, size_t* zero_bytes);
  /* Fills `params` and the launch's grid. Returns 0, or 1 and writes the reason. Touches no device
   * and no context: tensor maps are encoded by the function given to attacca_templates_open. */
  int (*build)(const attacca_gemm_arguments*, void* params, uint32_t grid[3], char* reason,
               size_t reason_bytes);
} attacca_template_entry;

/* The shared object's export. `encode_tiled` is the driver's cuTensorMapEncodeTiled; NULL is
 * allowed where no template is built. Returns the entries; NULL on another ABI version. */
const attacca_template_entry* attacca_templates_open(int32_t abi_version, void* encode_tiled,
                                                     int32_t* count);

#ifdef __cplusplus
}
#endif
#endif
