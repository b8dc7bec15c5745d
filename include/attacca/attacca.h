/* Attacca's C interface: graphs of matrix products and what follows them, compiled to plans that
 * run each product and its epilogue as one kernel, on the CPU or on a GPU.
 *
 * Every function that can fail returns NULL or a status that says what is wrong, where, and how to
 * fix it; the caller frees it. Out parameters are written on success alone. Handles are freed with
 * their own function, in any order, once; NULL may be freed. Graphs, plans and instances are
 * immutable: any number of threads may use one at the same time. A builder belongs to one thread.
 * Texts are UTF-8, NUL-terminated; those returned live as long as the handle that gave them.
 * Nothing throws.
 */
#ifndef ATTACCA_ATTACCA_H_
#define ATTACCA_ATTACCA_H_

#include <stddef.h>
#include <stdint.h>

#if defined(ATTACCA_BUILDS_LIBRARY)
#define ATTACCA_API __attribute__((visibility("default")))
#else
#define ATTACCA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attacca_status attacca_status;
typedef struct attacca_bytes attacca_bytes;
typedef struct attacca_builder attacca_builder;
typedef struct attacca_graph attacca_graph;
typedef struct attacca_plan attacca_plan;
typedef struct attacca_instance attacca_instance;

/* "major.minor.patch" */
ATTACCA_API const char* attacca_version(void);

/* Where kernel templates are looked for: ATTACCA_TEMPLATE_DIR, else beside this library. */
ATTACCA_API attacca_status* attacca_template_directory(attacca_bytes** path);

/* Where kernels and measurements are kept: ATTACCA_CACHE_DIR, else XDG_CACHE_HOME/attacca, else
   ~/.cache/attacca. It need not exist. */
ATTACCA_API attacca_status* attacca_cache_directory(attacca_bytes** path);

/* Names what decides how graphs are cut into regions and which kernels these get: the library's
   sources, the templates, and the tuned choices that come with it. What is measured of such
   decisions and kept belongs under it. */
ATTACCA_API attacca_status* attacca_decision_stamp(attacca_bytes** stamp);

/* ---- Statuses: a failure's reason. The three texts may be empty; those of NULL are. */

ATTACCA_API const char* attacca_status_what(const attacca_status* status);
ATTACCA_API const char* attacca_status_where(const attacca_status* status);
ATTACCA_API const char* attacca_status_fix(const attacca_status* status);
ATTACCA_API void attacca_status_free(attacca_status* status);

/* A problem of this process that made no call fail, such as a cache that cannot be used, as a
 * status for the caller to free. `index`: from 0, in the order in which they appeared; each appears
 * once. NULL: there are not that many. */
ATTACCA_API attacca_status* attacca_warning(size_t index);

/* ---- Bytes that a function made: texts (also NUL-terminated) and files. */

ATTACCA_API const char* attacca_bytes_data(const attacca_bytes* bytes);
ATTACCA_API size_t attacca_bytes_size(const attacca_bytes* bytes);
ATTACCA_API void attacca_bytes_free(attacca_bytes* bytes);

/* ---- Graphs. docs/text-format.md describes the text form. */

/* A symbol of shapes, such as M, and its value. */
typedef struct attacca_size {
  const char* symbol;
  int64_t value;
} attacca_size;

ATTACCA_API attacca_status* attacca_graph_parse(const char* text, attacca_graph** graph);
/* .onnx: an ONNX model; any other name: the text form. */
ATTACCA_API attacca_status* attacca_graph_load(const char* path, attacca_graph** graph);
/* An ONNX model in memory. `directory`: where its external data lies; NULL: it has none. */
ATTACCA_API attacca_status* attacca_graph_from_onnx(const void* model, size_t bytes,
                                                    const char* directory, attacca_graph** graph);
/* The same of an ONNX model with numbers in place of symbols of its inputs' shapes, such as the
 * length of a sequence that an LSTM reads. Errors: a symbol that no shape has; any for a graph in
 * the text form, which takes sizes when it is prepared. */
ATTACCA_API attacca_status* attacca_graph_load_sized(const char* path, const attacca_size* sizes,
                                                     size_t count, attacca_graph** graph);
ATTACCA_API attacca_status* attacca_graph_from_onnx_sized(const void* model, size_t bytes,
                                                          const char* directory,
                                                          const attacca_size* sizes, size_t count,
                                                          attacca_graph** graph);
