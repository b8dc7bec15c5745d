#include "api/plan_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "fmt/format.h"

#include "api/bundle_file.hpp"
#include "api/constants.hpp"
#include "api/names.hpp"
#include "api/plan_members.hpp"
#include "ir/text/dtype_named.hpp"
#include "ir/text/text.hpp"
#include "support/files/draft_file.hpp"
#include "support/hash.hpp"
#include "support/text/json.hpp"
#include "support/text/utf8.hpp"

namespace attacca::api {
namespace {

constexpr std::string_view kMagic = "attacca-plan ";
constexpr int kVersion = 1, kVersionWithKernels = 2;
constexpr int64_t kMostInText = 16;  // elements of a constant that stays in the graph's text

// ---- Writing

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// A name may have any bytes, text in JSON may not.
void set_name(json::Value& constant, std::string_view name) {
  if (is_utf8(name)) {
    constant.set("name", std::string(name));
    return;
  }
  json::Value bytes = json::Value::array();
  for (const char c : name) bytes.push(int64_t{static_cast<unsigned char>(c)});
  constant.set("name_bytes", std::move(bytes));
}

json::Value constants_json(const Lifted& lifted) {
  json::Value list = json::Value::array();
  for (const Constant& constant : lifted.constants) {
    json::Value shape = json::Value::array();
    for (const int64_t extent : constant.tensor.shape()) shape.push(extent);
    json::Value one = json::Value::object().set("input", constant.input);
    set_name(one, constant.label);
    one.set("dtype", ir::name(constant.tensor.dtype())).set("shape", std::move(shape));
    list.push(std::move(one));
  }
  return list;
}

// A version that does not know batch-invariant plans does not know the mode either.
constexpr std::string_view kBatchInvariant = "+batch_invariant";

std::string mode_text(const Options& options) {
  return fmt::format("{}{}", ir::name(options.mode),
                     options.batch_invariant ? kBatchInvariant : "");
}

json::Value header_of(const Plan& plan, const Lifted& lifted) {
  const Options& options = plan.options();
  return json::Value::object()
      .set("attacca", ATTACCA_VERSION)
      .set("graph", ir::print_graph(lifted.graph))
      .set("constants", constants_json(lifted))
      .set("device", to_string(options.device))
      .set("mode", mode_text(options))
      .set("tuning", name(options.tuning))
      .set("tuning_seconds", options.tuning_seconds)
      .set("threads", options.threads)
      .set("fuse", options.fuse)
      .set("choices", choices_json(plan.choices()));
}

// ---- Reading

struct File {
  std::string_view header, constants, kernels;
};

// The whole number at the text's front, up to `end`. Removes both from the text.
std::optional<uint64_t> take_number(std::string_view& text, char end, int base) {
  uint64_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || at == text.data() + text.size() || *at != end) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(at - text.data()) + 1);
  return number;
}

Result<File> open_file(std::string_view bytes, const std::string& source) {
  if (!bytes.starts_with(kMagic))
    return fail("not a plan: it does not begin with \"attacca-plan\"", source,
                "give a file that a plan was saved to; compile a model or a graph first");
  std::string_view rest = bytes.substr(kMagic.size());
  const auto version = take_number(rest, '\n', 10);
  if (!version) return fail("the plan's version is unreadable", source, kSaveAgain);
  if (*version != kVersion && *version != kVersionWithKernels)
    return fail(fmt::format("a plan of version {}, this library reads {} and {}", *version,
                            kVersion, kVersionWithKernels),
                source, "save it with this version of Attacca");
  const auto header = take_number(rest, ' ', 10);
  const auto constants = header ? take_number(rest, ' ', 10) : std::nullopt;
  auto kernels = constants ? std::optional<uint64_t>(0) : std::nullopt;
  if (constants && *version == kVersionWithKernels) kernels = take_number(rest, ' ', 10);
  const auto checksum = kernels ? take_number(rest, '\n', 16) : std::nullopt;
  if (!checksum) return fail("the plan's line of sizes is unreadable", source, kSaveAgain);
  if (*header > rest.size() || *constants > rest.size() - *header ||
      *kernels != rest.size() - *header - *constants)
    return fail(fmt::format("the plan is {} bytes where {} + {} + {} were written", rest.size(),
                            *header, *constants, *kernels),
                source, "copy it again, or save it again");
  if (hash64(rest) != *checksum)
    return fail("the plan is damaged: its checksum is another", source,
                "copy it again, or save it again");
  return File{rest.substr(0, *header), rest.substr(*header, *constants),
              rest.substr(*header + *constants)};
}

