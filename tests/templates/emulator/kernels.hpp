// Every emulated kernel of the test: its builder's record and a way to run it. kernel.cpp, compiled
// once a kernel with the DEFINES of its row, registers one.
#pragma once

#include <string>
#include <vector>

#include "templates/emulator/emulator.hpp"
#include "templates/kernels/host/record.hpp"

namespace attacca::emulator {

struct Kernel {
  const attacca_record* record;
  void (*run)(const Launch& launch, const void* params);
};

// Whether holes return the accumulators alone, the same for every row; as a result of 16 bits,
// their low halves, or the upper ones.
inline bool accumulators_alone = false, upper_halves = false;
// A function of the hole's type that kernels call in place of their own hole, if not null.
inline void* hole = nullptr;

// A suite of some of the kernels: it fails if there are none, unless the build emulates only those
// that ATTACCA_EMULATED names.
#ifdef ATTACCA_EMULATES_SOME
#define ATTACCA_NEEDS_KERNELS(SUITE) GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SUITE)
#else  // as GoogleTest does
#define ATTACCA_NEEDS_KERNELS(SUITE) static_assert(true)
#endif

std::vector<Kernel>& kernels();
bool add_kernel(const Kernel& kernel);

// Launches a kernel; the seed says in which order its threads and copies run. Returns why the
// builder refused the arguments, empty if it did not.
std::string launch(const Kernel& kernel, const attacca_gemm_arguments& arguments, uint32_t seed);

}  // namespace attacca::emulator
