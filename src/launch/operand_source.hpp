// Where the products of the unfused path read an operand: in the caller's memory if the vendor
// library can read that, else in the workspace, in a dense copy that was converted, unpacked or
// scaled.
#pragma once

#include <functional>
#include <memory>

#include "launch/helpers/scale_blocks.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Allocates bytes of the workspace one after the other.
class Arena {
 public:
  size_t take(size_t bytes) {
    const size_t at = used_;
    used_ = (used_ + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  size_t size() const { return used_; }

 private:
  static constexpr size_t kAlignment = 256;

  size_t used_ = 0;
};

// Which axis of a dense operand must be contiguous.
enum class Contiguous : uint8_t { Either, Columns, Rows };

// An operand of a product: the caller's memory, or a dense copy in the workspace.
struct Source {
  // Addresses of first bytes, before View::offset; `scales`: where the copy needs scales of blocks.
  struct Memory {
    void* operand = nullptr;
    void* scales = nullptr;
  };
  using Copy = std::function<Status(const Memory& from, void* dense, gpu::StreamHandle stream)>;

  problem::View view;  // as the vendor reads it
  problem::View from;  // as the caller's memory has it
  Copy copy = {};      // none: the vendor reads the caller's memory
  size_t copy_at = 0;

  // Makes the copy, and returns the address of the first element.
  Result<void*> ready(const Memory& memory, char* workspace, gpu::StreamHandle stream) const;
};

// Reads the caller's memory, without asking whether the vendor library can.
Source as_it_lies(const problem::View& view);
// A dense copy of rows x columns of a view, converted to a dtype.
Result<Source> make_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& view,
                           ir::DType dtype, int64_t rows, int64_t columns, int64_t batch,
                           Contiguous contiguous, Arena& arena);
// B of a product with packed weights, unpacked into the workspace.
Result<Source> unpacked_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& b,
                               const ir::PackedLayout& layout, ir::DType dtype, Arena& arena);
// Blocks times their scales in the workspace, so many lines of so many values of k.
Result<Source> scaled_source(const std::shared_ptr<Toolbox>& toolbox, const problem::View& view,
                             const problem::View& scales, const BlockAxis& batch,
                             const BlockAxis& line, const BlockAxis& k, Arena& arena);

}  // namespace attacca::launch
