// cuBLASLt by our own declarations of cublasLt.h (CUDA 12 and 13), so that no CUDA header is
// needed.
#include "launch/cublaslt.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "fmt/format.h"

#include "gpu/driver/library.hpp"

namespace attacca::launch {
namespace {

using ir::DType;

// Attributes of a matmul descriptor.
constexpr int kTransA = 3, kTransB = 4;
constexpr int kEpilogue = 7, kBiasPointer = 8, kFastAccumulation = 25;
// Attributes of a layout.
constexpr int kBatchCount = 5, kBatchOffset = 6;
// Attributes of a preference. The alignments of B, C and D follow A's.
constexpr int kMaxWorkspace = 1, kReductionMask = 3, kMinAlignmentA = 5;
constexpr int kTranspose = 1;
constexpr int kCompute32F = 68, kCompute64F = 70, kCompute32I = 72;

// cublasLtMatmulDescAttributes_t and cublasLtMatmulMatrixScale_t of scales.
constexpr int kScalePointerA = 17, kScalePointerB = 18, kScaleModeA = 31, kScaleModeB = 32;
constexpr int32_t kBlocks128 = 4, kBlocks128x128 = 5;

// The bytes of kVendorConfig's values, on a little-endian host.
constexpr size_t kConfigBytes[] = {4, 4, 4, 4, 4, 4, 4, 2, 2};
constexpr size_t kSplits = 2;  // its place in kVendorConfig

// cublasLtEpilogue_t, in the order of VendorTail.
constexpr uint32_t kEpilogues[] = {1, 4, 36};

struct HeuristicResult {
  std::array<uint64_t, 8> algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

// A type of product as cuBLASLt names it: inputs, result, cublasComputeType_t, cudaDataType of
// scales.
struct Arithmetic {
  DType a, b, result;
  int compute;
  int scale;
};
constexpr int kReal32F = 0, kReal64F = 1, kReal32I = 10;
constexpr Arithmetic kArithmetics[] = {
    {DType::BF16, DType::BF16, DType::BF16, kCompute32F, kReal32F},
    {DType::BF16, DType::BF16, DType::F32, kCompute32F, kReal32F},
    {DType::F16, DType::F16, DType::F16, kCompute32F, kReal32F},
    {DType::F16, DType::F16, DType::F32, kCompute32F, kReal32F},
    {DType::F32, DType::F32, DType::F32, kCompute32F, kReal32F},
    {DType::F64, DType::F64, DType::F64, kCompute64F, kReal64F},
    {DType::S8, DType::S8, DType::S32, kCompute32I, kReal32I},
    {DType::F8E4M3, DType::F8E4M3, DType::BF16, kCompute32F, kReal32F},
    {DType::F8E4M3, DType::F8E4M3, DType::F16, kCompute32F, kReal32F},
    {DType::F8E4M3, DType::F8E4M3, DType::F32, kCompute32F, kReal32F},
    {DType::F8E4M3, DType::F8E5M2, DType::BF16, kCompute32F, kReal32F},
    {DType::F8E4M3, DType::F8E5M2, DType::F16, kCompute32F, kReal32F},
    {DType::F8E4M3, DType::F8E5M2, DType::F32, kCompute32F, kReal32F},
    {DType::F8E5M2, DType::F8E4M3, DType::BF16, kCompute32F, kReal32F},
    {DType::F8E5M2, DType::F8E4M3, DType::F16, kCompute32F, kReal32F},
    {DType::F8E5M2, DType::F8E4M3, DType::F32, kCompute32F, kReal32F},
};

const Arithmetic* arithmetic_of(DType a, DType b, DType d) {
  for (const Arithmetic& entry : kArithmetics)
    if (entry.a == a && entry.b == b && entry.result == d) return &entry;
  return nullptr;
}

int data_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 0;
    case DType::F64:
      return 1;
    case DType::F16:
      return 2;
    case DType::S8:
      return 3;
    case DType::S32:
      return 10;
    case DType::BF16:
      return 14;
    case DType::F8E4M3:
      return 28;
    case DType::F8E5M2:
      return 29;
    default:
      return -1;
  }
}

bool is_row_major(const problem::View& view, int64_t rows, int64_t columns) {
  return (view.column_stride == 1 || columns == 1) && (view.row_stride >= columns || rows == 1) &&
         view.row_stride >= 0;
}

}  // namespace

