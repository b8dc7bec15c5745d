#include "tune/shipped.hpp"

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"

#include "launch/candidate.hpp"
#include "support/environment.hpp"
#include "support/files/file.hpp"
#include "support/files/paths.hpp"
#include "support/hash.hpp"
#include "support/immortal.hpp"
#include "support/warnings.hpp"

namespace attacca::tune {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string ShippedChoices::default_directory() {
  if (std::string named = environment("ATTACCA_TUNED_DIR"); !named.empty()) return named;
  std::string installed = installed_folder("tuned");
  std::error_code ignored;
  if (!installed.empty() && fs::exists(installed, ignored)) return installed;
  return ATTACCA_SOURCE_TUNED;
}

ShippedChoices ShippedChoices::open(const std::string& directory) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.path().extension() == ".choices") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ShippedChoices shipped;
  for (const fs::path& path : paths) {
    const auto file = [&]() -> Result<ChoicesText> {
      ATTACCA_TRY(std::string text, read_file(path.string()));
      return ChoicesText::open(std::move(text), path.string());
    }();
    if (file)
      shipped.files_.push_back({path.string(), *file});
    else
      shipped.left_out_.push_back(
          {"shipped choices are not used: " + file.error().what, file.error().where,
           "install Attacca again, or set ATTACCA_TUNED_DIR to another folder"});
  }
  return shipped;
}

const ShippedChoices& ShippedChoices::get() {
  return immortal([] {
    ShippedChoices shipped = open();
    for (const Error& error : shipped.left_out()) warn(error);
    return shipped;
  });
}

std::optional<Choice> ShippedChoices::find(const ChoiceKey& key,
                                           const FingerprintOf& fingerprint_of) const {
  for (const File& file : files_) {
    if (file.text.device() != key.device) continue;
    const auto found = file.text.find(key.problem, key.shape);
    if (!found) continue;
    if (misfit(*found, file.text.tools(), key.tools, fingerprint_of).empty())
      return Choice{*launch::parse_candidate(found->candidate), found->seconds,
                    found->unfused_seconds, found->quick};
  }
  return std::nullopt;
}

std::vector<ShippedChoices::Fit> ShippedChoices::fits(const std::string& tools,
                                                      const FingerprintOf& fingerprint_of) const {
  std::vector<Fit> all;
  for (const File& file : files_) {
    Fit& fit = all.emplace_back(Fit{file.path, file.text.device(), 0, 0, {}});
    const auto choices = file.text.choices();
    if (!choices) {
      fit.others[choices.error().what] = 1;
      continue;
    }
    for (const FiledChoice& choice : *choices) {
      const std::string why = misfit(choice, file.text.tools(), tools, fingerprint_of);
      ++fit.choices;
      ++(why.empty() ? fit.fitting : fit.others[why]);
    }
  }
  return all;
}

uint64_t ShippedChoices::fingerprint() const {
  std::string heads;
  for (const File& file : files_) heads += file.text.head();
  return hash64(heads);
}

}  // namespace attacca::tune
