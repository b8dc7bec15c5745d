// In the place of src/templates/kernels/common/maximum.cuh.
#pragma once

#include "common/device.cuh"
