// What a kernel's machine code needs, as its cubin says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace attacca::gpu {

struct MachineUse {
  uint32_t registers = 0;    // of a thread
  uint32_t local_bytes = 0;  // of a thread: arrays and spilled registers
};
// nullopt: the image is no cubin, or says nothing of this kernel.
std::optional<MachineUse> machine_use(const std::vector<char>& image, std::string_view kernel);

// How many blocks of so many threads the registers of one multiprocessor hold. REQUIRES: threads,
// registers > 0.
uint32_t blocks_in_registers(uint32_t threads, uint32_t registers);

}  // namespace attacca::gpu
