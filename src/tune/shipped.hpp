// Choices that come with Attacca, for devices that were measured: files of choices_file.hpp,
// *.choices, in $ATTACCA_TUNED_DIR, else in share/attacca/tuned beside the installed library, else
// in the source tree. They are read only and asked after the database.
//
// The versions of the driver and of Attacca may differ from those of the measurement. A fused
// choice holds if its template is the one that was measured, an unfused choice with the same
// cuBLASLt.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tune/choices_file.hpp"
#include "tune/database.hpp"
#include "tune/exchange.hpp"

namespace attacca::tune {

class ShippedChoices {
 public:
  // Files that cannot be read or are damaged are left out.
  static ShippedChoices open(const std::string& directory = default_directory());
  static std::string default_directory();
  // Opened once a process, with a warning for each file that is left out.
  static const ShippedChoices& get();

  // The choice of this problem and shape on this device, if it holds here.
  std::optional<Choice> find(const ChoiceKey& key, const FingerprintOf& fingerprint_of) const;

  // How many choices of one file hold on a machine, and why the others do not.
  struct Fit {
    std::string path, device;
    int64_t choices = 0, fitting = 0;
    std::map<std::string, int64_t> others;  // by reason
  };
  // One a file. The device is not compared.
  std::vector<Fit> fits(const std::string& tools, const FingerprintOf& fingerprint_of) const;
  const std::vector<Error>& left_out() const { return left_out_; }
  // Other files give another one.
  uint64_t fingerprint() const;

 private:
  struct File {
    std::string path;
    ChoicesText text;
  };
  std::vector<File> files_;  // by path
  std::vector<Error> left_out_;
};

}  // namespace attacca::tune
