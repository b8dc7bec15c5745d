// What the extension's files share. It binds the public C++ interface and nothing else.
#pragma once

#include <string>

#include "attacca/attacca.hpp"
#include "nanobind/nanobind.h"

namespace attacca::python {

// Raises attacca.Error with the status's three texts.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return *std::move(result);
}

// The text, else attacca.Error: the interface's texts end at their first NUL.
const std::string& whole(const std::string& text, const char* where);

// What `work` returns, other Python threads running meanwhile.
template <class F>
auto unlocked(F work) {
  const nanobind::gil_scoped_release released;
  return work();
}

// One of names, else attacca.Error about `what`.
size_t index_of(const std::string& text, std::span<const std::string_view> names, const char* what);

void bind_graph(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_instance(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);

}  // namespace attacca::python
