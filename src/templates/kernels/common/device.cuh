// ATTACCA_DEVICE_CODE: whether this compilation sees device code, by nvcc or by the emulator of
// tests/templates, which runs kernels on the CPU. Builders see the host's half alone.
#pragma once

#ifdef ATTACCA_EMULATE
#include "emulator.hpp"
#endif
#if (defined(__CUDACC__) || defined(ATTACCA_EMULATE)) && !defined(ATTACCA_BUILDER)
#define ATTACCA_DEVICE_CODE
#endif
