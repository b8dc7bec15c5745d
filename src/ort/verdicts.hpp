// What was measured, kept for the process and in the folder of Attacca's cache.
#pragma once

#include <optional>
#include <string>

namespace attacca::ort {

// Medians of one run, in microseconds; the median of the rounds' ratios, or the ratio of the
// fastest turns if that is less; what three of four rounds reached.
struct Times {
  double ours = 0, theirs = 0;
  double speedup = 0, sure = 0;
};

// `key`: all that the times depend on. A file that cannot be read or is damaged counts as none.
std::optional<Times> known_times(const std::string& key);
// Where the folder cannot be written, the process alone remembers.
void keep_times(const std::string& key, const Times& times);

}  // namespace attacca::ort
