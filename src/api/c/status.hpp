// Turns results into the C interface's statuses, and exceptions and null pointers into errors.
#pragma once

#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>

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

// An error that names the first pointer that is NULL. `names`: of the pointers, as "graph, text".
Status required(std::string_view names, std::initializer_list<const void*> pointers);

inline std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

}  // namespace attacca::api

// ATTACCA_REQUIRE(graph, text): returns an error from this function if one of them is NULL.
#define ATTACCA_REQUIRE(...) ATTACCA_TRY_VOID(::attacca::api::required(#__VA_ARGS__, {__VA_ARGS__}))

// The functions of the C interface stand outside of namespaces; only their files include this one.
using attacca::fail;
using attacca::Result;
using attacca::Status;
using attacca::api::guarded;
using attacca::api::required;
using attacca::api::text_or;
namespace api = attacca::api;
