// A child process that exchanges lines with this one. No wait is unbounded. The child is killed
// with this object.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "support/error.hpp"

namespace attacca::tune {

// How the child ended, before it sent another line.
struct Ended {
  std::string how;  // "exited with 1", "was killed by signal 11 (Segmentation fault)"
};
struct TimedOut {};

class Child {
 public:
  // The child also dies when this process does.
  static Result<Child> start(const std::vector<std::string>& command);
  Child(Child&&) noexcept;
  Child& operator=(Child&&) noexcept;
  ~Child();  // SIGKILL

  // Sends a line. REQUIRES: no newline in it. Errors: the child has closed its end or does not
  // read.
  Status send(const std::string& line);
  // After Ended no line follows.
  std::variant<std::string, Ended, TimedOut> receive(std::chrono::milliseconds limit);

 private:
  struct Impl;
  explicit Child(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::tune
