#include "run/cuda/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>

#include "fmt/format.h"

#include "gpu/compile/toolchain.hpp"
#include "support/check.hpp"
#include "support/warnings.hpp"

namespace attacca::run {

// Of the sizes and alignments that a plan was called with last.
constexpr size_t kMostInstances = 256;

struct CudaPlan::Impl {
  DeviceGraph shared;
  using Key = std::pair<ir::SymbolValues, std::vector<int>>;
  struct Kept {
    std::shared_ptr<const CudaInstance> instance;
    uint64_t used = 0;  // when, in calls
  };
  std::mutex mutex = {};
  uint64_t calls = 0;
  std::map<Key, Kept> instances = {};

  const ir::Graph& graph() const { return shared.graph(); }
};

CudaPlan::CudaPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaPlan::CudaPlan(CudaPlan&&) noexcept = default;
CudaPlan& CudaPlan::operator=(CudaPlan&&) noexcept = default;
CudaPlan::~CudaPlan() = default;

const fuse::Partition& CudaPlan::partition() const {
  return *impl_->shared.prepared.partition;
}

const DeviceGraph& CudaPlan::shared() const {
  return impl_->shared;
}

const std::shared_ptr<launch::Toolbox>& CudaPlan::toolbox() const {
  return impl_->shared.toolbox;
}

namespace {

// Opens it with the bundle, if that fits; else without, if kernels can be compiled.
Result<std::shared_ptr<launch::Toolbox>> open_toolbox(const gpu::Device& device,
                                                      CudaOptions& options) {
  if (!options.bundle) return launch::Toolbox::open(device);
  auto toolbox = launch::Toolbox::open(device, {options.bundle, &options.bundle->kernels});
  if (toolbox || !gpu::Toolchain().versions()) return toolbox;
  auto compiling = launch::Toolbox::open(device);
  if (!compiling) return toolbox;
  warn({"the kernels of the bundle are not used and are compiled again: " + toolbox.error().what,
        toolbox.error().where, toolbox.error().fix});
  options.bundle = nullptr;
  return compiling;
}

}  // namespace

Result<CudaPlan> CudaPlan::make(Prepared prepared, CudaOptions options) {
  ATTACCA_CHECK(prepared.target.device.has_value(), "a plan for a GPU is of a graph for one");
  ATTACCA_TRY(auto toolbox, open_toolbox(*prepared.target.device, options));
  ATTACCA_TRY(FixedPlaces places, FixedPlaces::make(toolbox->device(), prepared.graph()));
  return CudaPlan(std::shared_ptr<Impl>(
      new Impl{{std::move(prepared), std::move(options), std::move(toolbox), std::move(places)}}));
}

Result<std::shared_ptr<const CudaInstance>> CudaPlan::instance(
    const ir::SymbolValues& symbols, const std::vector<int>& alignments) const {
  const size_t count = impl_->graph().inputs().size() + impl_->graph().outputs().size();
  Impl::Key key{symbols, alignments.empty() ? std::vector<int>(count, 16) : alignments};
  if (key.second.size() != count)
    return fail(fmt::format("{} alignments for {} inputs and outputs", key.second.size(), count));
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto found = impl_->instances.find(key); found != impl_->instances.end()) {
      found->second.used = ++impl_->calls;
      return found->second.instance;
    }
  }
  ATTACCA_TRY(auto made, make_instance(impl_->shared, symbols, key.second));
  const std::lock_guard lock(impl_->mutex);
  auto& kept = impl_->instances;
  if (kept.size() >= kMostInstances)
    kept.erase(std::min_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
      return a.second.used < b.second.used;
    }));
  return kept.try_emplace(std::move(key), Impl::Kept{std::move(made), ++impl_->calls})
      .first->second.instance;
}

}  // namespace attacca::run
