// In the place of src/templates/kernels/common/bytes.cuh.
#pragma once

#include "common/device.cuh"
