// In the place of src/templates/kernels/wide/instructions.cuh: emulator.hpp has them.
#pragma once

#include "common/device.cuh"
