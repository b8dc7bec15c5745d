// Attacca's C++ interface: a graph is built or loaded, compiled to a plan for a device, prepared
// for the sizes at hand, and run.
//
//   attacca::Builder builder("layer");
//   const auto x = builder.input("x", attacca::DType::BF16, {"M", 4096});
//   const auto w = builder.input("w", attacca::DType::BF16, {11008, 4096});
//   const auto product = builder.call("matmul", {x, builder.call("transpose", {w})});
//   builder.output(builder.call("silu", {product}), "y");
//   const auto graph = builder.finish();
//   if (!graph) return report(graph.status());
//   const auto plan = attacca::Plan::compile(*graph, {.device = "cuda"});
//   const auto instance = plan->prepare({{"M", 512}});
//   instance->run({x_address, w_address}, {y_address}, {workspace, bytes}, stream);
//
// Failures are values with what, where and fix. Needs C++20 and nothing but the standard library;
// everything is inline over the C interface (attacca.h), so any compiler's standard library fits.
// Graphs, plans and instances are handles to immutable things: cheap to copy, safe in threads.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attacca/attacca.h"

namespace attacca {
inline namespace interface0 {

inline std::string_view version() {
  return attacca_version();
}

// ---- Failures

// Success, or the reason of a failure.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // Takes over what a function of the C interface returned.
  explicit Status(attacca_status* status)
      : status_(status == nullptr ? nullptr : std::shared_ptr<attacca_status>(status, Free())) {}

  // A failure that is found before the C interface is called.
  Status(std::string what, std::string where, std::string fix)
      : own_(std::make_shared<const Texts>(
            Texts{std::move(what), std::move(where), std::move(fix)})) {}

  bool ok() const { return status_ == nullptr && own_ == nullptr; }
  explicit operator bool() const { return ok(); }
  std::string_view what() const {
    return own_ ? own_->what : std::string_view(attacca_status_what(status_.get()));
  }
  std::string_view where() const {
    return own_ ? own_->where : std::string_view(attacca_status_where(status_.get()));
  }
  std::string_view fix() const {
    return own_ ? own_->fix : std::string_view(attacca_status_fix(status_.get()));
  }
  // "what, at where: fix"
  std::string text() const {
    std::string text(what());
    if (!where().empty()) text.append(", at ").append(where());
    if (!fix().empty()) text.append(": ").append(fix());
    return text;
  }

 private:
  struct Free {
    void operator()(attacca_status* status) const { attacca_status_free(status); }
  };
  struct Texts {
    std::string what, where, fix;
  };
  std::shared_ptr<attacca_status> status_;
  std::shared_ptr<const Texts> own_;
};

// A value or the reason why there is none. Reading the value of a failure aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::move(value)) {}
  Result(Status failure) : held_(std::move(failure)) {}

  bool ok() const { return std::holds_alternative<T>(held_); }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : *std::get_if<Status>(&held_); }
  const T& operator*() const& {
    if (!ok()) std::abort();
    return *std::get_if<T>(&held_);
  }
  T&& operator*() && {
    if (!ok()) std::abort();
    return std::move(*std::get_if<T>(&held_));
  }
  const T* operator->() const { return &**this; }

 private:
  std::variant<T, Status> held_;
};

// The problems of this process that made no call fail, such as a cache that cannot be used, from
// the one of number `first` on.
inline std::vector<Status> warnings(size_t first = 0) {
  std::vector<Status> all;
  while (attacca_status* warning = attacca_warning(first + all.size())) all.emplace_back(warning);
  return all;
}

// ---- Types

enum class DType : uint8_t { F64, F32, F16, BF16, F8E4M3, F8E5M2, S8, U8, S32, S64, Bool };

inline constexpr std::string_view kDTypeNames[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2",
                                                   "s8",  "u8",  "s32", "s64",  "bool"};

inline constexpr std::string_view name(DType dtype) {
  return kDTypeNames[static_cast<size_t>(dtype)];
}