ATTACCA_API attacca_status* attacca_graph_text(const attacca_graph* graph, attacca_bytes** text);
/* The graph with one input made a constant, such as a weight: `data`, copied, holds the input's
 * elements row by row in host memory. Plans of the new graph take one input less. */
ATTACCA_API attacca_status* attacca_graph_with_constant(const attacca_graph* graph,
                                                        const char* input, const void* data,
                                                        size_t bytes, attacca_graph** bound);
/* The same for data whose own type is known: "bf16[11008, 4096]". A dtype or shape that is not the
 * input's is an error, even if the number of bytes is the same. NULL: the input's type. */
ATTACCA_API attacca_status* attacca_graph_with_typed_constant(const attacca_graph* graph,
                                                              const char* input, const char* type,
                                                              const void* data, size_t bytes,
                                                              attacca_graph** bound);
ATTACCA_API void attacca_graph_free(attacca_graph* graph);

/* ---- Building a graph op by op. */

/* A value of one builder; no other builder takes it. */
typedef uint64_t attacca_value;

ATTACCA_API attacca_status* attacca_builder_create(const char* name, attacca_builder** builder);
/* `type` in the text form: "bf16[M, 4096]", "f32[]", with strides "bf16[M, 4096; 8192, 1]". */
ATTACCA_API attacca_status* attacca_builder_input(attacca_builder* builder, const char* name,
                                                  const char* type, attacca_value* value);
/* `type` without symbols; `data` is copied. */
ATTACCA_API attacca_status* attacca_builder_constant(attacca_builder* builder, const char* type,
                                                     const void* data, size_t bytes,
                                                     attacca_value* value);
/* An op by its name in the text form. `attributes`: what follows the operands in its parentheses,
 * such as "axis=-1" or "f16"; NULL: nothing. */
ATTACCA_API attacca_status* attacca_builder_call(attacca_builder* builder, const char* op,
                                                 const attacca_value* operands, size_t count,
                                                 const char* attributes, attacca_value* value);
/* An expression of the text form over the named values: "x / (1 + exp(-x))". */
ATTACCA_API attacca_status* attacca_builder_compute(attacca_builder* builder,
                                                    const char* expression,
                                                    const char* const* names,
                                                    const attacca_value* values, size_t count,
                                                    attacca_value* value);
/* The argument of one parameter of the caller's own kernel. text NULL: the address of `value`.
 * "f32[M, 4096]": the address of the kernel's result, which has this type; exactly one argument has
 * this form. "s32(M)", "f32(0.5)": a number. */
typedef struct attacca_kernel_argument {
  const char* text;
  attacca_value value;
} attacca_kernel_argument;

/* A kernel of the caller's own, CUDA C++ (.cu) or PTX (.ptx), with one argument for each parameter.
 * It runs only on a GPU; ops that follow may be fused into it (docs/user-kernels.md). `launch` is
 * that of the text form: "entry=gemm, grid=[ceildiv(M, 64), 4], block=[256], shared=16384". */
ATTACCA_API attacca_status* attacca_builder_kernel(attacca_builder* builder, const char* file,
                                                   const attacca_kernel_argument* arguments,
                                                   size_t count, const char* launch,
                                                   attacca_value* value);
ATTACCA_API attacca_status* attacca_builder_output(attacca_builder* builder, attacca_value value,
                                                   const char* name);
/* The graph built so far; the builder may be used further. */
ATTACCA_API attacca_status* attacca_builder_finish(const attacca_builder* builder,
                                                   attacca_graph** graph);
ATTACCA_API void attacca_builder_free(attacca_builder* builder);

/* ---- Packed weights (docs/packed-weights.md): what a graph's `unpack` reads. A run on a GPU reads
   them while the kernel before it on the stream ends: that kernel must not write them. */

typedef struct attacca_packing {
  size_t size;         /* sizeof(attacca_packing) */
  int64_t n, k;        /* the weights' shape */
  const char* weights; /* "s8", "u8", "f8e4m3" */
  int32_t bits;        /* of a code: 8, or 4 of s8 and u8, two a byte, the lower half first */
  int32_t zeros;       /* not 0: there are zero points */
  int64_t group;       /* values of k that share a scale: 64, 128, ...; 0: all */
  const char* scales;  /* "f32", "f16", "bf16" */
} attacca_packing;

