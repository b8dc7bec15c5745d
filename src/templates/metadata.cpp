#include "templates/metadata.hpp"

#include <limits>
#include <optional>

#include "fmt/format.h"

#include "support/immortal.hpp"
#include "support/text/json.hpp"

namespace attacca::templates {
namespace {

constexpr const char* kBuildAgain = "build the templates again: make gpu";

// Reads the members of one object. The first fault is kept and everything after it reads as zero,
// so that a reader is a plain list of members.
class Reader {
 public:
  Reader(const json::Value& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  int integer(std::string_view key) {
    const json::Value* value = member<int64_t>(key, "a whole number");
    return value ? to_int(*value, key) : 0;
  }

  bool boolean(std::string_view key) {
    const json::Value* value = member<bool>(key, "true or false");
    return value && value->as<bool>();
  }

  // 0 if the member is missing.
  int count(std::string_view key) { return object_.find(key) != nullptr ? integer(key) : 0; }

  // False if the member is missing.
  bool flag(std::string_view key) { return object_.find(key) != nullptr && boolean(key); }

  std::string text(std::string_view key) {
    const json::Value* value = member<std::string>(key, "a text");
    return value ? value->as<std::string>() : std::string();
  }

  std::vector<int> integers(std::string_view key) {
    std::vector<int> all;
    for (const json::Value& value : array(key)) all.push_back(to_int(value, key));
    return all;
  }

  std::vector<ir::DType> dtypes(std::string_view key) {
    std::vector<ir::DType> all;
    for (const json::Value& value : array(key)) all.push_back(to_dtype(value, key));
    return all;
  }

  ir::DType dtype(std::string_view key) {
    const json::Value* value = member<std::string>(key, "a dtype");
    return value ? to_dtype(*value, key) : ir::DType::F32;
  }

  const json::Value& object(std::string_view key) {
    const auto& empty = immortal([] { return json::Value::object(); });
    const json::Value* value = member<json::Value::Object>(key, "an object");
    return value ? *value : empty;
  }

  void refuse(std::string what) {
    if (!error_) error_ = Error{std::move(what), where_, kBuildAgain};
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  const json::Value* member(std::string_view key, std::string_view kind) {
    const json::Value* value = object_.find(key);
    if (value && value->is<T>()) return value;
    refuse(fmt::format("the template's metadata needs {} `{}`", kind, key));
    return nullptr;
  }

  const json::Value::Array& array(std::string_view key) {
    const auto& empty = immortal([] { return json::Value::Array(); });
    const json::Value* value = member<json::Value::Array>(key, "a list");
    return value ? value->as<json::Value::Array>() : empty;
  }

  int to_int(const json::Value& value, std::string_view key) {
    if (value.is<int64_t>() && value.as<int64_t>() >= 0 &&
        value.as<int64_t>() <= std::numeric_limits<int>::max())
      return static_cast<int>(value.as<int64_t>());
    refuse(fmt::format("`{}` of the template's metadata holds {}, no count", key,
                       json::dump(value, -1)));
    return 0;
  }

  ir::DType to_dtype(const json::Value& value, std::string_view key) {
    const auto dtype =
        value.is<std::string>() ? ir::parse_dtype(value.as<std::string>()) : std::nullopt;
    if (!dtype)
      refuse(fmt::format("`{}` of the template's metadata holds {}, no dtype ({})", key,
                         json::dump(value, -1), ir::all_dtype_names()));
    return dtype.value_or(ir::DType::F32);
  }

  const json::Value& object_;
  std::string where_;
  std::optional<Error> error_;
};

Family read_family(Reader& reader) {
  const std::string text = reader.text("family");
  if (text == "pointwise") return Family::Pointwise;
  if (text != "gemm")
    reader.refuse(
        fmt::format("`family` of the template's metadata is \"{}\", not gemm or pointwise", text));
  return Family::Gemm;
}

Schedule read_schedule(Reader& reader) {
  const std::string text = reader.text("schedule");
  const auto schedule = parse_schedule(text);
  if (!schedule)
    reader.refuse(
        fmt::format("`schedule` of the template's metadata is \"{}\", which this version "
                    "does not know",
                    text));
  return schedule.value_or(Schedule::Cooperative);
}

void read_tile(Reader& reader, Template& kernel) {
  const std::vector<int> tile = reader.integers("tile");
  const std::vector<int> cluster = reader.integers("cluster");
  if (tile.size() != 3 || cluster.size() != 3)
    return reader.refuse("the template's metadata needs `tile` of 3 numbers and `cluster` of 3");
  kernel.tile = {tile[0], tile[1], tile[2]};
  kernel.cluster_m = cluster[0];
  kernel.cluster_n = cluster[1];
  kernel.cluster_k = cluster[2];
}

void check_bits(Reader& reader, const std::vector<int>& bits, std::string_view key, int least) {
  for (int width : bits)
    if (width < least || (width != 8 && width != 16 && width != 32))
      reader.refuse(fmt::format("`{}` of the template's metadata holds {}, not {}16 or 32", key,
                                width, least == 8 ? "8, " : ""));
}

epilogue::HoleSignature read_hole(Reader& reader) {
  epilogue::HoleSignature hole;
  hole.accumulators = reader.integer("accumulators");
  hole.accumulator_type = reader.dtype("accumulator_type");
  hole.full_bits = reader.integers("full_bits");
  hole.rows = reader.integer("rows");
  hole.columns = reader.integer("columns");
  hole.result_bits = reader.integers("result_bits");
  hole.maxima = reader.count("maxima");
  hole.swapped = reader.boolean("swapped");
  check_bits(reader, hole.full_bits, "full_bits", 16);
  check_bits(reader, hole.result_bits, "result_bits", 8);
  return hole;
}

}  // namespace

Result<Template> parse_metadata(std::string_view text, const std::string& where) {
  auto document = json::parse(text, where);
  if (!document) {
    document.error().fix = kBuildAgain;
    return tl::make_unexpected(std::move(document).error());
  }
  Reader reader(*document, where);
  Template kernel;
  kernel.name = reader.text("name");
  kernel.family = read_family(reader);
  kernel.arch = reader.text("arch");
  kernel.min_capability = reader.integer("min_capability");
  kernel.max_capability = reader.integer("max_capability");
  kernel.only_named_on = reader.count("only_named_on");
  kernel.input_types = reader.dtypes("input_types");
  kernel.mixed_inputs = reader.flag("mixed_inputs");
  kernel.b_first = reader.flag("b_first");
  kernel.fast_accumulation = reader.flag("fast_accumulation");
  kernel.a_k_major = reader.boolean("a_k_major");
  kernel.b_k_major = reader.boolean("b_k_major");
  kernel.any_strides = reader.boolean("any_strides");
  kernel.alternate_columns = reader.flag("alternate_columns");
  kernel.scaled_blocks = reader.flag("scaled_blocks");
  kernel.packed_bits = reader.count("packed_bits");
  kernel.packed_floats = reader.flag("packed_floats");
  kernel.packed_rounds = reader.flag("packed_rounds");
  kernel.packed_scale_bits = reader.count("packed_scale_bits");
  kernel.widened = reader.flag("widened");
  kernel.grouped = reader.flag("grouped");
  kernel.gathered = reader.flag("gathered");
  kernel.row_step = reader.count("row_step");
  kernel.code_bits = reader.count("code_bits");
  kernel.code_floats = reader.flag("code_floats");
  read_tile(reader, kernel);
  kernel.schedule = read_schedule(reader);
  kernel.stream_k = reader.boolean("stream_k");
  kernel.dependent_launch = reader.boolean("dependent_launch");
  kernel.stages = reader.integer("stages");
  kernel.threads = reader.integer("threads");
  kernel.shared_bytes = reader.integer("shared_bytes");
  kernel.align_a = reader.integer("align_a");
  kernel.align_b = reader.integer("align_b");
  kernel.align_d = reader.integer("align_d");
  kernel.kernel = reader.text("kernel");
  Reader hole(reader.object("hole"), where);
  kernel.hole = read_hole(hole);
  for (const auto& error : {reader.error(), hole.error()})
    if (error) return tl::make_unexpected(*error);
  return kernel;
}

}  // namespace attacca::templates
