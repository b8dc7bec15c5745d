// Turns results into the C interface's statuses, and exceptions and null pointers into errors.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "attacca/attacca.h"
#include "support/error.hpp"

struct attacca_status {
  attacca::Error error;
};

struct attacca_bytes {
  std::string bytes;
};

namespace attacca::api {

attacca_status* make_status(Error error) noexcept;

// Runs f, which returns a Status, for a function of the C interface.
template <class F>
attacca_status* guarded(F f) noexcept {
  try {
    if (Status status = f(); !status) return make_status(std::move(status).error());
    return nullptr;
  } catch (const std::bad_alloc&) {
    return make_status({"memory ran out", {}, "use smaller sizes"});
  } catch (const std::exception& error) {
    return make_status({error.what(), {}, {}});
  } catch (...) {
    return make_status({"an unknown exception", {}, {}});
  }
}

inline Status required(const void* pointer, const char* name) {
  if (pointer == nullptr) return fail(std::string(name) + " is NULL", name, "give one");
  return {};
}

inline std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

}  // namespace attacca::api