// A size: a number, a symbol, or a sum of products of both such as "2*M + 1".
class Dim {
 public:
  template <std::integral Integer>
  Dim(Integer value) : text_(std::to_string(value)) {}
  Dim(const char* text) : text_(text) {}
  Dim(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// "bf16[M, 4096]"
inline std::string type_text(DType dtype, const std::vector<Dim>& shape) {
  std::string text(name(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) text.append(i ? ", " : "").append(shape[i].text());
  return text + ']';
}

namespace detail {

inline std::string take(attacca_bytes* bytes) {
  std::string text(attacca_bytes_data(bytes), attacca_bytes_size(bytes));
  attacca_bytes_free(bytes);
  return text;
}

// Texts that callers give, each after what it is.
using GivenTexts = std::vector<std::pair<std::string_view, std::string_view>>;

// A failure where a text holds a NUL: the C interface would drop the rest of it.
inline Status whole(const GivenTexts& texts) {
  for (const auto& [title, text] : texts)
    if (text.find('\0') != text.npos)
      return {"the " + std::string(title) + " has a NUL character", std::string(title),
              "take it out"};
  return {};
}

// As the C interface takes them. They refer to the texts of `sizes`, which are added to `texts`.
inline std::vector<attacca_size> given_sizes(
    const std::vector<std::pair<std::string, int64_t>>& sizes, GivenTexts& texts) {
  std::vector<attacca_size> given;
  for (const auto& [symbol, value] : sizes) {
    texts.emplace_back("size", symbol);
    given.push_back({symbol.c_str(), value});
  }
  return given;
}

// What `give` puts into its argument, as text.
template <class F>
Result<std::string> text_of(F give) {
  attacca_bytes* bytes = nullptr;
  if (Status status{give(&bytes)}; !status) return status;
  return take(bytes);
}

inline Result<int64_t> choices(attacca_status* (*move)(const char*, const char*, int64_t*),
                               const std::string& path, const std::string& device) {
  if (Status status = whole({{"path", path}, {"device", device}}); !status) return status;
  int64_t count = 0;
  if (Status status{move(device.c_str(), path.c_str(), &count)}; !status) return status;
  return count;
}

}  // namespace detail

// Where kernel templates are looked for: ATTACCA_TEMPLATE_DIR, else beside the library.
inline Result<std::string> template_directory() {
  return detail::text_of([](attacca_bytes** into) { return attacca_template_directory(into); });
}

// Where kernels and measurements are kept. It need not exist.
inline Result<std::string> cache_directory() {
  return detail::text_of([](attacca_bytes** into) { return attacca_cache_directory(into); });
}

// Names what decides how graphs are cut into regions and which kernels these get. What is measured
// of such decisions and kept belongs under it.
inline Result<std::string> decision_stamp() {
  return detail::text_of([](attacca_bytes** into) { return attacca_decision_stamp(into); });
}

// ---- Packed weights (docs/packed-weights.md): what a graph's `unpack` reads.

struct Packing {
  int64_t n = 0, k = 0;
  std::string weights = "s8";  // or "u8", "f8e4m3"
  int bits = 8;                // or 4 of s8 and u8, two a byte, the lower half first
  bool zeros = false;          // whether there are zero points
  int64_t group = 0;           // values of k that share a scale: 64, 128, ...; 0: all
  std::string scales = "f32";  // or "f16", "bf16"
};

// Host memory as attacca_weights_pack says; the result is the packed tensor's bytes.
inline Result<std::string> pack_weights(const Packing& packing, const void* weights,
                                        const void* scales, const void* zeros = nullptr) {
  if (Status status = detail::whole({{"weights", packing.weights}, {"scales", packing.scales}});
      !status)
    return status;
  const attacca_packing given{sizeof(attacca_packing),
                              packing.n,
                              packing.k,
                              packing.weights.c_str(),
                              packing.bits,
                              packing.zeros,
                              packing.group,
                              packing.scales.c_str()};
  return detail::text_of([&](attacca_bytes** into) {
    return attacca_weights_pack(&given, weights, scales, zeros, into);
  });
}

// What a packed tensor says of itself; all of it is verified.
inline Result<Packing> describe_weights(std::span<const std::byte> packed) {
  attacca_packing found{};
  found.size = sizeof found;
  if (Status status{attacca_weights_describe(packed.data(), packed.size(), &found)}; !status)
    return status;
  return Packing{found.n,          found.k,     found.weights, found.bits,
                 found.zeros != 0, found.group, found.scales};
}

// ---- Graphs

class Graph {
 public:
  // docs/text-format.md describes the text form.
  static Result<Graph> parse(const std::string& text) {
    return make({{"text", text}},
                [&](attacca_graph** into) { return attacca_graph_parse(text.c_str(), into); });
  }
  // .onnx: an ONNX model; any other name: the text form. `sizes`: numbers in place of a model's
  // symbols (attacca_graph_load_sized).
  static Result<Graph> load(const std::string& path,
                            const std::vector<std::pair<std::string, int64_t>>& sizes = {}) {
    detail::GivenTexts texts = {{"path", path}};
    const std::vector<attacca_size> given = detail::given_sizes(sizes, texts);
    return make(texts, [&](attacca_graph** into) {
      return attacca_graph_load_sized(path.c_str(), given.data(), given.size(), into);
    });
  }

  // An ONNX model in memory. `directory`: where its external data lies; empty: it has none.
  static Result<Graph> from_onnx(std::span<const std::byte> model,
                                 const std::string& directory = {},
                                 const std::vector<std::pair<std::string, int64_t>>& sizes = {}) {
    detail::GivenTexts texts = {{"directory", directory}};
    const std::vector<attacca_size> given = detail::given_sizes(sizes, texts);
    return make(texts, [&](attacca_graph** into) {
      return attacca_graph_from_onnx_sized(model.data(), model.size(),
                                           directory.empty() ? nullptr : directory.c_str(),
                                           given.data(), given.size(), into);
    });
  }

  Result<std::string> text() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_graph_text(handle(), into); });
  }
  // The graph with an input made a constant, such as a weight; `data`, row by row in host memory,
  // is copied.
  Result<Graph> with_constant(const std::string& input, std::span<const std::byte> data) const {
    return make({{"input", input}}, [&](attacca_graph** into) {
      return attacca_graph_with_constant(handle(), input.c_str(), data.data(), data.size(), into);
    });
  }

