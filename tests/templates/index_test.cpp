// The index of a template directory: the same catalogue as without, or none.
#include "templates/index.hpp"

#include <fstream>
#include <unistd.h>

#include "fmt/format.h"

#include "templates_testing.hpp"

namespace attacca::templates {
namespace {

namespace fs = std::filesystem;

// Links to all built templates.
class TemplateIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / fmt::format("attacca_index_{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const auto& entry : fs::directory_iterator(Catalog::default_directory()))
      if (entry.path().filename() != kIndexFile)
        fs::create_symlink(entry.path(), folder_ / entry.path().filename());
  }
  void TearDown() override { fs::remove_all(folder_); }

  Catalog open() const { return *Catalog::open(nullptr, folder_.string()); }
  void index() const {
    const Status written = Catalog::write_index(folder_.string());
    ASSERT_TRUE(written) << to_string(written.error());
  }
  std::string bytes() const { return testing::read(folder_ / kIndexFile); }
  void write(const fs::path& name, const std::string& text) const {
    fs::remove(folder_ / name);
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(TemplateIndex, TellsAll) {
  const Catalog before = open();
  index();
  const Catalog after = open();
  EXPECT_FALSE(before.indexed());
  EXPECT_TRUE(after.indexed());
  EXPECT_EQ(after.fingerprint(), before.fingerprint());
  EXPECT_EQ(after.templates(), before.templates());
}

TEST_F(TemplateIndex, OfOtherFilesIsNotUsed) {
  index();
  const Template first = open().templates().front();
  const uint64_t before = open().fingerprint();
  const std::string ptx = first.name + ".ptx";
  write(ptx, testing::read(first.path) + "// longer\n}\n");
  EXPECT_FALSE(open().indexed());
  EXPECT_NE(open().fingerprint(), before);
  fs::remove(folder_ / ptx);
  ASSERT_EQ(open().left_out().size(), 1u);
  EXPECT_EQ(open().left_out()[0].name, first.name);
  // One that leaves templates out is not written.
  const Status written = Catalog::write_index(folder_.string());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().what, "template " + first.name + " has no PTX");
}

TEST_F(TemplateIndex, OfOtherMetadataIsNotUsed) {
  index();
  const std::string metadata = open().templates().front().name + ".json";
  write(metadata, testing::read(folder_ / metadata) + "\n");
  EXPECT_FALSE(open().indexed());
  fs::remove(folder_ / metadata);
  EXPECT_FALSE(open().indexed());
}

TEST_F(TemplateIndex, OfAnotherLibraryIsNotUsed) {
  index();
  Index other = *decode_index(bytes());
  other.library += "0";
  write(kIndexFile, encode_index(other));
  EXPECT_FALSE(open().indexed());
}

TEST_F(TemplateIndex, DamageIsSeen) {
  index();
  Index small = *decode_index(bytes());
  small.templates.resize(1);
  small.files.resize(1);
  std::string image = encode_index(small);
  ASSERT_TRUE(decode_index(image));
  EXPECT_EQ(encode_index(*decode_index(image)), image);
  for (size_t size = 0; size < image.size(); ++size)
    ASSERT_FALSE(decode_index(std::string_view(image).substr(0, size))) << size;
  EXPECT_FALSE(decode_index(image + "0"));
  for (size_t bit = 0; bit < 8 * image.size(); ++bit) {
    const auto flip = static_cast<char>(1 << bit % 8);
    image[bit / 8] = static_cast<char>(image[bit / 8] ^ flip);
    ASSERT_FALSE(decode_index(image)) << bit;
    image[bit / 8] = static_cast<char>(image[bit / 8] ^ flip);
  }
  write(kIndexFile, bytes().substr(0, 100));
  EXPECT_FALSE(open().indexed());
}

}  // namespace
}  // namespace attacca::templates
