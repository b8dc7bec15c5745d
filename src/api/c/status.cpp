#include "api/c/status.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "support/text/excerpt.hpp"
#include "support/warnings.hpp"

namespace attacca::api {
namespace {

// The status that is returned if there is no memory for one.
attacca_status& memory_ran_out() {
  static attacca_status& status = *new attacca_status{{"memory ran out", {}, {}}};
  return status;
}

}  // namespace

attacca_status* make_status(Error error) noexcept {
  auto* status = new (std::nothrow)
      attacca_status{{bounded(std::move(error.what)), bounded(std::move(error.where)),
                      bounded(std::move(error.fix))}};
  return status != nullptr ? status : &memory_ran_out();
}

Status required(std::string_view names, std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    const std::string_view name = names.substr(0, names.find(','));
    if (pointer == nullptr)
      return fail(fmt::format("{} is NULL", name), std::string(name), "give one");
    names.remove_prefix(std::min(names.size(), name.size() + 2));
  }
  return {};
}

namespace {

attacca_status* warning(size_t index) noexcept try {
  const std::vector<Error> all = warnings();
  return index < all.size() ? make_status(all[index]) : nullptr;
} catch (const std::bad_alloc&) {
  return &memory_ran_out();
}

}  // namespace
}  // namespace attacca::api

extern "C" {

const char* attacca_version(void) {
  return ATTACCA_VERSION;
}

const char* attacca_status_what(const attacca_status* status) {
  return status != nullptr ? status->error.what.c_str() : "";
}

const char* attacca_status_where(const attacca_status* status) {
  return status != nullptr ? status->error.where.c_str() : "";
}

const char* attacca_status_fix(const attacca_status* status) {
  return status != nullptr ? status->error.fix.c_str() : "";
}

void attacca_status_free(attacca_status* status) {
  if (status != &attacca::api::memory_ran_out()) delete status;
}

attacca_status* attacca_warning(size_t index) {
  return attacca::api::warning(index);
}

const char* attacca_bytes_data(const attacca_bytes* bytes) {
  return bytes != nullptr ? bytes->bytes.c_str() : "";
}

size_t attacca_bytes_size(const attacca_bytes* bytes) {
  return bytes != nullptr ? bytes->bytes.size() : 0;
}

void attacca_bytes_free(attacca_bytes* bytes) {
  delete bytes;
}

}  // extern "C"
