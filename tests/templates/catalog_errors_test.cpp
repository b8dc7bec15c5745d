// Unusable template directories: each error says what, where and how to fix it.
#include <fstream>
#include <unistd.h>

#include "fmt/format.h"

#include "support/text/json.hpp"
#include "templates/metadata.hpp"
#include "templates_testing.hpp"

namespace attacca::templates {
namespace {

namespace fs = std::filesystem;

// A copy of the built templates, of one template's files only, that is removed again.
class Copy {
 public:
  // A path of its own each: a library that was opened stays open under its path.
  Copy()
      : path_(fs::path(::testing::TempDir()) /
              fmt::format("attacca_templates_{}_{}", getpid(), ++copies_)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    const fs::path from = Catalog::default_directory();
    const Template& first = testing::built().templates().front();
    name_ = first.name;
    for (const std::string& file :
         {std::string("libattacca_templates.so"), name_ + ".json", name_ + ".ptx"})
      fs::copy_file(from / file, path_ / file);
  }
  ~Copy() { fs::remove_all(path_); }

  fs::path operator/(const std::string& file) const { return path_ / file; }
  fs::path metadata() const { return path_ / (name_ + ".json"); }
  fs::path ptx() const { return path_ / (name_ + ".ptx"); }
  fs::path library() const { return path_ / "libattacca_templates.so"; }
  const std::string& name() const { return name_; }

  void write(const fs::path& file, const std::string& text) const {
    fs::remove(file);
    std::ofstream(file) << text;
  }

  // The error of opening it.
  Error error() const {
    auto opened = Catalog::open(nullptr, path_.string());
    if (opened) ADD_FAILURE() << "opened " << path_;
    return opened ? Error{} : opened.error();
  }

