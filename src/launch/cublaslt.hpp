// cuBLASLt, opened at run time. It computes the products of the unfused path, against which every
// candidate is measured.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver/device.hpp"
#include "problem/problem.hpp"

namespace attacca::launch {

// The library and a handle on one device. Thread-safe.
class CublasLt {
 public:
  // The same handle for a device each time. It and the device's context are kept until the process
  // ends: cublasLtDestroy synchronises the context (seen with CUDA 13.0), which breaks every
  // capture of a stream into a CUDA graph, whatever its mode. Python's collector may destroy a plan
  // in one.
  //
  // Errors: no library on this machine (with the package that has it), no handle.
  static Result<std::shared_ptr<const CublasLt>> open(const gpu::Device& device);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  struct Functions;
  const Functions& functions() const { return *functions_; }
  const gpu::Device& device() const { return device_; }
  void* handle() const { return handle_; }
  size_t version() const;
  const std::string& path() const { return path_; }

 private:
  explicit CublasLt(gpu::Device device) : device_(std::move(device)) {}
  static Result<std::shared_ptr<const CublasLt>> make(const gpu::Device& device,
                                                      const gpu::Library& library);

  gpu::Device device_;
  std::shared_ptr<const Functions> functions_;
  std::string path_;
  void* handle_ = nullptr;
};

// What the library computes in f32 for each element before it rounds and stores it.
enum class VendorTail : uint8_t {
  None,
  Bias,          // + bias[column], of d's dtype
  BiasGeluTanh,  // gelu_tanh(... + bias[column])
};

// D [m, n] = A x B, D row-major with rows `d.row_stride` apart.
struct Multiplication {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  problem::View a, b, d;
  VendorTail tail = VendorTail::None;
  int bias_alignment = 16;  // bytes
  bool fast = false;        // 8-bit floats: as ir::MatMulAttrs::fast
  bool scaled = false;      // 8-bit floats whose blocks have scales, as vendor_takes_scales says
};

// Whether the library can read an operand without a copy: one stride is 1, the other at least the
// extent.
bool vendor_takes(const problem::View& view, int64_t rows, int64_t columns);
// The scales of blocks of A [m, k] and of B as the library reads them: those of A follow each other
// along m, those of B along k, in columns that are padded to a multiple of 4.
struct VendorScaleLayout {
  int64_t blocks;           // along k
  int64_t b_column_stride;  // in scales
};
// nullopt: the library takes no scales with this m, which is not in steps of 16 bytes.
std::optional<VendorScaleLayout> vendor_scale_layout(int64_t m, int64_t k);
// Whether it can read the scales without a copy.
bool vendor_takes_scales(const problem::ScaleOperands<problem::View>& scales, int64_t m, int64_t k);
// Whether it multiplies these dtypes exactly as the numerics contract says. For bytes, both
// operands must be contiguous along k.
bool vendor_multiplies(ir::DType a, ir::DType b, ir::DType d);

// With less workspace, the heuristics propose other algorithms, not only fewer.
struct WorkspaceLimit {
  size_t bytes;
  int most_algorithms;
};

// cublasLtMatmulAlgoConfigAttributes_t, in its order.
inline constexpr std::string_view kVendorConfig[] = {"id",        "tile",        "splits",
                                                     "reduction", "swizzle",     "custom",
                                                     "stages",    "inner_shape", "cluster_shape"};

// A proposal of the library's heuristics, in the library's own numbers.
struct VendorAlgorithm {
  std::array<int, std::size(kVendorConfig)> config;  // -1: the library does not tell
  double waves = 0;
  size_t workspace_bytes = 0;
  std::vector<int> places;  // among the proposals for each WorkspaceLimit; -1: not among them
};

// One multiplication, with the algorithms that the library's heuristics propose: those for the
// first limit, best first, then those that each other limit adds.
class VendorGemm {
 public:
  // Errors: dtypes or layouts that the library refuses, no algorithm.
  // REQUIRES: m, n, k, batch > 0; vendor_takes of a and b.
  static Result<VendorGemm> make(std::shared_ptr<const CublasLt> library,
                                 const Multiplication& problem,
                                 std::span<const WorkspaceLimit> limits);

  int algorithms() const { return static_cast<int>(algorithms_.size()); }
  VendorAlgorithm describe(int algorithm) const;
  size_t workspace_bytes(int algorithm) const { return algorithms_[algorithm].workspace_bytes; }
  // Other addresses that a launch reads; null if there are none.
  struct Extras {
    const void* bias = nullptr;
    const void *scales_a = nullptr, *scales_b = nullptr;
  };
  // Pointers are of the first elements (View::offset applied). No allocation, no synchronisation.
  Status launch(int algorithm, const void* a, const void* b, const Extras& extras, void* d,
                void* workspace, gpu::StreamHandle stream) const;

 private:
  struct Algorithm {
    std::array<uint64_t, 8> data;
    size_t workspace_bytes;
    double waves;
    std::vector<int> places;
  };
  struct Descriptors;

  VendorGemm() = default;
  // The algorithm, added if it is new.
  Algorithm& add(Algorithm proposed);

  std::shared_ptr<const CublasLt> library_;
  std::shared_ptr<Descriptors> descriptors_;
  std::vector<Algorithm> algorithms_;
};

}  // namespace attacca::launch
