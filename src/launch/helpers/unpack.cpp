#include "launch/helpers/unpack.hpp"

#include "fmt/format.h"

#include "launch/helpers/device_types.hpp"

namespace attacca::launch {
namespace {

// Text in front of it defines SCALE, ROUNDED and STORED, structs of dtypes, BITS, the bits of a
// code, FLOATS, whether codes are f8e4m3, and WHOLE, whether scales are u8.
constexpr const char* kSource = R"cuda(
struct Layout {
  s64 n, k, blocks_n, blocks_k, groups, scales_at, zeros_at;
  int group, zero, has_zeros, unused;
};

// Two neighbours of a row; the second may be beyond its end. `pairs`: both are stored at once.
__device__ void keep(STORED::Memory* to, bool pairs, s64 at, bool second, double x, double y) {
  const STORED::Memory first = STORED::store(ROUNDED::load(ROUNDED::store(x)));
  const STORED::Memory other = STORED::store(ROUNDED::load(ROUNDED::store(y)));
  if (sizeof(first) == 2 && pairs) {
    *(unsigned*)(to + at) = *(const u16*)&first | (unsigned)*(const u16*)&other << 16;
  } else {
    to[at] = first;
    if (second) to[at + 1] = other;
  }
}

// Weights may begin at any byte.
__device__ float scale_at(const u8* packed, s64 at) {
  SCALE::Memory scale;
  for (int i = 0; i < sizeof(scale); ++i) ((u8*)&scale)[i] = packed[at + i];
  return (float)SCALE::load(scale);
}

// The first of two neighbouring values of k, in its block, of a lane's part; there are eight parts.
__device__ int first_k(int lane, int part) {
  if (WHOLE) return part / 4 * 32 + part / 2 % 2 * 16 + lane % 4 * 4 + part % 2 * 2;
  return part * 8 + lane % 4 * 2;  // of 16 values of k the lower and the upper eight
}

// The code of such a value of k in the fragment's lower or upper (`high`) rows.
__device__ int code_of(const u8* codes, int lane, int part, int second, int high) {
  if (WHOLE) return codes[lane * 16 + part * 2 + second] >> (high * 4) & 15;
  const int pair = high + part % 2 * 2;
  if (BITS == 8)
    return codes[part / 4 * 512 + lane * 16 + part / 2 % 2 * 8 + pair * 2 + second];
  const int nibble = pair + second * 4;
  return codes[lane * 16 + part / 2 * 4 + nibble / 2] >> (nibble % 2 * 4) & 15;
}

// ir/packed/packed.hpp describes the layout. A thread decodes one lane's codes of one fragment.
extern "C" __global__ void __launch_bounds__(256)
attacca_unpack(const u8* packed, STORED::Memory* to, Layout p) {
  const s64 count = p.blocks_n * p.blocks_k * 128;
  const bool pairs = p.k % 2 == 0 && (unsigned long long)to % 4 == 0;
  for (s64 i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    const int lane = i % 32, fragment = i / 32 % 4;
    const s64 block = i / 128, block_n = block / p.blocks_k, block_k = block % p.blocks_k;
    const int group = p.group ? (int)(block_k * 64 / p.group) : 0;
    const s64 entry = (block_n * p.groups + group) * 64 + lane / 4 * 8 + fragment * 2;
    const u8* codes = packed + 256 + i / 32 * (BITS * 128);
    for (int high = 0; high < 2; ++high) {
      const s64 n = block_n * 64 + fragment * 16 + lane / 4 + high * 8;
      if (n >= p.n) break;
      const s64 own = p.scales_at + (entry + high) * sizeof(SCALE::Memory);
      const float scale = scale_at(packed, own);
      const int zero = p.has_zeros ? packed[p.zeros_at + entry + high] : p.zero;
      for (int part = 0; part < 8; ++part) {
        const s64 k = block_k * 64 + first_k(lane, part);
        if (k >= p.k) break;
        float value[2];
        for (int second = 0; second < 2; ++second) {
          const int code = code_of(codes, lane, part, second, high);
          value[second] = (FLOATS ? (float)F8E4M3::load((u8)code) : (float)(code - zero)) * scale;
        }
        keep(to, pairs, n * p.k + k, k + 1 < p.k, value[0], value[1]);
      }
    }
  }
}
)cuda";

struct Parameters {
  long long n, k, blocks_n, blocks_k, groups, scales_at, zeros_at;
  int group, zero, has_zeros, unused;
};

Parameters parameters_of(const ir::PackedLayout& layout) {
  return {layout.n,
          layout.k,
          layout.blocks_n(),
          layout.blocks_k(),
          layout.groups,
          layout.scales_at,
          layout.zeros_at,
          static_cast<int>(layout.packing.group),
          layout.zero(),
          layout.packing.zeros,
          0};
}

}  // namespace

Result<Unpack> Unpack::make(const std::shared_ptr<Toolbox>& toolbox, const ir::PackedLayout& layout,
                            ir::DType rounded, ir::DType stored) {
  ATTACCA_TRY(const DeviceType scale, device_type(layout.packing.scales));
  ATTACCA_TRY(const DeviceType to, device_type(stored));
  ATTACCA_TRY(const DeviceType through, device_type(rounded));
  const std::string source = fmt::format(
      "typedef {} SCALE;\ntypedef {} ROUNDED;\ntypedef {} STORED;\n"
      "#define BITS {}\n#define FLOATS {}\n#define WHOLE {}\n{}",
      scale.name, through.name, to.name, layout.packing.bits,
      ir::is_float(layout.packing.weights) ? 1 : 0, layout.packing.whole() ? 1 : 0, kSource);
  ATTACCA_TRY(SourceKernel kernel, SourceKernel::make(toolbox, "attacca_unpack", source));
  return Unpack(std::move(kernel), layout);
}

Status Unpack::launch(const void* packed, void* to, gpu::StreamHandle stream) const {
  const Parameters numbers = parameters_of(layout_);
  const int64_t count = numbers.blocks_n * numbers.blocks_k * 128;
  const int64_t threads = SourceKernel::kThreads;
  return kernel_.launch({kernel_.blocks((count + threads - 1) / threads), 1, 1}, stream, packed, to,
                        numbers);
}

}  // namespace attacca::launch
