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
  // Of the operands of a GEMM. A bf16 template serves f16 too, one of s8 u8, one of f8e4m3 f8e5m2:
  // the PTX differs in the types of its matrix instructions alone (see instantiate()).
  std::vector<ir::DType> input_types;
  bool mixed_inputs = false;  // A may be of another of these types than B
  bool b_first = false;       // its matrix instructions take B before A
  // The tensor cores alone sum products of 8-bit floats, and keep about 14 bits of a sum. Only
  // products that allow this may use the template.
  bool fast_accumulation = false;
  bool a_k_major = true;       // A's k axis is the contiguous one: (M, K) row-major
  bool b_k_major = true;       // B given as (N, K) row-major
  bool any_strides = false;    // takes A and B of any stride and alignment
  bool scaled_blocks = false;  // A and B have scales of blocks of 128 (fuse::BlockScales)
  // Of kernels whose B is a packed tensor (ir/packed/packed.hpp): bits of its codes, whether they
  // are f8e4m3, and bits of its scales. 0: a plain B.
  int packed_bits = 0;
  bool packed_floats = false;
  // Whether each weight is rounded to A's dtype. Otherwise weights are exact.
  bool packed_rounds = false;
  int packed_scale_bits = 0;
  bool alternate_columns = false;  // a gate whose weights are alternate columns of one (K, 2 N)
  // The kernel's: of a swapped template, m counts the problem's columns. A gate, whose hole has two
  // accumulator sets, multiplies the tile of A with two of B.
  Tile tile;
  int cluster_m = 1, cluster_n = 1, cluster_k = 1;  // blocks; those along k share a tile
  Schedule schedule = Schedule::Cooperative;
  bool stream_k = false;  // `splits` means something
  // Waits by itself for what the kernel before it in the stream writes (griddepcontrol.wait), so it
  // may be launched while that one ends.
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

// Whether the template's products are of operands of this dtype, among others.
bool takes(const Template& kernel, ir::DType dtype);

// The template's PTX for operands of these dtypes.
Result<std::string> instantiate(const Template& kernel, ir::DType a, ir::DType b);

}  // namespace attacca::templates