  // The same, with an error where `type`, the data's own such as "bf16[11008, 4096]", is not the
  // input's.
  Result<Graph> with_constant(const std::string& input, const std::string& type,
                              std::span<const std::byte> data) const {
    return make({{"input", input}, {"type", type}}, [&](attacca_graph** into) {
      return attacca_graph_with_typed_constant(handle(), input.c_str(), type.c_str(), data.data(),
                                               data.size(), into);
    });
  }

  const attacca_graph* handle() const { return handle_.get(); }

 private:
  friend class Builder;
  explicit Graph(attacca_graph* graph) : handle_(graph, attacca_graph_free) {}
  template <class F>
  static Result<Graph> make(const detail::GivenTexts& texts, F give) {
    if (Status status = detail::whole(texts); !status) return status;
    attacca_graph* graph = nullptr;
    if (Status status{give(&graph)}; !status) return status;
    return Graph(graph);
  }

  std::shared_ptr<attacca_graph> handle_;
};

// A value of a graph being built.
struct Value {
  attacca_value id = 0;
};

// What a parameter of a kernel of your own is passed: a value's address, that of the kernel's
// result, or a number.
class KernelArgument {
 public:
  KernelArgument(Value value) : value_(value) {}
  static KernelArgument result(DType dtype, const std::vector<Dim>& shape) {
    return KernelArgument(type_text(dtype, shape));
  }
  // "M", 4096; of a float dtype "0.5".
  static KernelArgument number(DType dtype, const Dim& number) {
    return KernelArgument(std::string(name(dtype)) + '(' + number.text() + ')');
  }
  const std::string& text() const { return text_; }
  attacca_kernel_argument handle() const {
    return {text_.empty() ? nullptr : text_.c_str(), value_.id};
  }

 private:
  explicit KernelArgument(std::string text) : text_(std::move(text)) {}
  std::string text_;
  Value value_;
};

// Builds a graph op by op. The first failure stays and is what finish() returns, so that calls can
// be written one in the other. For one thread.
class Builder {
 public:
  explicit Builder(const std::string& name = "main") {
    status_ = detail::whole({{"name", name}});
    if (!status_) return;
    attacca_builder* builder = nullptr;
    status_ = Status(attacca_builder_create(name.c_str(), &builder));
    handle_.reset(builder);
  }

