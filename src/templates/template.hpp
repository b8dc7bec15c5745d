// One kernel template: its metadata, its PTX and its host-side builder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "epilogue/hole.hpp"
#include "ir/graph/dtype.hpp"
#include "support/error.hpp"
#include "templates/abi.h"
#include "templates/schedule.hpp"

namespace attacca::templates {

enum class Family : uint8_t {
  Gemm,       // one product
  Pointwise,  // no product: grid-stride over elements
};

struct Tile {
  int m = 0, n = 0, k = 0;
  friend bool operator==(const Tile&, const Tile&) = default;
};

struct Template {
  std::string name;  // cutlass_tn_128x256x64_2x1_coop_f1
  Family family = Family::Gemm;
  std::string arch;                            // the .target of its PTX: sm_90a, sm_80
  int min_capability = 0, max_capability = 0;  // devices: 90..90 for sm_90a, 80..999 for sm_80
  // Devices of this compute capability run it only where its name is given (0: there are none),
  // because they have better templates of the kind or it has not been measured there.
  int only_named_on = 0;
  // The types of a GEMM's operands. A template for bf16 serves f16 too, one for s8 u8, and one for
  // f8e4m3 f8e5m2: only the types in its matrix instructions differ (instantiate()).
  std::vector<ir::DType> input_types;
  bool mixed_inputs = false;  // A may be of another of these types than B
  bool b_first = false;       // its matrix instructions take B before A
  // Products of 8-bit floats are summed by the tensor cores alone, which keep about 14 bits of a
  // sum. Only products that allow this (fast=true) use the template.
  bool fast_accumulation = false;
  bool a_k_major = true;       // A's k axis is the contiguous one: (M, K) row-major
  bool b_k_major = true;       // B given as (N, K) row-major
  bool any_strides = false;    // takes A and B of any stride and alignment
  bool scaled_blocks = false;  // A and B have scales of blocks of 128 (fuse::BlockScales)
  // For a packed B (ir/packed/packed.hpp): bits of its codes (0: B is not packed), whether they are
  // f8e4m3, and bits of its scales.
  int packed_bits = 0;
  bool packed_floats = false;
  // Whether each unpacked weight is rounded to A's dtype. Otherwise weights are exact.
  bool packed_rounds = false;
  int packed_scale_bits = 0;
  bool widened = false;            // B is s8 or u8, widened to A's dtype
  bool grouped = false;            // multiplies each group of A's rows by its own matrix
  bool gathered = false;           // reads A's rows by an index
  int row_step = 0;                // it multiplies multiples of a group's last rows; 0: whole tiles
  int code_bits = 0;               // not 0: B is weights in codes (ir/interpret/codes.hpp)
  bool code_floats = false;        // of MXFP4; else integers
  bool alternate_columns = false;  // a gate whose weights are alternate columns of one (K, 2 N)
  // The kernel's tile: in a swapped template, m counts the problem's columns. A gate, whose hole
  // has two accumulator sets, multiplies a tile of A by two of B.
  Tile tile;
  int cluster_m = 1, cluster_n = 1, cluster_k = 1;  // blocks; those along k share a tile
  Schedule schedule = Schedule::Cooperative;
  bool stream_k = false;  // takes attacca_gemm_arguments::splits
  // The kernel itself waits for what the previous one in the stream writes (griddepcontrol.wait),
  // so it may be launched while that one ends.
  bool dependent_launch = false;
  int stages = 0;
  int threads = 0;
  int shared_bytes = 0;
  int align_a = 16, align_b = 16, align_d = 16;  // bytes, of pointers and strides
  epilogue::HoleSignature hole;
  std::string kernel;        // the entry's name in the PTX
  std::string path;          // of the PTX
  uint64_t fingerprint = 0;  // of its metadata and the size of its PTX
  const attacca_template_entry* builder = nullptr;
  friend bool operator==(const Template&, const Template&) = default;
};

// Whether the template can multiply operands of this dtype.
bool takes(const Template& kernel, ir::DType dtype);

// The template's PTX for operands of these dtypes.
Result<std::string> instantiate(const Template& kernel, ir::DType a, ir::DType b);

}  // namespace attacca::templates
