// In the place of src/templates/kernels/grouped_mma/instructions.cuh: emulator.hpp has them.
#pragma once

#include "common/device.cuh"