  Value input(const std::string& name, const std::string& type) {
    return add({{"name", name}, {"type", type}}, [&](attacca_value* into) {
      return attacca_builder_input(handle_.get(), name.c_str(), type.c_str(), into);
    });
  }
  Value input(const std::string& name, DType dtype, const std::vector<Dim>& shape) {
    return input(name, type_text(dtype, shape));
  }
  // `data` is copied.
  Value constant(DType dtype, const std::vector<Dim>& shape, std::span<const std::byte> data) {
    const std::string type = type_text(dtype, shape);
    return add({{"type", type}}, [&](attacca_value* into) {
      return attacca_builder_constant(handle_.get(), type.c_str(), data.data(), data.size(), into);
    });
  }
  // An op by its name in the text form; `attributes`: what else stands in its brackets, "axis=-1".
  Value call(const std::string& op, const std::vector<Value>& operands,
             const std::string& attributes = {}) {
    std::vector<attacca_value> ids;
    for (const Value operand : operands) ids.push_back(operand.id);
    return add({{"op", op}, {"attributes", attributes}}, [&](attacca_value* into) {
      return attacca_builder_call(handle_.get(), op.c_str(), ids.data(), ids.size(),
                                  attributes.c_str(), into);
    });
  }
  // An expression over named values: compute("x / (1 + exp(-x))", {{"x", x}}).
  Value compute(const std::string& expression,
                const std::vector<std::pair<std::string, Value>>& values) {
    detail::GivenTexts texts = {{"expression", expression}};
    std::vector<const char*> names;
    std::vector<attacca_value> ids;
    for (const auto& [name, value] : values) {
      texts.emplace_back("name", name);
      names.push_back(name.c_str());
      ids.push_back(value.id);
    }
    return add(texts, [&](attacca_value* into) {
      return attacca_builder_compute(handle_.get(), expression.c_str(), names.data(), ids.data(),
                                     ids.size(), into);
    });
  }
  // A kernel of your own, one argument a parameter (docs/user-kernels.md). `launch` as the text
  // form has it: "entry=gemm, grid=[ceildiv(M, 64), 4], block=[256], shared=16384".
  Value kernel(const std::string& file, const std::vector<KernelArgument>& arguments,
               const std::string& launch) {
    detail::GivenTexts texts = {{"file", file}, {"launch", launch}};
    std::vector<attacca_kernel_argument> given;
    for (const KernelArgument& argument : arguments) {
      texts.emplace_back("argument", argument.text());
      given.push_back(argument.handle());
    }
    return add(texts, [&](attacca_value* into) {
      return attacca_builder_kernel(handle_.get(), file.c_str(), given.data(), given.size(),
                                    launch.c_str(), into);
    });
  }
  void output(Value value, const std::string& name = {}) {
    if (status_) status_ = detail::whole({{"name", name}});
    if (status_) status_ = Status(attacca_builder_output(handle_.get(), value.id, name.c_str()));
  }

  Status status() const { return status_; }
  Result<Graph> finish() const {
    if (!status_) return status_;
    return Graph::make(
        {}, [&](attacca_graph** into) { return attacca_builder_finish(handle_.get(), into); });
  }

 private:
  template <class F>
  Value add(const detail::GivenTexts& texts, F give) {
    Value value;
    if (status_) status_ = detail::whole(texts);
    if (status_) status_ = Status(give(&value.id));
    return value;
  }
  struct Free {
    void operator()(attacca_builder* builder) const { attacca_builder_free(builder); }
  };

  std::unique_ptr<attacca_builder, Free> handle_;
  Status status_;
};

// ---- Plans

enum class Mode : uint8_t { Fp32, Eager };
inline constexpr std::string_view kModeNames[] = {"fp32", "eager"};
// How a GPU's kernels are chosen for a shape: by the tuning database or the choices that come with
// Attacca, else a model; by these two, else measured; measured; never fused; or by the model,
// whatever is known.
enum class Tuning : uint8_t { Known, Measure, Always, Unfused, Model };
inline constexpr std::string_view kTuningNames[] = {"known", "measure", "always", "unfused",
                                                    "model"};

struct Options {
  std::string device = "cpu";  // "cuda", "cuda:1"
  Mode mode = Mode::Fp32;
  Tuning tuning = Tuning::Known;
  double tuning_seconds = 0;  // the most that measuring one region may take; 0: the default
  int threads = 0;            // of the CPU; 0: all cores
  bool fuse = true;           // false: every op on its own
  // The bits of a row of a product do not depend on how many rows there are. A GPU's kernels are
  // then chosen by the model, and the vendor library is not used (docs/numerics.md).
  bool batch_invariant = false;
};

struct TensorInfo {
  std::string name;
  std::string dtype;  // "bf16"
  std::string type;   // "bf16[M, 4096]"
  std::vector<std::string> shape;
};

// How a region is computed on a GPU.
struct Decision {
  std::string candidate, source;
  double seconds = 0, unfused_seconds = 0;  // where known, else 0
  int together = 1;    // how many regions are computed by one launch: this one's
  std::string remark;  // why it was not measured, or what failed; usually empty
};

struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

// Success where the device can be used, else the reason.
inline Status check_device(const std::string& device) {
  if (Status status = detail::whole({{"device", device}}); !status) return status;
  return Status(attacca_device_check(device.c_str()));
}