Result<std::vector<int64_t>> read_shape(const json::Value::Array& list, const std::string& where) {
  std::vector<int64_t> shape;
  for (const json::Value& extent : list) {
    if (!extent.is<int64_t>() || extent.as<int64_t>() < 0)
      return fail("a constant's shape is no list of sizes", where, kSaveAgain);
    shape.push_back(extent.as<int64_t>());
  }
  return shape;
}

// Whether this many bytes hold a tensor: asked before memory is taken for one.
bool hold(uint64_t bytes, ir::DType dtype, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  uint64_t elements = bytes / static_cast<uint64_t>(ir::size_of(dtype));
  for (const int64_t extent : shape) elements /= static_cast<uint64_t>(extent);
  return elements > 0;
}

Result<std::string> read_name(const json::Value& constant, const std::string& source) {
  const Members members(constant, source);
  if (constant.find("name_bytes") == nullptr) return members.get<std::string>("name");
  ATTACCA_TRY(const auto bytes, members.get<json::Value::Array>("name_bytes"));
  std::string name;
  for (const json::Value& byte : bytes) {
    if (!byte.is<int64_t>() || byte.as<int64_t>() < 0 || byte.as<int64_t>() > 255)
      return fail("a name has bytes that are none", source, kSaveAgain);
    name.push_back(static_cast<char>(byte.as<int64_t>()));
  }
  return name;
}

// The constants in their order. Removes their bytes from the front.
Result<std::vector<Constant>> read_constants(const json::Value::Array& list, std::string_view bytes,
                                             const std::string& source) {
  std::vector<Constant> constants;
  for (const json::Value& entry : list) {
    const Members members(entry, source);
    Constant constant;
    ATTACCA_TRY(constant.input, members.get<std::string>("input"));
    ATTACCA_TRY(constant.label, read_name(entry, source));
    ATTACCA_TRY(const std::string dtype_name, members.get<std::string>("dtype"));
    ATTACCA_TRY(const ir::DType dtype, ir::dtype_named(dtype_name, source));
    ATTACCA_TRY(const auto extents, members.get<json::Value::Array>("shape"));
    ATTACCA_TRY(std::vector<int64_t> shape, read_shape(extents, source));
    if (!hold(bytes.size(), dtype, shape))
      return fail(fmt::format("{} has too few bytes", constant.input), source, kSaveAgain);
    ATTACCA_TRY(constant.tensor, ir::Tensor::make(dtype, std::move(shape)));
    const auto size = static_cast<size_t>(constant.tensor.bytes());
    std::memcpy(constant.tensor.data(), bytes.data(), size);
    bytes.remove_prefix(size);
    constants.push_back(std::move(constant));
  }
  if (!bytes.empty())
    return fail(fmt::format("{} bytes belong to no constant", bytes.size()), source, kSaveAgain);
  return constants;
}

Status read_mode(std::string_view text, Options& options) {
  options.batch_invariant = text.ends_with(kBatchInvariant);
  if (options.batch_invariant) text.remove_suffix(kBatchInvariant.size());
  ATTACCA_TRY(options.mode, parse_mode(text));
  return {};
}

