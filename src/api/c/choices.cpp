// The C interface: tuned choices that move between machines.
#include "api/c/status.hpp"
#include "api/options.hpp"
#include "attacca/attacca.h"
#include "launch/toolbox.hpp"
#include "tune/exchange.hpp"

namespace launch = attacca::launch;
namespace tune = attacca::tune;

namespace {

Result<std::shared_ptr<launch::Toolbox>> open_toolbox(const char* device) {
  ATTACCA_REQUIRE(device);
  ATTACCA_TRY(const attacca::run::DeviceId parsed, api::parse_device(device));
  if (!parsed.cuda) return fail("choices are of a GPU and its tools", "device", "give cuda");
  return launch::Toolbox::open(parsed.ordinal);
}

}  // namespace

extern "C" {

attacca_status* attacca_choices_export(const char* device, const char* path, int64_t* count) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path);
    ATTACCA_TRY(const auto toolbox, open_toolbox(device));
    ATTACCA_TRY(const tune::Exported made, tune::export_to_file(*toolbox, path));
    if (count != nullptr) *count = static_cast<int64_t>(made.file.choices.size());
    return {};
  });
}

attacca_status* attacca_choices_import(const char* device, const char* path, int64_t* count) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(path);
    ATTACCA_TRY(const auto toolbox, open_toolbox(device));
    ATTACCA_TRY(const tune::ImportedFile file, tune::import_from_file(*toolbox, path));
    if (count != nullptr) *count = static_cast<int64_t>(file.choices);
    return {};
  });
}

}  // extern "C"