// Writes the tuning database's choices of a GPU to a file, and stores such a file's, all of them or
// none. Returns how many. (attacca_choices_export, attacca_choices_import)
inline Result<int64_t> export_choices(const std::string& path, const std::string& device = "cuda") {
  return detail::choices(attacca_choices_export, path, device);
}
inline Result<int64_t> import_choices(const std::string& path, const std::string& device = "cuda") {
  return detail::choices(attacca_choices_import, path, device);
}

// A page of HTML, of the JSON that `attacca tune --json` prints or that a report of attacca.torch
// gives.
inline Result<std::string> report_page(const std::string& json) {
  if (Status status = detail::whole({{"json", json}}); !status) return status;
  return detail::text_of(
      [&](attacca_bytes** into) { return attacca_report_page(json.c_str(), into); });
}

// A plan for certain sizes, ready to run.
class Instance {
 public:
  // Memory that a run needs on the device, aligned to 256 bytes.
  size_t workspace_bytes() const { return attacca_instance_workspace(handle()); }
  // REQUIRES: an index below the plan's number of inputs or outputs.
  std::vector<int64_t> input_shape(size_t index) const {
    size_t rank = 0;
    const int64_t* shape = attacca_instance_input_shape(handle(), index, &rank);
    return {shape, shape + rank};
  }
  std::vector<int64_t> output_shape(size_t index) const {
    size_t rank = 0;
    const int64_t* shape = attacca_instance_output_shape(handle(), index, &rank);
    return {shape, shape + rank};
  }
  size_t input_bytes(size_t index) const { return attacca_instance_input_bytes(handle(), index); }
  size_t output_bytes(size_t index) const { return attacca_instance_output_bytes(handle(), index); }

  // Addresses of all inputs and outputs in the plan's order. On a GPU: device addresses; puts the
  // work on the stream (a CUstream or cudaStream_t), allocates nothing, waits for nothing; runs at
  // the same time need workspaces of their own. On the CPU: host addresses, no stream; returns when
  // it is done. An output that overlaps anything else is refused (attacca_instance_run).
  Status run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
             Workspace workspace = {}, void* stream = nullptr) const {
    return Status(attacca_instance_run(handle(), inputs.data(), inputs.size(), outputs.data(),
                                       outputs.size(), workspace.data, workspace.bytes, stream));
  }

  std::vector<Decision> decisions() const {
    std::vector<Decision> all;
    for (size_t i = 0; i < attacca_instance_decision_count(handle()); ++i) {
      attacca_decision made = {};
      if (!Status(attacca_instance_decision(handle(), i, &made))) break;
      all.push_back({made.candidate, made.source, made.seconds, made.unfused_seconds,
                     attacca_instance_decision_together(handle(), i),
                     attacca_instance_decision_remark(handle(), i)});
    }
    return all;
  }
  // With every candidate timed and every one left out.
  Result<std::string> decisions_json() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_instance_decisions_json(handle(), into); });
  }

  const attacca_instance* handle() const { return handle_.get(); }

 private:
  friend class Plan;
  explicit Instance(attacca_instance* instance) : handle_(instance, attacca_instance_free) {}
  std::shared_ptr<attacca_instance> handle_;
};

// Words in memory that a part awaits, and the one that it writes behind its results: no address,
// nothing.
using Awaited = attacca_awaited;
using Reported = attacca_reported;

// A plan of one product, or gate, and what follows it, computed several times by one launch on a
// GPU (attacca_parts_run).
class Parts {
 public:
  std::string candidate() const { return attacca_parts_candidate(handle()); }
  bool input_may_be_null(size_t input) const {
    return attacca_parts_input_may_be_null(handle(), input) != 0;
  }
  // Device addresses of all inputs and outputs, first those of the first part. `awaited`,
  // `reported`: one for each part, or none.
  Status run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
             const std::vector<Awaited>& awaited = {}, const std::vector<Reported>& reported = {},
             void* stream = nullptr) const {
    return Status(attacca_parts_run(handle(), inputs.data(), inputs.size(), outputs.data(),
                                    outputs.size(), awaited.data(), awaited.size(), reported.data(),
                                    reported.size(), stream));
  }

  const attacca_parts* handle() const { return handle_.get(); }

 private:
  friend class Plan;
  explicit Parts(attacca_parts* parts) : handle_(parts, attacca_parts_free) {}
  std::shared_ptr<attacca_parts> handle_;
};

// The alignment of an address as Plan::prepare takes it: the largest power of two, at most 16, that
// divides it.
inline int32_t alignment_of(const void* address) {
  const auto low = static_cast<int32_t>(reinterpret_cast<uintptr_t>(address) & 15);
  return low == 0 ? 16 : low & -low;
}