struct CublasLt::Functions {
  int (*create)(void**);
  size_t (*version)();
  const char* (*status_string)(int);
  int (*desc_create)(void**, int, int);
  int (*desc_destroy)(void*);
  int (*desc_set)(void*, int, const void*, size_t);
  int (*layout_create)(void**, int, uint64_t, uint64_t, int64_t);
  int (*layout_destroy)(void*);
  int (*layout_set)(void*, int, const void*, size_t);
  int (*preference_create)(void**);
  int (*preference_destroy)(void*);
  int (*preference_set)(void*, int, const void*, size_t);
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, HeuristicResult*, int*);
  int (*config_get)(const void*, int, void*, size_t, size_t*);
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                const void*, void*, void*, void*, const void*, void*, size_t, gpu::StreamHandle);

  Status check(int status, const char* call) const {
    if (status == 0) return {};
    return fail(fmt::format("{}: {}", call, status_string(status)), "cuBLASLt");
  }
};

Result<std::shared_ptr<const CublasLt>> CublasLt::open(const gpu::Device& device) {
  ATTACCA_TRY(const gpu::Library library, gpu::Library::open(gpu::kCublasLtLibrary));
  using Key = std::pair<gpu::ContextHandle, std::string>;
  static std::mutex mutex;
  static auto& opened = *new std::map<Key, std::shared_ptr<const CublasLt>>;  // never freed
  const std::lock_guard lock(mutex);
  auto& known = opened[{device.context(), library.path()}];
  if (!known) {
    ATTACCA_TRY(known, make(device, library));
  }
  return known;
}

Result<std::shared_ptr<const CublasLt>> CublasLt::make(const gpu::Device& device,
                                                       const gpu::Library& library) {
  std::shared_ptr<CublasLt> made(new CublasLt(device));
  made->path_ = library.path();
  auto functions = std::make_shared<Functions>();
  Functions& f = *functions;
  ATTACCA_TRY_VOID(library.resolve({{"cublasLtCreate", f.create},
                                    {"cublasLtGetVersion", f.version},
                                    {"cublasLtGetStatusString", f.status_string},
                                    {"cublasLtMatmulDescCreate", f.desc_create},
                                    {"cublasLtMatmulDescDestroy", f.desc_destroy},
                                    {"cublasLtMatmulDescSetAttribute", f.desc_set},
                                    {"cublasLtMatrixLayoutCreate", f.layout_create},
                                    {"cublasLtMatrixLayoutDestroy", f.layout_destroy},
                                    {"cublasLtMatrixLayoutSetAttribute", f.layout_set},
                                    {"cublasLtMatmulPreferenceCreate", f.preference_create},
                                    {"cublasLtMatmulPreferenceDestroy", f.preference_destroy},
                                    {"cublasLtMatmulPreferenceSetAttribute", f.preference_set},
                                    {"cublasLtMatmulAlgoGetHeuristic", f.heuristic},
                                    {"cublasLtMatmulAlgoConfigGetAttribute", f.config_get},
                                    {"cublasLtMatmul", f.matmul}}));
  const gpu::Current current(device);
  ATTACCA_TRY_VOID(current.entered());
  const gpu::OutsideCapture outside(device);
  ATTACCA_TRY_VOID(f.check(f.create(&made->handle_), "cublasLtCreate"));
  made->functions_ = std::move(functions);
  return made;
}

size_t CublasLt::version() const {
  return functions_->version();
}

bool vendor_takes(const problem::View& view, int64_t rows, int64_t columns) {
  problem::View transposed = view;
  std::swap(transposed.row_stride, transposed.column_stride);
  return is_row_major(view, rows, columns) || is_row_major(transposed, columns, rows);
}

std::optional<VendorScaleLayout> vendor_scale_layout(int64_t m, int64_t k) {
  if (m % 4 != 0) return std::nullopt;
  const int64_t blocks = problem::scale_blocks(k);
  return VendorScaleLayout{blocks, (blocks + 3) / 4 * 4};
}

bool vendor_takes_scales(const problem::ScaleOperands<problem::View>& scales, int64_t m,
                         int64_t k) {
  const auto layout = vendor_scale_layout(m, k);
  return layout && scales.a.row_stride == 1 &&
         (layout->blocks == 1 || scales.a.column_stride == m) && scales.b.row_stride == 1 &&
         scales.b.column_stride == layout->b_column_stride && scales.a.alignment >= 16 &&
         scales.b.alignment >= 16;
}

