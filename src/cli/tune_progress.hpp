// The progress of tunings, one after the other, as one bar.
#pragma once

#include <functional>
#include <string>

#include "support/progress.hpp"

namespace attacca::cli {

class TuneProgress {
 public:
  TuneProgress() = default;
  TuneProgress(const TuneProgress&) = delete;
  TuneProgress& operator=(const TuneProgress&) = delete;

  // How many tunings there will be; 1 by default.
  void expect(size_t tunings) { tunings_ = tunings; }

  // The text before the tuner's own: "M=128".
  void name(std::string text) { name_ = std::move(text); }

  // For tune::TuneOptions; this must outlive it.
  std::function<void(double, const std::string&)> callback() {
    return [this](double done, const std::string& what) {
      const double all = double(done < 1 ? finished_ : finished_++) + done;
      bar_.show(all / double(tunings_), name_.empty() ? what : name_ + ": " + what);
    };
  }

 private:
  ProgressBar bar_;
  std::string name_;
  size_t tunings_ = 1;
  size_t finished_ = 0;
};

}  // namespace attacca::cli