Result<Options> read_options(const Members& members, const std::string& source) {
  Options options;
  ATTACCA_TRY(const std::string device, members.get<std::string>("device"));
  ATTACCA_TRY(options.device, parse_device(device));
  ATTACCA_TRY(const std::string mode, members.get<std::string>("mode"));
  ATTACCA_TRY_VOID(read_mode(mode, options));
  ATTACCA_TRY(const std::string tuning, members.get<std::string>("tuning"));
  ATTACCA_TRY(options.tuning, parse_tuning(tuning));
  ATTACCA_TRY(options.tuning_seconds, members.number("tuning_seconds"));
  ATTACCA_TRY_VOID(check_seconds(options.tuning_seconds, "tuning_seconds", source));
  ATTACCA_TRY(const int64_t threads, members.get<int64_t>("threads"));
  ATTACCA_TRY(options.threads, check_threads(threads, source));
  ATTACCA_TRY(options.fuse, members.get<bool>("fuse"));
  return options;
}

}  // namespace

Result<std::string> write_plan(const Plan& plan, Kernels kernels) {
  ATTACCA_TRY(const Lifted lifted, lift_constants(plan.graph(), kMostInText));
  json::Value header = header_of(plan, lifted);
  std::optional<run::Bundle> bundle;
  if (kernels == Kernels::With) {
    ATTACCA_TRY(bundle, plan.bundle());
    header.set("bundle", bundle_json(*bundle));
  }
  std::string body = json::dump(header);
  std::string sizes = fmt::format("{}", body.size());
  auto end_part = [&, last = body.size()]() mutable {
    sizes += fmt::format(" {}", body.size() - std::exchange(last, body.size()));
  };
  for (const Constant& constant : lifted.constants)
    body.append(reinterpret_cast<const char*>(constant.tensor.data()),
                static_cast<size_t>(constant.tensor.bytes()));
  end_part();
  if (bundle) {
    append_kernels(*bundle, body);
    end_part();
  }
  return fmt::format("{}{}\n{} {:016x}\n{}", kMagic, bundle ? kVersionWithKernels : kVersion, sizes,
                     hash64(body), body);
}

Result<std::shared_ptr<const Plan>> read_plan(std::string_view bytes, const std::string& source,
                                              std::optional<run::DeviceId> device) {
  ATTACCA_TRY(const File file, open_file(bytes, source));
  ATTACCA_TRY(const json::Value header, json::parse(file.header, source));
  const Members members(header, source);
  ATTACCA_TRY(Options options, read_options(members, source));
  if (device) options.device = *device;
  ATTACCA_TRY(const std::string text, members.get<std::string>("graph"));
  ATTACCA_TRY(const ir::Graph graph, ir::parse_graph(text, source + ": graph"));
  ATTACCA_TRY(const auto constant_list, members.get<json::Value::Array>("constants"));
  ATTACCA_TRY(const std::vector<Constant> constants,
              read_constants(constant_list, file.constants, source));
  ATTACCA_TRY(ir::Graph whole, with_constants(graph, constants));
  ATTACCA_TRY(const auto choice_list, members.get<json::Value::Array>("choices"));
  ATTACCA_TRY(std::vector<run::KnownChoice> choices, read_choices(choice_list, source));
  const json::Value* const kept = header.find("bundle");
  if (!kept && !file.kernels.empty())
    return fail("machine code that the header does not describe", source, kSaveAgain);
  std::shared_ptr<const run::Bundle> bundle;
  if (kept) {
    ATTACCA_TRY(run::Bundle read, read_bundle(*kept, file.kernels, source));
    if (options.device.cuda) bundle = std::make_shared<const run::Bundle>(std::move(read));
  }
  return Plan::compile(std::move(whole), options, std::move(choices), std::move(bundle));
}

Status save_plan(const Plan& plan, const std::string& path, Kernels kernels) {
  ATTACCA_TRY(const std::string bytes, write_plan(plan, kernels));
  return write_file(path, bytes);
}

}  // namespace attacca::api
