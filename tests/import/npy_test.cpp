// The headers of .npy files: Python dict literals, as NumPy and other writers write them.
#include "import/files/npy.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace attacca::import {
namespace {

// What reading a file of two f32 with this header gives: its shape, or the error.
std::string read(const std::string& header) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "npy_test_header.npy").string();
  {
    std::ofstream file(path, std::ios::binary);
    const auto length = static_cast<uint16_t>(header.size());
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(length & 0xFF)
         << static_cast<char>(length >> 8) << header << std::string(8, '\0');
  }
  const auto tensor = read_npy(path, ir::DType::F32);
  std::filesystem::remove(path);
  if (tensor) return ir::to_string(tensor->shape());
  const std::string& what = tensor.error().what;
  return what.substr(what.find(".npy") + 4);
}

TEST(Npy, AFolderIsNoFile) {
  const auto tensor = read_npy(testing::TempDir(), ir::DType::F32);
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().what, testing::TempDir() + " is a folder");
}

TEST(Npy, APipeHasNoLength) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string header = std::string("\x93NUMPY\x01\0\x40\0", 10) +
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}        \n" +
                             std::string(4, '\0');
  ASSERT_EQ(write(ends[1], header.data(), header.size()), static_cast<ssize_t>(header.size()));
  close(ends[1]);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  const auto tensor = read_npy(path, ir::DType::F32);
  close(ends[0]);
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().what, path + " is a pipe, whose length is not known");
}

TEST(Npy, ReadsWhatWritersWrite) {
  EXPECT_EQ(read("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }     \n"), "[2]");
  EXPECT_EQ(read("{'shape':(1,2),'fortran_order':True,'descr':'<f4'}"), "[1, 2]");
  EXPECT_EQ(read("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": ( 2 , 1 )}"), "[2, 1]");
  EXPECT_EQ(read("{'descr': '<f4', 'fortran_order': False, 'shape': ()}"), "[]");
}

// Python takes the last of two equal keys, a search for the key the first.
TEST(Npy, RefusesAKeyNamedTwice) {
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ";
  EXPECT_EQ(read(start + "'shape': (1,)}"), " is no .npy file: the header names shape twice");
  EXPECT_EQ(read(start + "\"shape\" : (1,)}"), " is no .npy file: the header names shape twice");
  EXPECT_EQ(read(start + "'descr': '<f8'}"), " is no .npy file: the header names descr twice");
  EXPECT_EQ(read(start + "'fortran_order': True}"),
            " is no .npy file: the header names fortran_order twice");
}

TEST(Npy, RefusesWhatIsNotSuchALiteral) {
  for (const char* header :
       {"", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} {}",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}"})
    EXPECT_EQ(read(header), " is no .npy file: the header is malformed") << header;
}

}  // namespace
}  // namespace attacca::import