 private:
  static inline int copies_ = 0;
  fs::path path_;
  std::string name_;
};

TEST(CatalogErrors, ACopyOpens) {
  const Copy copy;
  const auto opened = Catalog::open(nullptr, copy.metadata().parent_path().string());
  ASSERT_TRUE(opened) << to_string(opened.error());
  EXPECT_EQ(opened->templates().size(), 1u);
}

TEST(CatalogErrors, NoDirectory) {
  const auto opened = Catalog::open(nullptr, "/nowhere/templates");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().what, "no kernel templates: No such file or directory");
  EXPECT_EQ(opened.error().where, "/nowhere/templates");
  EXPECT_NE(opened.error().fix.find("make gpu"), std::string::npos);
  EXPECT_NE(opened.error().fix.find("ATTACCA_TEMPLATE_DIR"), std::string::npos);
}

TEST(CatalogErrors, EmptyDirectory) {
  const Copy copy;
  fs::remove(copy.metadata());
  EXPECT_EQ(copy.error().what, "no kernel templates: no metadata (*.json)");
}

TEST(CatalogErrors, BrokenJson) {
  const Copy copy;
  copy.write(copy.metadata(), "{\"name\": ");
  const Error error = copy.error();
  EXPECT_NE(error.where.find(copy.name()), std::string::npos);
  EXPECT_NE(error.fix.find("make gpu"), std::string::npos);
}

TEST(CatalogErrors, NoBuilder) {
  const Copy copy;
  std::string text = testing::read(copy.metadata());
  const std::string own = "\"name\": \"" + copy.name() + "\"";
  text.replace(text.find(own), own.size(), "\"name\": \"another\"");
  copy.write(copy.metadata(), text);
  EXPECT_EQ(copy.error().what, "template another has no builder in libattacca_templates.so");
  EXPECT_EQ(copy.error().where, copy.metadata().string());
}

TEST(CatalogErrors, NoPtx) {
  const Copy copy;
  fs::remove(copy.ptx());
  EXPECT_EQ(copy.error().what, "template " + copy.name() + " has no PTX");
  EXPECT_EQ(copy.error().where, copy.ptx().string());
}

TEST(CatalogErrors, BrokenOffPtx) {
  const Copy copy;
  const std::string whole = testing::read(copy.ptx());
  for (const std::string& text : {std::string(), whole.substr(0, whole.size() / 2) + "x"}) {
    copy.write(copy.ptx(), text);
    EXPECT_EQ(copy.error().what, "the template's PTX is broken off");
    EXPECT_EQ(copy.error().where, copy.ptx().string());
  }
}

// A template that cannot be read does not affect the others.
TEST(CatalogErrors, OthersStayUsable) {
  const Copy copy;
  const auto open = [&] { return *Catalog::open(nullptr, copy.library().parent_path().string()); };
  const uint64_t before = open().fingerprint();
  copy.write(copy / "zzz.json", "{\"name\": ");
  const Catalog catalog = open();
  ASSERT_EQ(catalog.templates().size(), 1u);
  EXPECT_EQ(catalog.templates()[0].name, copy.name());
  ASSERT_EQ(catalog.left_out().size(), 1u);
  EXPECT_EQ(catalog.left_out()[0].name, "zzz");
  EXPECT_NE(catalog.left_out()[0].reason.where.find("zzz.json"), std::string::npos);
  EXPECT_EQ(catalog.fingerprint(), before);
  copy.write(copy.ptx(), testing::read(copy.ptx()) + "// changed\n}\n");
  EXPECT_NE(open().fingerprint(), before);
}

TEST(CatalogErrors, NoLibrary) {
  const Copy copy;
  fs::remove(copy.library());
  EXPECT_EQ(copy.error().what.rfind("cannot open the templates' builders: ", 0), 0u);
  EXPECT_EQ(copy.error().where, copy.library().string());
}

TEST(CatalogErrors, AnotherLibrary) {
  const Copy copy;
  fs::remove(copy.library());
  fs::copy_file(ATTACCA_NO_TEMPLATES, copy.library());
  EXPECT_EQ(copy.error().what, "not a library of template builders");
}

TEST(CatalogErrors, AnotherAbiVersion) {
  const Copy copy;
  fs::remove(copy.library());
  fs::copy_file(ATTACCA_OLD_TEMPLATES, copy.library());
  EXPECT_EQ(copy.error().what,
            "the templates were built for another version than 8 of the builders' interface");
  EXPECT_EQ(copy.error().where, copy.library().string());
  EXPECT_NE(copy.error().fix.find("make gpu"), std::string::npos);
}

// Metadata with one member replaced, in one line.
std::string error_with(const std::string& key, json::Value value) {
  const auto whole = json::parse(testing::read(
      fs::path(testing::built().templates().front().path).replace_extension(".json")));
  json::Value changed = json::Value::object();
  for (const auto& [name, member] : whole->as<json::Value::Object>())
    changed.set(name, name == key ? value : member);
  const auto parsed = parse_metadata(json::dump(changed), "x.json");
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.error().where, "x.json");
  return parsed.error().what;
}

TEST(MetadataErrors, NameTheMember) {
  const std::string needs = "the template's metadata needs ";
  EXPECT_EQ(error_with("name", "fine"), "accepted");
  EXPECT_EQ(error_with("name", 3), needs + "a text `name`");
  EXPECT_EQ(error_with("threads", "many"), needs + "a whole number `threads`");
  EXPECT_EQ(error_with("threads", -1), "`threads` of the template's metadata holds -1, no count");
  EXPECT_EQ(error_with("stream_k", 1), needs + "true or false `stream_k`");
  EXPECT_EQ(error_with("tile", 1), needs + "a list `tile`");
  EXPECT_EQ(error_with("tile", json::Value::array().push(1)),
            needs + "`tile` of 3 numbers and `cluster` of 3");
  EXPECT_EQ(error_with("hole", json::Value()), needs + "an object `hole`");
  EXPECT_EQ(error_with("family", "fft"),
            "`family` of the template's metadata is \"fft\", not gemm or pointwise");
  EXPECT_EQ(error_with("schedule", "fft"),
            "`schedule` of the template's metadata is \"fft\", which this version does not know");
  EXPECT_EQ(error_with("input_types", json::Value::array().push("bf17"))
                .rfind("`input_types` of the template's metadata holds \"bf17\", no dtype (", 0),
            0u);
}

TEST(MetadataErrors, NoObject) {
  const auto parsed = parse_metadata("[]", "x.json");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().what, "the template's metadata needs a text `name`");
}

}  // namespace
}  // namespace attacca::templates