bool vendor_multiplies(DType a, DType b, DType d) {
  return arithmetic_of(a, b, d) != nullptr;
}

namespace {

// What the heuristics may propose for a product.
class Preference {
 public:
  static Result<Preference> make(const CublasLt::Functions& f, const Multiplication& problem) {
    void* created = nullptr;
    ATTACCA_TRY_VOID(f.check(f.preference_create(&created), "cublasLtMatmulPreferenceCreate"));
    Preference made(f, created);
    // cublasLtReductionScheme_t: COMPUTE_TYPE alone where D is narrower than the sums, as the
    // others add up the parts of a split K in D's dtype.
    const uint32_t reductions = ir::size_of(problem.d.dtype) < 4 ? 2 : 1 | 2 | 4;
    ATTACCA_TRY_VOID(made.set(kReductionMask, reductions, "reductions"));
    const problem::View* operands[] = {&problem.b, &problem.a, &problem.d, &problem.d};
    for (int i = 0; i < 4; ++i) {
      const auto alignment = static_cast<uint32_t>(operands[i]->alignment);
      ATTACCA_TRY_VOID(made.set(kMinAlignmentA + i, alignment, "alignment"));
    }
    return made;
  }

  Status limit_workspace(size_t bytes) { return set(kMaxWorkspace, bytes, "workspace preference"); }
  void* get() const { return preference_.get(); }

 private:
  struct Destroy {
    const CublasLt::Functions* functions;
    void operator()(void* preference) const { functions->preference_destroy(preference); }
  };

  Preference(const CublasLt::Functions& f, void* created) : preference_(created, Destroy{&f}) {}

  template <class Value>
  Status set(int attribute, const Value& value, const char* name) {
    const CublasLt::Functions& f = *preference_.get_deleter().functions;
    return f.check(f.preference_set(get(), attribute, &value, sizeof value), name);
  }

  std::unique_ptr<void, Destroy> preference_;
};

// -1: the library does not tell.
int config_of(const CublasLt::Functions& f, const void* algorithm, size_t attribute) {
  int value = 0;
  size_t written = 0;
  const int status = f.config_get(algorithm, static_cast<int>(attribute), &value,
                                  kConfigBytes[attribute], &written);
  return status == 0 ? value : -1;
}

// Whether an algorithm that splits K leaves elements out. cuBLASLt 13.1's kernels for Hopper deal
// out K in blocks of 128 bytes for each part, and what is left in equal shares, rounded down: fewer
// elements than parts are lost. 8 x 576 x 12808 in 10 parts has 8 left; PyTorch's result is wrong.
bool loses_elements(const CublasLt::Functions& f, const HeuristicResult& proposed,
                    const Multiplication& problem) {
  const int64_t parts = config_of(f, proposed.algorithm.data(), kSplits);
  if (parts <= 1) return false;
  const int64_t left = problem.k % (128 / ir::size_of(problem.a.dtype) * parts);
  return 0 < left && left < parts;
}

}  // namespace

// The library's matrices are column-major, so it computes D^T [n, m] = B^T [n, k] x A^T [k, m]: its
// A is our B.
struct VendorGemm::Descriptors {
  std::shared_ptr<const CublasLt> library;
  void* operation = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* d = nullptr;
  bool integer = false, wide = false;
  // The extras are attributes of the descriptor, so one launch at a time sets and uses them.
  std::mutex extras;

