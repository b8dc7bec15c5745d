// The table of users' kernels (kernels.def) and the PTX that nvcc made of them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/dtype.hpp"
#include "ptx/syntax/syntax.hpp"
#include "ptx_interpreter/interpreter.hpp"

namespace attacca::kernels {

using ptx_interpreter::Extent3;

struct Kernel {
  std::string_view file;   // tests/kernels/FILE.cu, or FILE.ptx where it was not nvcc
  std::string_view entry;  // its name in the PTX
  bool eligible = false;
  std::string_view output = {};  // as `--output` takes it: "2", "name", "0+16"
  ir::DType dtype{};             // of the output's elements

  // Of eligible kernels: how to launch them on a small example, whose output has rows x columns
  // elements and all of them are written; arguments.hpp says how parameters are written.
  Extent3 grid, block;
  uint32_t shared_bytes = 0;
  std::string_view parameters = {};
  int64_t rows = 0, columns = 0;
  std::string_view epilogue = {};

  // Of refused ones: the first reason, and text of the line in FILE.cu that it names.
  std::string_view rule = {}, line = {};
};

// "gemm.naive_gemm", for messages and test names.
std::string to_string(const Kernel& kernel);
std::string test_name(const Kernel& kernel);            // the same as gtest takes it
void PrintTo(const Kernel& kernel, std::ostream* out);  // for gtest

const std::vector<Kernel>& all_kernels();
std::vector<Kernel> eligible_kernels();

// The PTX of a file, parsed once. Aborts where the build did not make it.
std::shared_ptr<const ptx::Module> module_of(std::string_view file);
// The same without the file's other kernels.
std::string text_of(const Kernel& kernel);
// Line NUMBER, from 1, of FILE.cu; empty where there is none.
std::string source_line(std::string_view file, int number);

}  // namespace attacca::kernels