/* Host memory: weights (N, K) or, of 4 bits, (N, K / 2); scales and, of the weights' dtype, zero
 * points (N, groups); zeros NULL where there are none. */
ATTACCA_API attacca_status* attacca_weights_pack(const attacca_packing* packing,
                                                 const void* weights, const void* scales,
                                                 const void* zeros, attacca_bytes** packed);
/* Verifies a packed tensor and describes it. The description's texts are valid for ever. */
ATTACCA_API attacca_status* attacca_weights_describe(const void* packed, size_t bytes,
                                                     attacca_packing* packing);
/* Writes what was packed, bit for bit, to memory of the sizes that attacca_weights_describe gives.
 */
ATTACCA_API attacca_status* attacca_weights_unpack(const void* packed, size_t bytes, void* weights,
                                                   void* scales, void* zeros);

/* ---- Plans. */

typedef struct attacca_options {
  size_t size;        /* sizeof(attacca_options); without the last member, which is then 0, too */
  const char* device; /* "cpu", "cuda", "cuda:1"; NULL: "cpu" */
  const char* mode;   /* "fp32", "eager"; NULL: "fp32" */
  /* How a GPU's kernels are chosen for a shape. NULL or "known": by the tuning database, else by
   * the choices that come with Attacca, else by a model; "measure": by the first two, else measured
   * and remembered; "always": measured; "model": by the model, whatever is known; "unfused": the
   * vendor library's product and one kernel for the rest. */
  const char* tuning;
  /* The most seconds that measuring one region may take; 0: 60. With 5 or less, only the most
   * likely kernels are timed, and a later tuning with more time measures again. */
  double tuning_seconds;
  int32_t threads;       /* of the CPU; 0: all cores */
  int32_t unfused_graph; /* not 0: every op on its own */
  /* Not 0: the bits of a row of a product do not depend on how many rows there are
   * (docs/numerics.md). A GPU's kernels are then those that sum in one order, which the model
   * chooses, and the vendor library is not used. */
  int32_t batch_invariant;
} attacca_options;

/* NULL: the device can be used. Else the reason, and what to install. */
ATTACCA_API attacca_status* attacca_device_check(const char* device);

/* Writes the tuning database's choices of a GPU ("cuda", "cuda:1"), of these versions of Attacca
 * and its tools, to a file (docs/tuning.md). count: how many, or NULL. */
ATTACCA_API attacca_status* attacca_choices_export(const char* device, const char* path,
                                                   int64_t* count);
/* Stores such a file's choices in the database, in place of those of equal keys. All of them or
 * none: a file of another device or other versions, or a damaged one, is refused. */
ATTACCA_API attacca_status* attacca_choices_import(const char* device, const char* path,
                                                   int64_t* count);

/* Makes an HTML page without scripts from the JSON that `attacca tune --json` prints or that a
 * report of attacca.torch gives. */
ATTACCA_API attacca_status* attacca_report_page(const char* json, attacca_bytes** html);

/* options NULL: defaults. */
ATTACCA_API attacca_status* attacca_plan_compile(const attacca_graph* graph,
                                                 const attacca_options* options,
                                                 attacca_plan** plan);

/* D = epilogue(A x B): inputs a: dtype[M, K], b: dtype[N, K] (b_layout "nk") or dtype[K, N] ("kn"),
 * then the operands that the epilogue names, in order; outputs of out_dtype. The epilogue's text is
 * that of `attacca emit`: "silu(acc + row(bias)) * full(res)". A gate's, "silu(acc0) * acc1", reads
 * two products of N columns: with b and b1: [N, K] ("two"), or with the halves or the alternate
 * rows of b: [2 N, K] ("halves", "rows"). With "groups " in front of any of these, rows of a are
 * sorted by group and multiplied by the matrix of their group (docs/text-format.md): b is [E, N, K]
 * and so on, and offsets: s32[E], the ends of the groups, follow b and b1. acc has the product's
 * dtype: dtype's, f32 of 8-bit floats, s32 of bytes; an operand that names no dtype has acc's, f32
 * where that is s32. dtype NULL: "bf16"; b_layout NULL: "nk"; epilogue NULL: "acc"; out_dtype NULL:
 * acc's dtype, "bf16" of 8-bit floats. */
