#include "fuzz/plans.hpp"

#include <cstdio>
#include <string>

#include "fmt/format.h"

#include "api/bundle_file.hpp"
#include "api/plan_file.hpp"
#include "support/check.hpp"
#include "support/hash.hpp"
#include "support/text/json.hpp"

namespace attacca::fuzz {
namespace {

struct Parts {
  std::string_view header, constants, kernels;
};

Parts parts_of(std::string_view input) {
  unsigned long long constants = 0, kernels = 0;
  const size_t line = input.find('\n');
  if (line == input.npos || line > 40) return {input, {}, {}};
  const std::string sizes(input.substr(0, line));
  const std::string_view body = input.substr(line + 1);
  if (std::sscanf(sizes.c_str(), "%llu %llu", &constants, &kernels) != 2 ||
      constants > body.size() || kernels > body.size() - constants)
    return {input, {}, {}};
  const size_t header = body.size() - constants - kernels;
  return {body.substr(0, header), body.substr(header, constants), body.substr(header + constants)};
}

std::string written(const run::Bundle& bundle) {
  std::string text = json::dump(api::bundle_json(bundle));
  api::append_kernels(bundle, text);
  return text;
}

void try_bundle(const Parts& parts) {
  const auto header = json::parse(parts.header, "fuzz");
  const json::Value* const bundle = header ? header->find("bundle") : nullptr;
  if (!bundle) return;
  const auto read = api::read_bundle(*bundle, parts.kernels, "fuzz");
  if (!read) return;
  std::string kernels;
  api::append_kernels(*read, kernels);
  const auto again = api::read_bundle(api::bundle_json(*read), kernels, "fuzz");
  ATTACCA_CHECK(again && written(*again) == written(*read), "a bundle changes when it is written");
}

std::string sealed(const Parts& parts) {
  const std::string body = fmt::format("{}{}{}", parts.header, parts.constants, parts.kernels);
  return fmt::format("attacca-plan 2\n{} {} {} {:016x}\n{}", parts.header.size(),
                     parts.constants.size(), parts.kernels.size(), hash64(body), body);
}

}  // namespace

void try_plan(std::string_view input) {
  (void)api::read_plan(input, "fuzz");
  const Parts parts = parts_of(input);
  (void)api::read_plan(sealed(parts), "fuzz", run::DeviceId{});
  try_bundle(parts);
}

}  // namespace attacca::fuzz
