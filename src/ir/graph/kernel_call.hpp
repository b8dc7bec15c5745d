// How a graph launches a kernel that a user wrote (docs/user-kernels.md): the attributes of the op
// `kernel`.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ir/graph/dim.hpp"
#include "ir/graph/dtype.hpp"

namespace attacca::ir {

// A product scale * ceildiv(of, by) * ...: a number of blocks, or an integer argument of a kernel.
struct LaunchSize {
  struct Quotient {
    Dim of, by;
    friend bool operator==(const Quotient&, const Quotient&) = default;
  };
  Dim scale = 1;
  std::vector<Quotient> quotients = {};

  // Errors: those of Dim::evaluate, except that a number without symbols may be negative; division
  // by 0.
  Result<int64_t> evaluate(const SymbolValues& symbols) const;
  void collect_symbols(std::vector<std::string>& into) const;
  friend bool operator==(const LaunchSize&, const LaunchSize&) = default;
};
std::string to_string(const LaunchSize& size);  // "4 * ceildiv(M, 64)"

// The argument for one parameter of a kernel.
struct TensorArgument {  // the address of the node's next operand
  friend bool operator==(const TensorArgument&, const TensorArgument&) = default;
};
struct OutputArgument {  // the address of the node's result
  friend bool operator==(const OutputArgument&, const OutputArgument&) = default;
};
struct ScalarArgument {  // a number by value: a double of float dtypes, else a size
  DType dtype = DType::S32;
  std::variant<double, LaunchSize> number = 0.0;
  friend bool operator==(const ScalarArgument&, const ScalarArgument&) = default;
};
using KernelArgument = std::variant<TensorArgument, OutputArgument, ScalarArgument>;
std::string to_string(const ScalarArgument& scalar);  // "s32(M)", "f32(0.5)"

struct KernelCall {
  std::string file;                       // .ptx, or .cu for NVRTC; from the working directory
  std::string entry;                      // "my::gemm<float, 16>"; empty: the one kernel of a .ptx
  std::vector<KernelArgument> arguments;  // one for each parameter
  std::vector<LaunchSize> grid;           // blocks: x, y, z; the missing ones are 1
  std::vector<int64_t> block;             // threads
  int64_t shared = 0;                     // bytes of dynamic shared memory
  bool zeroed = false;                    // the result's memory is filled with 0 before the launch
  std::vector<std::string> options;       // of NVRTC
  friend bool operator==(const KernelCall&, const KernelCall&) = default;

  // The number of the parameter that is the output. REQUIRES: there is one.
  size_t output() const;
  void collect_symbols(std::vector<std::string>& into) const;
};

// Errors: the call cannot be launched, or does not take this number of operands.
Status verify(const KernelCall& call, size_t operands);

}  // namespace attacca::ir
