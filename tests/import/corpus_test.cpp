// Replays the fuzzers' corpus.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "fuzz/entries.hpp"
#include "import/formats.hpp"

namespace attacca::fuzz {
namespace {

int replay(const std::string& format) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(ATTACCA_CORPUS "/" + format)) {
    std::ifstream stream(file.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    try_format(format, bytes.str());
    ++count;
  }
  return count;
}

TEST(Corpus, EveryFormatHasOne) {
  for (const import::Format& format : import::formats())
    EXPECT_GT(replay(std::string(format.name)), 4) << format.name;
  EXPECT_GT(replay("onnx"), 50);
}

}  // namespace
}  // namespace attacca::fuzz