ATTACCA_API attacca_status* attacca_matmul_plan(const char* dtype, const char* b_layout,
                                                const char* epilogue, const char* out_dtype,
                                                const attacca_options* options,
                                                attacca_plan** plan);

/* A plan as a self-contained file: graph, constants, mode, device, and the choices of kernels for
 * the shapes prepared so far. Loading it gives an equal plan. */
ATTACCA_API attacca_status* attacca_plan_serialize(const attacca_plan* plan, attacca_bytes** file);
ATTACCA_API attacca_status* attacca_plan_deserialize(const void* data, size_t bytes,
                                                     const char* device, attacca_plan** plan);
ATTACCA_API attacca_status* attacca_plan_save(const attacca_plan* plan, const char* path);
/* Saves a bundle: the plan's file with the machine code of the kernels of all instances prepared so
 * far. The plan must be for a GPU and have no kernels of the caller's own. Loaded for a GPU of the
 * same compute capability, it runs for these sizes without NVRTC, an assembler or the templates'
 * PTX (docs/deploy.md). Where its machine code cannot be used, loading compiles again if the
 * compilers are installed, and fails otherwise. */
ATTACCA_API attacca_status* attacca_plan_save_bundle(const attacca_plan* plan, const char* path);
/* device NULL: the one it was compiled for. */
ATTACCA_API attacca_status* attacca_plan_load(const char* path, const char* device,
                                              attacca_plan** plan);
ATTACCA_API void attacca_plan_free(attacca_plan* plan);

ATTACCA_API const char* attacca_plan_device(const attacca_plan* plan);
ATTACCA_API const char* attacca_plan_mode(const attacca_plan* plan);
/* 1 or 0. */
ATTACCA_API int32_t attacca_plan_batch_invariant(const attacca_plan* plan);

typedef struct attacca_tensor_info {
  const char* name;
  const char* dtype; /* "bf16" */
  const char* type;  /* "bf16[M, 4096]" */
  size_t rank;
  const char* const* shape; /* rank texts: "M", "4096", "2*M" */
} attacca_tensor_info;

ATTACCA_API size_t attacca_plan_input_count(const attacca_plan* plan);
ATTACCA_API attacca_status* attacca_plan_input(const attacca_plan* plan, size_t index,
                                               attacca_tensor_info* info);
ATTACCA_API size_t attacca_plan_output_count(const attacca_plan* plan);
ATTACCA_API attacca_status* attacca_plan_output(const attacca_plan* plan, size_t index,
                                                attacca_tensor_info* info);
/* Names of the sizes that attacca_plan_prepare takes. NULL: no such index. */
ATTACCA_API size_t attacca_plan_symbol_count(const attacca_plan* plan);
ATTACCA_API const char* attacca_plan_symbol(const attacca_plan* plan, size_t index);

/* The graph in the text form as it was compiled, before folding; what attacca_graph_text gives. */
ATTACCA_API attacca_status* attacca_plan_graph_text(const attacca_plan* plan, attacca_bytes** text);

/* Regions, epilogues, and the reasons why ops were left out. */
ATTACCA_API attacca_status* attacca_plan_explain_text(const attacca_plan* plan,
                                                      attacca_bytes** text);
ATTACCA_API attacca_status* attacca_plan_explain_json(const attacca_plan* plan,
                                                      attacca_bytes** json);
/* For Graphviz, with one cluster for each region. */
ATTACCA_API attacca_status* attacca_plan_explain_dot(const attacca_plan* plan, attacca_bytes** dot);

/* ---- Instances: a plan for certain sizes, ready to run. */

/* `sizes`: one of each symbol. `alignments`: bytes to which the addresses of the inputs, then of
 * the outputs, will be aligned (powers of two); none: 16 each. Runs require multiples of the
 * elements' sizes in any case. The first time for a shape kernels may be compiled, and measured
 * where the options say so. */
ATTACCA_API attacca_status* attacca_plan_prepare(const attacca_plan* plan,
                                                 const attacca_size* sizes, size_t count,
                                                 const int32_t* alignments, size_t alignment_count,
                                                 attacca_instance** instance);
