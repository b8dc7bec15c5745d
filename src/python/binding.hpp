// Functions that the extension's files share. The extension binds the public C++ interface alone.
#pragma once

#include <string>

#include "attacca/attacca.hpp"
#include "nanobind/nanobind.h"

namespace attacca::python {

// Raises attacca.Error with the status's what, where and fix.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return *std::move(result);
}

// Passes new warnings of the library to Python's `warnings`, as RuntimeWarning. Raises what the
// user's filters make of them.
void report_warnings();

// The value of a result whose making may compile kernels or read the cache, which can warn.
template <class T>
T check_and_warn(Result<T> result) {
  T value = check(std::move(result));
  report_warnings();
  return value;
}

// Returns the text; raises attacca.Error if it has a NUL character, at which C texts end.
const std::string& whole(const std::string& text, const char* where);

// Calls `work` without Python's global lock, so that other Python threads run.
template <class F>
auto unlocked(F work) {
  const nanobind::gil_scoped_release released;
  return work();
}

// The position of the text in names; raises attacca.Error about `what` if it is not there.
size_t index_of(const std::string& text, std::span<const std::string_view> names, const char* what);

void bind_graph(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_instance(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_frameworks(nanobind::module_& module);
void bind_call_cache(nanobind::module_& module);
void bind_tuning(nanobind::module_& module);
void bind_weights(nanobind::module_& module);

}  // namespace attacca::python
