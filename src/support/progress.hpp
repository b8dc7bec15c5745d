// Progress of long work, on standard error.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace attacca {

// While it lives and standard error is a terminal, shows "LABEL ... 3 s" from the second second on,
// and wipes the line at its end. Elsewhere it prints a line "LABEL ... 30 s" after half a minute
// and after every minute from then on.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show_on_terminal();
  void print_lines();

  std::string label_;
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;
};

// For work with a known fraction: "[#####---------------] 25 % LABEL" while it lives and standard
// error is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // REQUIRES: no newline in the label.
  void show(double done, const std::string& label) const;

 private:
  bool terminal_;
};

}  // namespace attacca
