// Replays the fuzzers' corpus.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "fuzz/entries.hpp"

namespace attacca::fuzz {
namespace {

int replay(const std::string& folder, void (*entry)(std::string_view)) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(ATTACCA_CORPUS "/" + folder)) {
    std::ifstream stream(file.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    entry(bytes.str());
    ++count;
  }
  return count;
}

TEST(Corpus, Onnx) {
  EXPECT_GT(replay("onnx", try_onnx), 50);
}

TEST(Corpus, Text) {
  EXPECT_GT(replay("text", try_text), 4);
}

}  // namespace
}  // namespace attacca::fuzz
