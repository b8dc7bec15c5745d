// A template's record: its metadata and its builder's functions. Each builder object defines one
// with ATTACCA_RECORD; the build lists all of them in registry.cpp, and describe.cpp writes their
// metadata to files.
#pragma once

#include <cstddef>

#include "abi.h"

// From a row's DEFINES: the compute capability of devices that run the template only if it is
// named.
#ifndef ONLY_NAMED_ON
#define ONLY_NAMED_ON 0
#endif

// The metadata, as templates/template.hpp explains it. -1 ends a list of bits.
struct attacca_info {
  const char* family = "gemm";  // "gemm", "pointwise"
  const char* arch = "";        // "sm_90a", "sm_80"
  int min_capability = 0, max_capability = 999, only_named_on = ONLY_NAMED_ON;
  const char* input_types[4] = {};  // "bf16", "f16"; nullptr ends
  bool mixed_inputs = false, b_first = false, fast_accumulation = false;
  bool a_k_major = true, b_k_major = true, any_strides = false;
  bool alternate_columns = false, scaled_blocks = false;
  int packed_bits = 0, packed_scale_bits = 0;
  bool packed_floats = false, packed_rounds = false;
  bool widened = false, grouped = false, gathered = false;
  int code_bits = 0;
  bool code_floats = false;
  int row_step = 0;
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int cluster_m = 1, cluster_n = 1, cluster_k = 1;
  const char* schedule = "";
  bool stream_k = false;
  bool dependent_launch = false;
  int stages = 0, threads = 0, shared_bytes = 0;
  int align_a = 16, align_b = 16, align_d = 16;
  // The hole.
  int accumulators = 1;
  const char* accumulator_type = "f32";
  int full_bits[5] = {-1, -1, -1, -1, -1};
  int rows = 0, columns = 0;
  int result_bits[3] = {-1, -1, -1};
  int maxima = 0;
  bool swapped = false;
};

struct attacca_record {
  attacca_template_entry entry;
  attacca_info (*info)();
};

// The records of all templates of the build. The generated registry.cpp defines both.
extern const attacca_record* const attacca_records[];
extern const int attacca_record_count;

// cuTensorMapEncodeTiled, as given to attacca_templates_open; NULL until then.
extern void* attacca_encode_tiled;

#define ATTACCA_PASTE_(a, b) a##b
#define ATTACCA_PASTE(a, b) ATTACCA_PASTE_(a, b)
#define ATTACCA_TEXT_(a) #a
#define ATTACCA_TEXT(a) ATTACCA_TEXT_(a)

// Defines the template's record. Params: the type of the kernel's only parameter. `info` returns
// the metadata; the other functions are those of attacca_template_entry.
#define ATTACCA_RECORD(Params, info, check, workspace, build)                                     \
  extern "C" const attacca_record ATTACCA_PASTE(attacca_record_, ATTACCA_TEMPLATE);               \
  extern "C" const attacca_record ATTACCA_PASTE(attacca_record_, ATTACCA_TEMPLATE) = {            \
      {ATTACCA_TEXT(ATTACCA_TEMPLATE), sizeof(Params), alignof(Params), check, workspace, build}, \
      info}
