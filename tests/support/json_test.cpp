#include "support/text/json.hpp"

#include <cmath>

#include "gtest/gtest.h"

namespace attacca::json {
namespace {

TEST(Json, KeepsTheOrderOfMembers) {
  Value value = Value::object();
  value.set("z", 1).set("a", Value::array().push(true).push("text").push(0.5)).set("n", Value());
  EXPECT_EQ(dump(value, -1), R"({"z":1,"a":[true,"text",0.5],"n":null})");
  EXPECT_EQ(dump(value),
            "{\n  \"z\": 1,\n  \"a\": [\n    true,\n    \"text\",\n    0.5\n  ],\n"
            "  \"n\": null\n}");
}

TEST(Json, ReadsBackWhatItWrites) {
  const std::string text = R"({"b":[1,-2,1.5,"\"\\ü\n"],"a":{"x":false,"y":null}})";
  const auto value = parse(text);
  ASSERT_TRUE(value) << to_string(value.error());
  EXPECT_EQ(dump(*value, -1), text);
  EXPECT_EQ(value->find("b")->as<Value::Array>()[1].as<int64_t>(), -2);
  EXPECT_EQ(value->find("c"), nullptr);
}

TEST(Json, NumbersBeyondItsRangeStayWritable) {
  EXPECT_EQ(dump(Value(std::nan("")), -1), "null");
  EXPECT_EQ(dump(Value(INFINITY), -1), "null");
  EXPECT_EQ(parse("18446744073709551615")->number(), 18446744073709551615.0);
}

TEST(Json, BadTextIsAnErrorWithItsPlace) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\xff\"", "1 2"}) {
    const auto value = parse(text, "file.json");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().what, "malformed JSON");
    EXPECT_EQ(value.error().where.rfind("file.json:byte ", 0), 0u) << value.error().where;
  }
  EXPECT_EQ(parse(std::string(100000, '['), "deep").error().what,
            "JSON nested deeper than 256 levels");
}

TEST(Json, AMemberThatComesTwiceIsAnError) {
  for (const char* text : {R"({"a":1,"a":1})", R"([{"b":{"a":[],"c":2,"a":{}}}])"}) {
    const auto value = parse(text, "file.json");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().what, "a JSON object has the member a twice");
    EXPECT_EQ(value.error().where, "file.json");
  }
  EXPECT_TRUE(parse(R"([{"a":1},{"a":1},{"b":{"a":1}}])"));
}

TEST(Json, ManyMembersTakeTheirTime) {
  Value value = Value::object();
  for (int i = 0; i < 300'000; ++i) value.set(std::to_string(i), i);
  EXPECT_EQ(*parse(dump(value)), value);
}

TEST(Json, NumbersBeyondF64AreErrors) {
  EXPECT_EQ(parse("[1e999]").error().what, "a JSON number beyond the range of f64");
}

TEST(Json, TextThatIsNotUtf8IsReplaced) {
  EXPECT_EQ(dump(Value("a\xff"), -1), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace attacca::json
