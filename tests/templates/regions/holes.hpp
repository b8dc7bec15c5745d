// Emitted epilogues, compiled for the host as functions that emulated kernels call as their hole.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attacca::testing {

class Holes {
 public:
  // Of epilogue::emit_cuda() whose function is kFunction; returns its number. Equal code has one.
  static constexpr const char* kFunction = "attacca_emitted_hole";
  size_t add(const std::string& code);

  // Compiles what was added. Aborts if the compiler does: the code or this file is wrong.
  void compile();
  void* at(size_t number) const { return functions_.at(number); }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<void*> functions_;
};

}  // namespace attacca::testing
