// Whether the ranking was learned from the templates that are built here.
#pragma once

#include <string>
#include <vector>

#include "templates/catalog.hpp"

namespace attacca::tune {

// Of each template that multiplies: 8 hexadecimal digits of Template::fingerprint.
std::vector<std::string> short_fingerprints(const templates::Catalog& catalog);

// What the ranking was learned from, and which templates have been changed or added since.
struct RankingAge {
  std::string measured;  // "NVIDIA H200, 2026-11-23"
  int problems = 0;
  std::vector<std::string> changed;  // names
};
RankingAge ranking_age(const templates::Catalog& catalog);

}  // namespace attacca::tune