class Plan {
 public:
  static Result<Plan> compile(const Graph& graph, const Options& options = {}) {
    const attacca_options given = to_c(options);
    return make({{"device", options.device}}, [&](attacca_plan** into) {
      return attacca_plan_compile(graph.handle(), &given, into);
    });
  }
  // D = epilogue(A x B): a: dtype[M, K], b: dtype[N, K] ("nk") or dtype[K, N] ("kn"), then the
  // operands that the epilogue names: "silu(acc + row(bias)) * full(res)". "groups nk" and so on:
  // of a grouped product, as attacca_matmul_plan says.
  static Result<Plan> matmul(DType dtype, const std::string& b_layout, const std::string& epilogue,
                             DType out_dtype, const Options& options = {}) {
    const attacca_options given = to_c(options);
    const detail::GivenTexts texts = {
        {"device", options.device}, {"b_layout", b_layout}, {"epilogue", epilogue}};
    return make(texts, [&](attacca_plan** into) {
      return attacca_matmul_plan(name(dtype).data(), b_layout.c_str(), epilogue.c_str(),
                                 name(out_dtype).data(), &given, into);
    });
  }

  // A plan as bytes that say all about themselves: graph, constants, mode, device, and the choices
  // of kernels for the shapes prepared so far. `device`: another than the plan's own.
  Result<std::string> serialize() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_plan_serialize(handle(), into); });
  }
  static Result<Plan> deserialize(std::string_view bytes, const std::string& device = {}) {
    return make({{"device", device}}, [&](attacca_plan** into) {
      return attacca_plan_deserialize(bytes.data(), bytes.size(), or_null(device), into);
    });
  }
  Status save(const std::string& path) const {
    if (Status status = detail::whole({{"path", path}}); !status) return status;
    return Status(attacca_plan_save(handle(), path.c_str()));
  }
  // The same with the kernels of the instances prepared so far (attacca_plan_save_bundle).
  Status save_bundle(const std::string& path) const {
    if (Status status = detail::whole({{"path", path}}); !status) return status;
    return Status(attacca_plan_save_bundle(handle(), path.c_str()));
  }
  static Result<Plan> load(const std::string& path, const std::string& device = {}) {
    return make({{"path", path}, {"device", device}}, [&](attacca_plan** into) {
      return attacca_plan_load(path.c_str(), or_null(device), into);
    });
  }

  std::string device() const { return attacca_plan_device(handle()); }
  std::string mode() const { return attacca_plan_mode(handle()); }
  bool batch_invariant() const { return attacca_plan_batch_invariant(handle()) != 0; }
  std::vector<TensorInfo> inputs() const {
    return tensors(attacca_plan_input_count(handle()), attacca_plan_input);
  }
  std::vector<TensorInfo> outputs() const {
    return tensors(attacca_plan_output_count(handle()), attacca_plan_output);
  }
  // Names of the sizes that prepare() wants.
  std::vector<std::string> symbols() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < attacca_plan_symbol_count(handle()); ++i)
      names.emplace_back(attacca_plan_symbol(handle(), i));
    return names;
  }
  // The graph in the text form as it was compiled, before folding.
  Result<std::string> graph_text() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_plan_graph_text(handle(), into); });
  }
  Result<std::string> explain_text() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_plan_explain_text(handle(), into); });
  }
  Result<std::string> explain_json() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_plan_explain_json(handle(), into); });
  }
  // For Graphviz: one cluster a region.
  Result<std::string> explain_dot() const {
    return detail::text_of(
        [&](attacca_bytes** into) { return attacca_plan_explain_dot(handle(), into); });
  }

  // `alignments`: bytes to which the addresses of the inputs, then the outputs, will be aligned;
  // empty: 16 each. The first time for a shape kernels may be compiled, and measured where the
  // options say so.
  // `strides`: of the inputs, then the outputs, in elements, where tensors lie otherwise than the
  // plan says (attacca_plan_prepare_strided); an empty one, or none at all: as it says.
  Result<Instance> prepare(const std::vector<std::pair<std::string, int64_t>>& sizes = {},
                           const std::vector<int32_t>& alignments = {},
                           const std::vector<std::vector<int64_t>>& strides = {}) const {
    detail::GivenTexts texts;
    const std::vector<attacca_size> given = detail::given_sizes(sizes, texts);
    if (Status status = detail::whole(texts); !status) return status;
    std::vector<const int64_t*> laid_out;
    for (const std::vector<int64_t>& each : strides) {
      if (Status status = check_strides(laid_out.size(), each); !status) return status;
      laid_out.push_back(each.empty() ? nullptr : each.data());
    }
    attacca_instance* instance = nullptr;
    if (Status status{attacca_plan_prepare_strided(handle(), given.data(), given.size(),
                                                   alignments.data(), alignments.size(),
                                                   laid_out.data(), laid_out.size(), &instance)};
        !status)
      return status;
    return Instance(instance);
  }

  // `sizes`, `alignments`: of each of 2 to 8 parts (attacca_plan_prepare_parts).
  Result<Parts> prepare_parts(const std::vector<std::pair<std::string, int64_t>>& sizes,
                              const std::vector<int32_t>& alignments, size_t parts) const {
    detail::GivenTexts texts;
    const std::vector<attacca_size> given = detail::given_sizes(sizes, texts);
    if (Status status = detail::whole(texts); !status) return status;
    attacca_parts* made = nullptr;
    if (Status status(attacca_plan_prepare_parts(handle(), given.data(), given.size(),
                                                 alignments.data(), alignments.size(), parts,
                                                 &made));
        !status)
      return status;
    return Parts(made);
  }

  const attacca_plan* handle() const { return handle_.get(); }

 private:
  explicit Plan(attacca_plan* plan) : handle_(plan, attacca_plan_free) {}
  template <class F>
  static Result<Plan> make(const detail::GivenTexts& texts, F give) {
    if (Status status = detail::whole(texts); !status) return status;
    attacca_plan* plan = nullptr;
    if (Status status{give(&plan)}; !status) return status;
    return Plan(plan);
  }
  static const char* or_null(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
  }
  static attacca_options to_c(const Options& options) {
    return {sizeof(attacca_options),
            options.device.c_str(),
            kModeNames[static_cast<size_t>(options.mode)].data(),
            kTuningNames[static_cast<size_t>(options.tuning)].data(),
            options.tuning_seconds,
            options.threads,
            options.fuse ? 0 : 1,
            options.batch_invariant ? 1 : 0};
  }
  template <class F>
  std::vector<TensorInfo> tensors(size_t count, F get) const {
    std::vector<TensorInfo> all;
    for (size_t i = 0; i < count; ++i) {
      attacca_tensor_info info = {};
      if (!Status(get(handle(), i, &info))) break;
      all.push_back({info.name, info.dtype, info.type, {info.shape, info.shape + info.rank}});
    }
    return all;
  }
  // Of the input of this number, or the output after the inputs: none, or one for each axis.
  Status check_strides(size_t number, const std::vector<int64_t>& strides) const {
    const size_t count = attacca_plan_input_count(handle());
    attacca_tensor_info info = {};
    const Status known{number < count ? attacca_plan_input(handle(), number, &info)
                                      : attacca_plan_output(handle(), number - count, &info)};
    // What is not there, attacca_plan_prepare_strided refuses.
    if (!known || strides.empty() || strides.size() == info.rank) return {};
    return {std::to_string(strides.size()) + " strides for " + info.type, info.name,
            "give one for each axis, or none"};
  }

  std::shared_ptr<attacca_plan> handle_;
};

