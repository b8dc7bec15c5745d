// ATTACCA_DEVICE_CODE is defined where device code is compiled: by nvcc, and by the emulator of
// tests/templates, which runs kernels on the CPU. Builders see only the host side.
#pragma once

#ifdef ATTACCA_EMULATE
#include "emulator.hpp"
#endif
#if (defined(__CUDACC__) || defined(ATTACCA_EMULATE)) && !defined(ATTACCA_BUILDER)
#define ATTACCA_DEVICE_CODE
#endif
