#include "cli/standard_streams.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "fmt/format.h"

namespace attacca::cli {

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)  // the lowest free number: this one
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

Status flush_output(int earlier) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int error = earlier != 0 ? earlier : errno;
  if (flushed && std::ferror(stdout) == 0) return {};
  return fail(error != 0 ? fmt::format("cannot write the output: {}", std::strerror(error))
                         : "cannot write the output",
              "standard output", "write to a file or pipe that is open and has room");
}

}  // namespace attacca::cli