  explicit Descriptors(std::shared_ptr<const CublasLt> from) : library(std::move(from)) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    const CublasLt::Functions& f = library->functions();
    if (operation != nullptr) f.desc_destroy(operation);
    for (void* layout : {a, b, d})
      if (layout != nullptr) f.layout_destroy(layout);
  }

  static Result<std::shared_ptr<Descriptors>> make(std::shared_ptr<const CublasLt> library,
                                                   const Multiplication& problem) {
    const Arithmetic* arithmetic = arithmetic_of(problem.a.dtype, problem.b.dtype, problem.d.dtype);
    if (arithmetic == nullptr)
      return fail(fmt::format("cuBLASLt does not multiply {} by {} into {}", name(problem.a.dtype),
                              name(problem.b.dtype), name(problem.d.dtype)),
                  "cuBLASLt");
    const auto made = std::make_shared<Descriptors>(std::move(library));
    const CublasLt::Functions& f = made->library->functions();
    ATTACCA_TRY_VOID(
        f.check(f.desc_create(&made->operation, arithmetic->compute, arithmetic->scale),
                "cublasLtMatmulDescCreate"));
    made->integer = arithmetic->scale == kReal32I;
    made->wide = arithmetic->scale == kReal64F;
    ATTACCA_TRY_VOID(made->set_layouts(problem));
    ATTACCA_TRY_VOID(made->set_arithmetic(problem));
    ATTACCA_TRY_VOID(made->set_tail(problem));
    return made;
  }

  template <class Value>
  Status set(int attribute, const Value& value, const char* name) {
    const CublasLt::Functions& f = library->functions();
    return f.check(f.desc_set(operation, attribute, &value, sizeof value), name);
  }

  Status set_bias(const void* address) { return set(kBiasPointer, address, "bias"); }

  Status set_scales(const void* of_a, const void* of_b) {
    ATTACCA_TRY_VOID(set(kScalePointerA, of_b, "scales"));
    return set(kScalePointerB, of_a, "scales");
  }

  Status set_layouts(const Multiplication& problem) {
    const int64_t m = problem.m, n = problem.n, k = problem.k, batch = problem.batch;
    ATTACCA_TRY_VOID(set_operand(&a, kTransA, problem.b, k, n, batch));
    ATTACCA_TRY_VOID(set_operand(&b, kTransB, problem.a, m, k, batch));
    return set_layout(&d, problem.d, n, m, std::max(problem.d.row_stride, n), batch);
  }

  // An operand `rows` x `columns` of ours: theirs is its transpose, taken as it lies when ours is
  // row-major, transposed once more when ours is column-major.
  Status set_operand(void** layout, int transpose_attribute, const problem::View& view,
                     int64_t rows, int64_t columns, int64_t batch) {
    if (is_row_major(view, rows, columns))
      return set_layout(layout, view, columns, rows, std::max(view.row_stride, columns), batch);
    ATTACCA_TRY_VOID(set(transpose_attribute, int32_t{kTranspose}, "transpose"));
    return set_layout(layout, view, rows, columns, std::max(view.column_stride, rows), batch);
  }

  Status set_layout(void** layout, const problem::View& view, uint64_t rows, uint64_t columns,
                    int64_t leading, int64_t batch) {
    const CublasLt::Functions& f = library->functions();
    ATTACCA_TRY_VOID(f.check(f.layout_create(layout, data_type(view.dtype), rows, columns, leading),
                             "cublasLtMatrixLayoutCreate"));
    if (batch == 1) return {};
    const auto count = static_cast<int32_t>(batch);
    ATTACCA_TRY_VOID(
        f.check(f.layout_set(*layout, kBatchCount, &count, sizeof count), "batch count"));
    return f.check(f.layout_set(*layout, kBatchOffset, &view.batch_stride, sizeof(int64_t)),
                   "batch offset");
  }

  Status set_arithmetic(const Multiplication& problem) {
    if (ir::is_fp8(problem.a.dtype))
      ATTACCA_TRY_VOID(set(kFastAccumulation, int8_t{problem.fast}, "fast accumulation"));
    if (!problem.scaled) return {};
    ATTACCA_TRY_VOID(set(kScaleModeA, kBlocks128x128, "scales of blocks"));
    ATTACCA_TRY_VOID(set(kScaleModeB, kBlocks128, "scales of blocks"));
    // The heuristics do not read the scales, but require an address.
    const auto* some = reinterpret_cast<const void*>(intptr_t{16});
    return set_scales(some, some);
  }

  Status set_tail(const Multiplication& problem) {
    if (problem.tail == VendorTail::None) return {};
    const uint32_t epilogue = kEpilogues[static_cast<size_t>(problem.tail)];
    ATTACCA_TRY_VOID(set(kEpilogue, epilogue, "epilogue"));
    // The heuristics do not read the bias; they take its alignment from the address.
    return set_bias(reinterpret_cast<const void*>(intptr_t{problem.bias_alignment}));
  }

  // The heuristics' proposals, best first.
  Result<std::vector<HeuristicResult>> propose(const Preference& preference, int most) const {
    const CublasLt::Functions& f = library->functions();
    std::vector<HeuristicResult> found(static_cast<size_t>(most));
    int count = 0;
    ATTACCA_TRY_VOID(f.check(f.heuristic(library->handle(), operation, a, b, d, d, preference.get(),
                                         most, found.data(), &count),
                             "cublasLtMatmulAlgoGetHeuristic"));
    found.resize(static_cast<size_t>(count));
    return found;
  }
};