// ---- A GPU's memory, streams and events

// How many GPUs the driver has.
inline Result<int> device_count() {
  int32_t count = 0;
  if (Status status{attacca_device_count(&count)}; !status) return status;
  return int{count};
}

// The functions are attacca_device_..., attacca_stream_... and attacca_event_... of attacca.h.
class Device {
 public:
  static Result<Device> open(const std::string& name) {
    if (Status status = detail::whole({{"device", name}}); !status) return status;
    attacca_device* device = nullptr;
    if (Status status{attacca_device_open(name.c_str(), &device)}; !status) return status;
    return Device(device);
  }
  std::string name() const { return attacca_device_name(handle()); }

  Result<void*> allocate(size_t bytes) const { return made(attacca_device_allocate, bytes); }
  Status release(void* memory) const { return Status(attacca_device_release(handle(), memory)); }
  Result<void*> allocate_host(size_t bytes) const {
    return made(attacca_device_allocate_host, bytes);
  }
  Status release_host(void* memory) const {
    return Status(attacca_device_release_host(handle(), memory));
  }
  Status upload(void* to, const void* from, size_t bytes, void* stream) const {
    return Status(attacca_device_upload(handle(), to, from, bytes, stream));
  }
  Status download(void* to, const void* from, size_t bytes, void* stream) const {
    return Status(attacca_device_download(handle(), to, from, bytes, stream));
  }
  Status copy(void* to, const void* from, size_t bytes, void* stream) const {
    return Status(attacca_device_copy(handle(), to, from, bytes, stream));
  }

