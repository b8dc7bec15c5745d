// In the place of src/templates/kernels/grouped/lanes.cuh: emulator.hpp has them.
#pragma once

#include "common/device.cuh"
