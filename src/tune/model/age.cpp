#include "tune/model/age.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "tune/model/ranking_tree.hpp"

namespace attacca::tune {
namespace {

uint32_t short_of(const templates::Template& kernel) {
  return static_cast<uint32_t>(kernel.fingerprint >> 32);
}

}  // namespace

std::vector<std::string> short_fingerprints(const templates::Catalog& catalog) {
  std::vector<std::string> found;
  for (const templates::Template& kernel : catalog.templates())
    if (kernel.family == templates::Family::Gemm)
      found.push_back(fmt::format("{:08x}", short_of(kernel)));
  return found;
}

RankingAge ranking_age(const templates::Catalog& catalog) {
  const Training& known = training();
  RankingAge age{std::string(known.measured), known.problems, {}};
  for (const templates::Template& kernel : catalog.templates())
    if (kernel.family == templates::Family::Gemm &&
        std::find(known.templates.begin(), known.templates.end(), short_of(kernel)) ==
            known.templates.end())
      age.changed.push_back(kernel.name);
  return age;
}

}  // namespace attacca::tune
