// In the place of src/templates/kernels/pointwise/instructions.cuh.
#pragma once

#include "common/device.cuh"
