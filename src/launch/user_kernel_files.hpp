// Users' kernels, read from their files. A file is read again only after it changed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "gpu/kernel/kernel_file.hpp"
#include "ir/graph/kernel_call.hpp"
#include "ptx/analysis/kernel_analysis.hpp"

namespace attacca::launch {

class UserKernelFile {
 public:
  UserKernelFile(gpu::LoadedKernel loaded, std::atomic<int>& analyses)
      : loaded_(std::move(loaded)), analyses_(analyses) {}

  const ptx::Module& module() const { return loaded_.module; }
  const std::string& entry() const { return loaded_.entry; }
  // REQUIRES: the module defines it.
  const ptx::Function& function() const;
  // The analysis for the output's parameter, made at the first call. It lives as long as this.
  Result<const ptx::Analysis*> analysis(size_t parameter, uint32_t element_bytes) const;

 private:
  const gpu::LoadedKernel loaded_;
  std::atomic<int>& analyses_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<size_t, uint32_t>, ptx::Analysis> analyses_made_;
};

// Thread-safe; outlives the files that it gave.
class UserKernelFiles {
 public:
  // CUDA C++ is compiled for devices of this capability (90).
  Result<std::shared_ptr<const UserKernelFile>> load(const ir::KernelCall& call, int capability);
  // How many analyses were made; only tails need one.
  int analyses() const { return analyses_; }

 private:
  std::atomic<int> analyses_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const UserKernelFile>, std::less<>> files_;
};

}  // namespace attacca::launch
