// Bad input is a value: an Error that says what is wrong, where, and how to fix it.
#pragma once

#include <string>
#include <utility>

#include "tl/expected.hpp"

namespace attacca {

struct Error {
  std::string what;   // the fault, e.g. "matmul needs equal inner dimensions, got 4096 and 4095"
  std::string where;  // file, line:column, node or argument; may be empty
  std::string fix;    // what the user can do; may be empty
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(std::string what, std::string where = {}, std::string fix = {}) {
  return tl::make_unexpected(Error{std::move(what), std::move(where), std::move(fix)});
}

// "error: WHAT\n  at: WHERE\n  fix: FIX\n"; empty parts are left out.
std::string to_string(const Error& error);

}  // namespace attacca

// ATTACCA_TRY(auto x, f()): binds f()'s value to x or returns its error from this function.
#define ATTACCA_CONCAT_(a, b) a##b
#define ATTACCA_CONCAT(a, b) ATTACCA_CONCAT_(a, b)
#define ATTACCA_TRY_(decl, expr, tmp)                             \
  auto tmp = (expr);                                              \
  if (!tmp) return ::tl::make_unexpected(std::move(tmp).error()); \
  decl = *std::move(tmp)
#define ATTACCA_TRY(decl, expr) ATTACCA_TRY_(decl, expr, ATTACCA_CONCAT(try_result_, __LINE__))
#define ATTACCA_TRY_VOID(expr)                                     \
  do {                                                             \
    if (auto try_status = (expr); !try_status)                     \
      return ::tl::make_unexpected(std::move(try_status).error()); \
  } while (false)
