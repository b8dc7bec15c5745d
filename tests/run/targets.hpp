// Runs a check once for every instruction set this machine has.
#pragma once

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace attacca::run {

template <class Check>
void for_each_target(Check check) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace attacca::run