Result<VendorGemm> VendorGemm::make(std::shared_ptr<const CublasLt> library,
                                    const Multiplication& problem,
                                    std::span<const WorkspaceLimit> limits) {
  const CublasLt::Functions& f = library->functions();
  const gpu::Current current(library->device());  // for whose model algorithms are proposed
  ATTACCA_TRY_VOID(current.entered());
  VendorGemm made;
  ATTACCA_TRY(made.descriptors_, Descriptors::make(library, problem));
  ATTACCA_TRY(Preference preference, Preference::make(f, problem));
  Status refused;
  for (size_t l = 0; l < limits.size(); ++l) {
    ATTACCA_TRY_VOID(preference.limit_workspace(limits[l].bytes));
    const auto found = made.descriptors_->propose(preference, limits[l].most_algorithms);
    if (!found) {
      if (refused) refused = tl::make_unexpected(found.error());
      continue;
    }
    for (size_t i = 0; i < found->size(); ++i) {
      const HeuristicResult& proposed = (*found)[i];
      if (proposed.status == 0 && !loses_elements(f, proposed, problem))
        made.add({proposed.algorithm, proposed.workspace_bytes, proposed.waves,
                  std::vector<int>(limits.size(), -1)})
            .places[l] = static_cast<int>(i);
    }
  }
  if (made.algorithms_.empty()) {
    ATTACCA_TRY_VOID(refused);
    return fail("cuBLASLt proposes no algorithm for this product", "cuBLASLt");
  }
  made.library_ = std::move(library);
  return made;
}

VendorGemm::Algorithm& VendorGemm::add(Algorithm proposed) {
  const auto known =
      std::find_if(algorithms_.begin(), algorithms_.end(),
                   [&](const Algorithm& other) { return other.data == proposed.data; });
  return known != algorithms_.end() ? *known : algorithms_.emplace_back(std::move(proposed));
}

VendorAlgorithm VendorGemm::describe(int algorithm) const {
  const CublasLt::Functions& f = library_->functions();
  const Algorithm& known = algorithms_[static_cast<size_t>(algorithm)];
  VendorAlgorithm described{{}, known.waves, known.workspace_bytes, known.places};
  for (size_t i = 0; i < std::size(kVendorConfig); ++i)
    described.config[i] = config_of(f, known.data.data(), i);
  return described;
}

Status VendorGemm::launch(int algorithm, const void* a, const void* b, const Extras& extras,
                          void* d, void* workspace, gpu::StreamHandle stream) const {
  static constexpr float kOne = 1, kZero = 0;
  static constexpr double kWideOne = 1, kWideZero = 0;
  static constexpr int32_t kIntegerOne = 1, kIntegerZero = 0;
  const CublasLt::Functions& f = library_->functions();
  Descriptors& desc = *descriptors_;
  const void* one = desc.wide      ? static_cast<const void*>(&kWideOne)
                    : desc.integer ? static_cast<const void*>(&kIntegerOne)
                                   : &kOne;
  const void* zero = desc.wide      ? static_cast<const void*>(&kWideZero)
                     : desc.integer ? static_cast<const void*>(&kIntegerZero)
                                    : &kZero;
  std::unique_lock<std::mutex> lock;
  if (extras.bias != nullptr || extras.scales_a != nullptr) lock = std::unique_lock(desc.extras);
  if (extras.bias != nullptr) ATTACCA_TRY_VOID(desc.set_bias(extras.bias));
  if (extras.scales_a != nullptr)
    ATTACCA_TRY_VOID(desc.set_scales(extras.scales_a, extras.scales_b));
  const Algorithm& chosen = algorithms_[static_cast<size_t>(algorithm)];
  return f.check(
      f.matmul(library_->handle(), desc.operation, one, b, desc.a, a, desc.b, zero, d, desc.d, d,
               desc.d, chosen.data.data(), workspace, chosen.workspace_bytes, stream),
      "cublasLtMatmul");
}

}  // namespace attacca::launch