/* The same for tensors with other strides than the plan's: `strides`, in elements, of the inputs,
 * then of the outputs, each an array of the tensor's rank or NULL for the plan's strides. Rows may
 * be parts of wider rows, matrices transposed, elements of inputs repeated (stride 0); elements of
 * an output must not overlap. Refused are negative strides and, on a GPU, strides of outputs that
 * no kernel can write. */
ATTACCA_API attacca_status* attacca_plan_prepare_strided(
    const attacca_plan* plan, const attacca_size* sizes, size_t count, const int32_t* alignments,
    size_t alignment_count, const int64_t* const* strides, size_t stride_count,
    attacca_instance** instance);
ATTACCA_API void attacca_instance_free(attacca_instance* instance);

/* Memory that a run needs on the device, aligned to 256 bytes. */
ATTACCA_API size_t attacca_instance_workspace(const attacca_instance* instance);
/* The extents of an input or output; NULL: no such index. Outputs are row-major unless the instance
   was prepared for other strides. */
ATTACCA_API const int64_t* attacca_instance_input_shape(const attacca_instance* instance,
                                                        size_t index, size_t* rank);
ATTACCA_API const int64_t* attacca_instance_output_shape(const attacca_instance* instance,
                                                         size_t index, size_t* rank);
/* The bytes that it spans; 0: no such index, or nothing in it. */
ATTACCA_API size_t attacca_instance_input_bytes(const attacca_instance* instance, size_t index);
ATTACCA_API size_t attacca_instance_output_bytes(const attacca_instance* instance, size_t index);

/* Addresses of all inputs and outputs in the plan's order, as the graph lays them out. On a GPU:
 * device addresses; puts the work on the stream (a CUstream or cudaStream_t; NULL: the default
 * one), allocates nothing, waits for nothing, may be captured; concurrent runs need separate
 * workspaces. On the CPU: host addresses, stream NULL; returns when it is done.
 *
 * Inputs may overlap each other. An output may overlap nothing: no input (no result is computed in
 * place), no other output, not the workspace; nor may an input overlap the workspace. Tensors that
 * lie in different columns of the same rows do not overlap. What overlaps is refused by a status
 * before anything is written. */
ATTACCA_API attacca_status* attacca_instance_run(const attacca_instance* instance,
                                                 const void* const* inputs, size_t input_count,
                                                 void* const* outputs, size_t output_count,
                                                 void* workspace, size_t workspace_bytes,
                                                 void* stream);

/* How a region is computed on a GPU. Its texts live as long as the instance, which may outlive the
 * plan. */
typedef struct attacca_decision {
  const char* candidate; /* "wgmma_tn_128x256x64_2x1_f1_d16 splits=2", "unfused algorithm=3" */
  /* "measured", "bundle", "plan", "database", "shipped", "model", "only way"; of a kernel of the
   * caller's own "analysis"; "fallback": the kernel that was chosen could not be made */
  const char* source;
  double seconds; /* where known, else 0 */
  double unfused_seconds;
} attacca_decision;

ATTACCA_API size_t attacca_instance_decision_count(const attacca_instance* instance);
ATTACCA_API attacca_status* attacca_instance_decision(const attacca_instance* instance,
                                                      size_t index, attacca_decision* decision);
/* How many regions the launch of this decision's region computes: products of one input may be
 * launched together. 1: it alone; 0: there is no such decision. */
ATTACCA_API int32_t attacca_instance_decision_together(const attacca_instance* instance,
                                                       size_t index);
/* Why it was not measured, or what failed; "": nothing did; NULL: there is no such decision. */
ATTACCA_API const char* attacca_instance_decision_remark(const attacca_instance* instance,
                                                         size_t index);
/* All decisions, with every candidate that was timed and every one that was left out. */
ATTACCA_API attacca_status* attacca_instance_decisions_json(const attacca_instance* instance,
                                                            attacca_bytes** json);

/* ---- Parts: a plan of one product, or gate, and what follows it, computed several times by one
 * launch on a GPU. Each part is read and written only when words in memory have a value: what a
 * copy engine, another GPU, NCCL or NVSHMEM writes when the part's operands are here. When a part's
 * results are written, the launch writes a word, for which a stream (cuStreamWaitValue32) or
 * another GPU's launch may wait. */

typedef struct attacca_parts attacca_parts;

