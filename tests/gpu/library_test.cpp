// Libraries that are missing, broken or usable. ATTACCA_LIBCUDA names a file that does not exist,
// and so for NVRTC and the assemblers; FAKE_CUDA is the stand-in for the driver.
#include "gpu/driver/library.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

#include "gpu/compile/assemble.hpp"
#include "gpu/compile/ptxas.hpp"
#include "gpu/driver/device.hpp"
#include "support/files/paths.hpp"

namespace attacca::gpu {
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
  EXPECT_EQ(library.error().fix, "install a package, or set ATTACCA_NOWHERE to its path");
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
  EXPECT_EQ(driver.error().fix, "correct or unset ATTACCA_LIBCUDA");
  EXPECT_FALSE(Device::count());
  EXPECT_FALSE(Device::open());
}

TEST(Library, WithoutAToolchain) {
  const auto ptx = compile("", {"sm_90a"});
  ASSERT_FALSE(ptx);
  EXPECT_NE(ptx.error().what.find("cannot open NVRTC"), std::string::npos);
}

// The assembler that a variable names is used, or it is an error; no other one is used instead.
TEST(Library, AnAssemblerThatIsNamedAndMissingIsAnError) {
  const auto ptxas = describe_assembler();
  ASSERT_FALSE(ptxas);
  EXPECT_EQ(ptxas.error().what, "no program /nowhere/ptxas");
  EXPECT_EQ(ptxas.error().where, "ATTACCA_PTXAS");
  EXPECT_EQ(ptxas.error().fix, "correct or unset ATTACCA_PTXAS");
  const Folder folder;
  const fs::path program = folder.path / "ptxas";
  std::ofstream(program) << "#!/bin/sh\necho release 13.0, V13.0.88\n";
  const Setting named("ATTACCA_PTXAS", program);
  EXPECT_EQ(describe_ptxas().error().what, "no program " + program.string());  // not executable
  fs::permissions(program, fs::perms::owner_all);
  EXPECT_EQ(describe_ptxas()->version, "ptxas 13.0.88");
  const auto linker = describe_assembler();
  ASSERT_FALSE(linker);
  EXPECT_EQ(linker.error().fix, "correct or unset ATTACCA_LIBNVJITLINK");
  {
    const Setting chosen("ATTACCA_ASSEMBLER", "ptxas");  // then nvJitLink does not matter
    EXPECT_EQ(describe_assembler()->tool.path, program);
  }
  const Setting directory("ATTACCA_PTXAS", folder.path);
  EXPECT_EQ(describe_ptxas().error().what, "no program " + folder.path.string());
  const Setting chosen("ATTACCA_ASSEMBLER", "driver");
  EXPECT_EQ(describe_assembler()->kind, Assembler::Driver);
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

// As where pip installed both.
TEST(Library, FoundInWheelsBesideAttacca) {
  const fs::path wheels = fs::path(own_path()).parent_path() / "nvidia";
  const fs::path file = wheels / "library_test/lib" / kNowhere.files[0];
  fs::create_directories(file.parent_path());
  fs::copy_file(std::getenv("FAKE_CUDA"), file, fs::copy_options::overwrite_existing);
  const auto library = Library::open(kNowhere);
  fs::remove_all(wheels);
  ASSERT_TRUE(library) << to_string(library.error());
  EXPECT_EQ(library->path(), file);
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
}  // namespace attacca::gpu
