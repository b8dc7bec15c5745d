// Failures on their way to ONNX Runtime.
#pragma once

#include <exception>
#include <new>

#include "attacca/attacca.hpp"
#include "ort/api.hpp"

namespace attacca::ort {

// "Attacca: what, at where: fix"
inline OrtStatus* to_ort(const Status& status, OrtErrorCode code = ORT_EP_FAIL) {
  if (status) return nullptr;
  return Ort::GetApi().CreateStatus(code, ("Attacca: " + status.text()).c_str());
}

// Calls `f`, which returns an OrtStatus*; no exception leaves.
template <class F>
OrtStatus* guarded(F f) noexcept {
  try {
    return f();
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::bad_alloc&) {
    return to_ort({"memory ran out", "a region", "run with smaller sizes or on a larger machine"});
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, error.what());
  }
}

}  // namespace attacca::ort