typedef struct attacca_awaited {
  const uint32_t* word; /* on the device, or mapped there; NULL: nothing is awaited */
  uint32_t value;
  uint32_t most_ms; /* after which time the launch fails, as by a trap; 0: it waits forever */
  uint32_t count;   /* of words, one after the other, that all must have the value; 0 is 1 */
} attacca_awaited;

typedef struct attacca_reported {
  uint32_t* word;    /* on the device, or mapped there, another GPU's too; NULL: nothing */
  uint32_t* counter; /* on the device, 0 before the launch and behind it; blocks count there */
  uint32_t value;    /* what the word becomes */
} attacca_reported;

/* `sizes`, `alignments`: of each part, as attacca_plan_prepare takes them. `parts`: 2 to 8. The
 * cost model chooses the kernel, or a measurement now, if the plan is to be measured; kernels may
 * be compiled. Fails for other plans, and where no kernel computes several such products in one
 * launch. */
ATTACCA_API attacca_status* attacca_plan_prepare_parts(const attacca_plan* plan,
                                                       const attacca_size* sizes, size_t count,
                                                       const int32_t* alignments,
                                                       size_t alignment_count, size_t parts,
                                                       attacca_parts** made);
ATTACCA_API void attacca_parts_free(attacca_parts* parts);
/* As attacca_decision's; it lives as long as the parts. */
ATTACCA_API const char* attacca_parts_candidate(const attacca_parts* parts);
/* 1: an input may be NULL in any part, which then sees zeros. */
ATTACCA_API int32_t attacca_parts_input_may_be_null(const attacca_parts* parts, size_t input);
/* Device addresses of the plan's inputs and outputs, first those of the first part; parts may share
 * inputs. `awaited`, `reported`: one for each part, or none. What was written before a word is seen
 * by the part, and who sees a part's word sees its results. Puts the launch on the stream and waits
 * for nothing. Parts that are here come first: blocks of earlier parts start earlier, and those
 * that wait may fill the device, so that what writes the words must need no multiprocessor. */
ATTACCA_API attacca_status* attacca_parts_run(const attacca_parts* parts, const void* const* inputs,
                                              size_t input_count, void* const* outputs,
                                              size_t output_count, const attacca_awaited* awaited,
                                              size_t awaited_count,
                                              const attacca_reported* reported,
                                              size_t reported_count, void* stream);

/* ---- A GPU's memory, streams and events, for programs that hold tensors there without CUDA's own
 * headers. Addresses, streams and events are the driver's (CUdeviceptr, CUstream, CUevent). Any
 * number of threads may use one device; its primary context is current during the
 * calls, and what was current before is again afterwards. */

typedef struct attacca_device attacca_device;

/* How many GPUs the driver has. The status says why there is no driver. */
ATTACCA_API attacca_status* attacca_device_count(int32_t* count);
/* "cuda", "cuda:1" */
ATTACCA_API attacca_status* attacca_device_open(const char* device, attacca_device** opened);
/* What was made of it and not given back stays as long as the process uses the GPU. */
ATTACCA_API void attacca_device_free(attacca_device* device);
/* "NVIDIA H100 80GB HBM3" */
ATTACCA_API const char* attacca_device_name(const attacca_device* device);

/* Memory on the device, aligned to 256 bytes, and page-locked host memory. 0 bytes: NULL. Memory
 * that is given back must not be in use by work on a stream; NULL may be given back. */
ATTACCA_API attacca_status* attacca_device_allocate(const attacca_device* device, size_t bytes,
                                                    void** memory);
ATTACCA_API attacca_status* attacca_device_release(const attacca_device* device, void* memory);
ATTACCA_API attacca_status* attacca_device_allocate_host(const attacca_device* device, size_t bytes,
                                                         void** memory);
ATTACCA_API attacca_status* attacca_device_release_host(const attacca_device* device, void* memory);

/* Copies from host memory, to host memory, and on the device, in the order of the stream (NULL: the
 * default one). Page-locked host memory must stay until the stream has done it. */
ATTACCA_API attacca_status* attacca_device_upload(const attacca_device* device, void* to,
                                                  const void* from, size_t bytes, void* stream);
ATTACCA_API attacca_status* attacca_device_download(const attacca_device* device, void* to,
                                                    const void* from, size_t bytes, void* stream);
ATTACCA_API attacca_status* attacca_device_copy(const attacca_device* device, void* to,
                                                const void* from, size_t bytes, void* stream);

