// The table of devices, and what is taken of a device that it does not have.
#include "gpu/devices.hpp"

#include "gtest/gtest.h"

namespace attacca::gpu {
namespace {

TEST(Devices, ByName) {
  const auto h200 = known_device("h200");
  ASSERT_TRUE(h200);
  EXPECT_EQ(h200->name, "NVIDIA H200");
  EXPECT_EQ(plain_arch(h200->capability()), "sm_90");
  EXPECT_EQ(h200->sm_count, 132);
  EXPECT_DOUBLE_EQ(h200->rates.memory, 4.2e12);  // measured: as it is
  EXPECT_FALSE(known_device("NVIDIA H200"));
  EXPECT_FALSE(known_device(""));
  EXPECT_EQ(known_device_names(), "a100, l40s, rtx4090, h100, h200, b200, rtx5090");
}

TEST(Devices, ByArchitecture) {
  const auto sm90 = known_device("sm_90"), h100 = known_device("h100");
  ASSERT_TRUE(sm90);
  EXPECT_EQ(sm90->name, "sm_90");
  EXPECT_EQ(sm90->capability(), 90);
  EXPECT_EQ(sm90->sm_count, h100->sm_count);  // the first row of this capability
  EXPECT_EQ(sm90->rates.half, h100->rates.half);
  const auto sm103 = known_device("sm_103");
  ASSERT_TRUE(sm103);
  EXPECT_EQ(sm103->capability(), 103);
  EXPECT_EQ(sm103->sm_count, known_device("b200")->sm_count);
  EXPECT_EQ(known_device("sm_75")->sm_count, known_device("a100")->sm_count);
  for (const char* unknown : {"sm_", "sm_9", "sm_1000", "sm_90a", "sm_-90", "90"})
    EXPECT_FALSE(known_device(unknown)) << unknown;
}

TEST(Devices, OfAPublishedPeakAPartIsReached) {
  const auto a100 = known_device("a100");
  ASSERT_TRUE(a100);
  EXPECT_LT(a100->rates.memory, 2.0e12);
  EXPECT_GT(a100->rates.memory, 1.6e12);  // copies reach 1.7 to 1.8 TB/s
  EXPECT_EQ(a100->rates.float8, 0);
  EXPECT_EQ(known_device("rtx5090")->capability(), 120);
}

// Peaks as drivers report them.
TEST(Devices, WithoutARowTheArchitectureGivesWhatTheRowHas) {
  struct Peaks {
    const char* id;
    double cycles, memory;
  };
  for (const auto& [id, cycles, memory] :
       {Peaks{"a100", 1.41e9, 2.039e12}, Peaks{"l40s", 2.52e9, 0.864e12},
        Peaks{"h200", 1.98e9, 4.917e12}, Peaks{"b200", 1.965e9, 7.672e12}}) {
    DeviceInfo device = *known_device(id);
    const DeviceRates known = rates_of(device, 1, 1);
    EXPECT_EQ(known.half, device.rates.half) << id;
    device.name += " of another kind";
    const DeviceRates found = rates_of(device, cycles, memory);
    EXPECT_NEAR(found.memory / known.memory, 1, 0.1) << id;
    EXPECT_NEAR(found.half / known.half, 1, 0.1) << id;
    EXPECT_NEAR(found.float8, known.float8, 0.2 * known.float8) << id;
    EXPECT_GT(found.s8, found.half) << id;
  }
}

TEST(Devices, OfLaterArchitecturesAndSilentDrivers) {
  DeviceInfo device = *known_device("rtx4090");
  device.name = "unknown";
  const DeviceRates ada = rates_of(device, 2e9, 1e12);
  device.major = 8, device.minor = 6;  // no row: as 80
  EXPECT_EQ(rates_of(device, 2e9, 1e12).float8, 0);
  device.major = 99;
  EXPECT_EQ(rates_of(device, 2e9, 1e12).half, ada.half);  // as 120
  EXPECT_GT(rates_of(device, 0, 0).half, 0);
  EXPECT_GT(rates_of(device, 0, 0).memory, 0);
}

TEST(Devices, TargetsOfCode) {
  EXPECT_EQ(native_arch(80), "sm_80");
  EXPECT_EQ(native_arch(90), "sm_90a");
  EXPECT_EQ(native_arch(120), "sm_120a");
  EXPECT_EQ(machine_arch("sm_80", 89), "sm_89");
  EXPECT_EQ(machine_arch("sm_90", 120), "sm_120");
  EXPECT_EQ(machine_arch("sm_90a", 90), "sm_90a");
}

}  // namespace
}  // namespace attacca::gpu
