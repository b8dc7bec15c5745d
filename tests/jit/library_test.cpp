// Libraries that are not there, are there and broken, or are there. ATTACCA_LIBCUDA names a file
// that does not exist, and so for NVRTC and the assemblers; FAKE_CUDA is the stand-in for the
// driver.
#include "jit/library.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

#include "jit/assemble.hpp"
#include "jit/device.hpp"

namespace attacca::jit {
namespace {

namespace fs = std::filesystem;

const LibrarySpec kNowhere = {
    "Nothing", {"libattacca_nowhere.so.1"}, "ATTACCA_NOWHERE", "a package"};

struct Folder {
  Folder()
      : path(fs::temp_directory_path() / ("attacca_library_test_" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

// An environment variable for one test.
struct Setting {
  Setting(const char* name, const std::string& value) : name(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name); }
  const char* name;
};

TEST(Library, MissingOneNamesThePackage) {
  const auto library = Library::open(kNowhere);
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().what, "Nothing (libattacca_nowhere.so.1) not found");
  EXPECT_EQ(library.error().mend, "install a package, or set ATTACCA_NOWHERE to its path");
}

TEST(Library, SpecsNamePackages) {
  for (const LibrarySpec* spec :
       {&kDriverLibrary, &kNvrtcLibrary, &kNvJitLinkLibrary, &kCublasLtLibrary}) {
    EXPECT_NE(spec->package.find("Debian"), std::string::npos);
    EXPECT_FALSE(spec->files.empty());
  }
}

TEST(Library, OverrideThatDoesNotExistIsAnError) {
  const auto driver = Driver::get();
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().where, "/nowhere/libcuda.so.1");
  EXPECT_EQ(driver.error().mend, "correct or unset ATTACCA_LIBCUDA");
  EXPECT_FALSE(Device::count());
  EXPECT_FALSE(Device::open());
}

TEST(Library, WithoutAToolchain) {
  const auto ptx = compile("", {"sm_90a"});
  ASSERT_FALSE(ptx);
  EXPECT_NE(ptx.error().what.find("cannot open NVRTC"), std::string::npos);
  const auto assembler = describe_assembler();  // the driver may still do it
  ASSERT_TRUE(assembler);
  EXPECT_EQ(assembler->kind, Assembler::Driver);
}

TEST(Library, OverrideIsTaken) {
  const Setting setting("ATTACCA_NOWHERE", std::getenv("FAKE_CUDA"));
  const auto library = Library::open(kNowhere);
  ASSERT_TRUE(library) << to_string(library.error());
  EXPECT_TRUE(library->symbol("cuInit"));
  const auto missing = library->symbol("cuNoSuchThing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().what, "no function cuNoSuchThing");
  EXPECT_EQ(missing.error().where, library->path());
}

TEST(Library, FoundInCudaHomeAndInWheels) {
  const Folder folder;
  const auto put = [&](const fs::path& where) {
    fs::create_directories(where);
    fs::copy_file(std::getenv("FAKE_CUDA"), where / kNowhere.files[0]);
  };
  put(folder.path / "toolkit/lib64");
  put(folder.path / "venv/lib/python3.11/site-packages/nvidia/cu13/lib");
  {
    const Setting setting("CUDA_HOME", folder.path / "toolkit");
    EXPECT_EQ(Library::open(kNowhere)->path(),
              folder.path / "toolkit/lib64/libattacca_nowhere.so.1");
  }
  const LibrarySpec other = {
      "Nothing", {"libattacca_none.so", "libattacca_wheel.so"}, "ATTACCA_NOWHERE", "a package"};
  fs::rename(
      folder.path / "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libattacca_nowhere.so.1",
      folder.path / "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libattacca_wheel.so");
  const Setting setting("VIRTUAL_ENV", folder.path / "venv");
  EXPECT_TRUE(Library::open(other));
}

TEST(Library, BrokenFileSaysWhy) {
  const Folder folder;
  fs::create_directories(folder.path / "lib64");
  const LibrarySpec broken = {"Nothing", {"libattacca_broken.so"}, "ATTACCA_NOWHERE", "a package"};
  std::ofstream(folder.path / "lib64/libattacca_broken.so") << "no ELF file";
  const Setting setting("CUDA_HOME", folder.path);
  const auto library = Library::open(broken);
  ASSERT_FALSE(library);
  EXPECT_NE(library.error().what.find("cannot open Nothing: "), std::string::npos);
}

TEST(Program, FoundOnPathAndByOverride) {
  EXPECT_FALSE(find_program("ATTACCA_NOWHERE", "sh").empty());
  EXPECT_EQ(find_program("ATTACCA_NOWHERE", "attacca_no_such_program"), "");
  const Setting setting("ATTACCA_NOWHERE", "/bin/sh");
  EXPECT_EQ(find_program("ATTACCA_NOWHERE", "ptxas"), "/bin/sh");
}

}  // namespace
}  // namespace attacca::jit