/* Waits for all work on the device. */
ATTACCA_API attacca_status* attacca_device_synchronize(const attacca_device* device);
/* A stream that does not wait for the default one. */
ATTACCA_API attacca_status* attacca_stream_create(const attacca_device* device, void** stream);
ATTACCA_API attacca_status* attacca_stream_destroy(const attacca_device* device, void* stream);
ATTACCA_API attacca_status* attacca_stream_synchronize(const attacca_device* device, void* stream);
/* What follows on the stream waits for the event. */
ATTACCA_API attacca_status* attacca_stream_wait(const attacca_device* device, void* stream,
                                                void* event);
/* What follows on the stream waits until the word, on the device, has the value: without an end of
 * its own. The word, on the device or another GPU's that is mapped there, gets the value, and who
 * sees it sees what the stream did before. Neither needs a multiprocessor; both may be captured in
 * a CUDA graph. */
ATTACCA_API attacca_status* attacca_stream_wait_value(const attacca_device* device, void* stream,
                                                      const uint32_t* word, uint32_t value);
ATTACCA_API attacca_status* attacca_stream_write_value(const attacca_device* device, void* stream,
                                                       uint32_t* word, uint32_t value);
ATTACCA_API attacca_status* attacca_event_create(const attacca_device* device, void** event);
ATTACCA_API attacca_status* attacca_event_destroy(const attacca_device* device, void* event);
ATTACCA_API attacca_status* attacca_event_record(const attacca_device* device, void* event,
                                                 void* stream);
ATTACCA_API attacca_status* attacca_event_synchronize(const attacca_device* device, void* event);

/* ---- Tuning by many processes (docs/cluster.md). JSON is what one of these functions gives and
 * another one takes; docs/cluster.md names its members. */

/* {"device", "capability", "tools"} of a GPU, "cuda" or "cuda:1": choices hold for GPUs of this
 * name and these versions. */
ATTACCA_API attacca_status* attacca_machine_json(const char* device, attacca_bytes** json);
/* The names of a graph's sizes, as a list in JSON. */
ATTACCA_API attacca_status* attacca_graph_symbols(const attacca_graph* graph, attacca_bytes** json);
/* The problems of a graph, one for each region that kernels are chosen for, without tuning them.
 * `device`: "cuda" or "cuda:1", or a GPU that need not be here, "h200" or "sm_90". mode: "fp32",
 * "eager", "fp32+batch_invariant" or "eager+batch_invariant"; NULL: "fp32". `sizes`: one of each
 * symbol. */
ATTACCA_API attacca_status* attacca_graph_problems(const attacca_graph* graph, const char* device,
                                                   const char* mode, const attacca_size* sizes,
                                                   size_t count, attacca_bytes** json);
/* Chooses the kernel of a problem, a member "text" of attacca_graph_problems, as a plan does, and
 * stores what was measured. tuning NULL: "measure"; seconds as attacca_options'
 * tuning_seconds. The member "choice" of the JSON is a row of the database. */
ATTACCA_API attacca_status* attacca_problem_tune(const char* problem, const char* device,
                                                 const char* tuning, double seconds,
                                                 attacca_bytes** json);
/* After attacca_workers_keep, the processes that time kernels serve later tunings, too, until
 * attacca_workers_release was called as often. That saves most of a second for each tuning. Each
 * process has a context on the GPU, which takes memory there. */
ATTACCA_API void attacca_workers_keep(void);
ATTACCA_API void attacca_workers_release(void);
/* All rows of the tuning database. */
ATTACCA_API attacca_status* attacca_choices_list(attacca_bytes** json);
/* Stores a list of rows in the database, all of them or none, whatever GPU they are of, in place of
 * those of equal keys. A row of a quick tuning does not replace one of a thorough tuning. count:
 * how many rows the list has, or NULL. */
ATTACCA_API attacca_status* attacca_choices_store(const char* json, int64_t* count);
/* attacca_choices_export for a GPU that need not be here, by its members "device" and "tools". The
 * templates here must be those of "tools". */
ATTACCA_API attacca_status* attacca_choices_write(const char* device, const char* tools,
                                                  const char* path, int64_t* count);

#ifdef __cplusplus
}
#endif

#endif /* ATTACCA_ATTACCA_H_ */