  Status synchronize() const { return Status(attacca_device_synchronize(handle())); }
  Result<void*> create_stream() const { return made(attacca_stream_create); }
  Status destroy_stream(void* stream) const {
    return Status(attacca_stream_destroy(handle(), stream));
  }
  Status synchronize(void* stream) const {
    return Status(attacca_stream_synchronize(handle(), stream));
  }
  Status wait(void* stream, void* event) const {
    return Status(attacca_stream_wait(handle(), stream, event));
  }
  Status wait_value(void* stream, const uint32_t* word, uint32_t value) const {
    return Status(attacca_stream_wait_value(handle(), stream, word, value));
  }
  Status write_value(void* stream, uint32_t* word, uint32_t value) const {
    return Status(attacca_stream_write_value(handle(), stream, word, value));
  }
  Result<void*> create_event() const { return made(attacca_event_create); }
  Status destroy_event(void* event) const { return Status(attacca_event_destroy(handle(), event)); }
  Status record(void* event, void* stream) const {
    return Status(attacca_event_record(handle(), event, stream));
  }
  Status synchronize_event(void* event) const {
    return Status(attacca_event_synchronize(handle(), event));
  }

  const attacca_device* handle() const { return handle_.get(); }

 private:
  explicit Device(attacca_device* device) : handle_(device, attacca_device_free) {}
  template <class F, class... Arguments>
  Result<void*> made(F make, Arguments... arguments) const {
    void* thing = nullptr;
    if (Status status{make(handle(), arguments..., &thing)}; !status) return status;
    return thing;
  }

  std::shared_ptr<attacca_device> handle_;
};

// Tuning by many processes: attacca.h says what each function does.
inline Result<std::string> machine_json(const std::string& device = "cuda") {
  if (Status status = detail::whole({{"device", device}}); !status) return status;
  return detail::text_of(
      [&](attacca_bytes** into) { return attacca_machine_json(device.c_str(), into); });
}
inline Result<std::string> graph_symbols(const Graph& graph) {
  return detail::text_of(
      [&](attacca_bytes** into) { return attacca_graph_symbols(graph.handle(), into); });
}
inline Result<std::string> graph_problems(const Graph& graph, const std::string& device, Mode mode,
                                          const std::vector<std::pair<std::string, int64_t>>& sizes,
                                          bool batch_invariant = false) {
  const std::string mode_text = std::string(kModeNames[static_cast<size_t>(mode)]) +
                                (batch_invariant ? "+batch_invariant" : "");
  detail::GivenTexts texts = {{"device", device}};
  const std::vector<attacca_size> given = detail::given_sizes(sizes, texts);
  if (Status status = detail::whole(texts); !status) return status;
  return detail::text_of([&](attacca_bytes** into) {
    return attacca_graph_problems(graph.handle(), device.c_str(), mode_text.c_str(), given.data(),
                                  given.size(), into);
  });
}
inline Result<std::string> tune_problem(const std::string& problem, const std::string& device,
                                        Tuning tuning = Tuning::Measure, double seconds = 0) {
  if (Status status = detail::whole({{"problem", problem}, {"device", device}}); !status)
    return status;
  return detail::text_of([&](attacca_bytes** into) {
    return attacca_problem_tune(problem.c_str(), device.c_str(),
                                kTuningNames[static_cast<size_t>(tuning)].data(), seconds, into);
  });
}
// While one is alive, the processes that time kernels are kept for later tunings.
class KeepWorkers {
 public:
  KeepWorkers() { attacca_workers_keep(); }
  ~KeepWorkers() { attacca_workers_release(); }
  KeepWorkers(const KeepWorkers&) = delete;
  KeepWorkers& operator=(const KeepWorkers&) = delete;
};
inline Result<std::string> list_choices() {
  return detail::text_of([](attacca_bytes** into) { return attacca_choices_list(into); });
}
inline Result<int64_t> store_choices(const std::string& json) {
  if (Status status = detail::whole({{"json", json}}); !status) return status;
  int64_t count = 0;
  if (Status status{attacca_choices_store(json.c_str(), &count)}; !status) return status;
  return count;
}
inline Result<int64_t> write_choices(const std::string& device, const std::string& tools,
                                     const std::string& path) {
  if (Status status = detail::whole({{"device", device}, {"tools", tools}, {"path", path}});
      !status)
    return status;
  int64_t count = 0;
  if (Status status{attacca_choices_write(device.c_str(), tools.c_str(), path.c_str(), &count)};
      !status)
    return status;
  return count;
}

}  // namespace interface0
}  // namespace attacca
