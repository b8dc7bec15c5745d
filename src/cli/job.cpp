#include "cli/job.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "fmt/format.h"

#include "cli/commands.hpp"
#include "import/files/npy.hpp"
#include "import/files/safetensors.hpp"
#include "ir/packed/header.hpp"
#include "ir/packed/packed.hpp"
#include "ir/text/lexer.hpp"
#include "run/pipeline.hpp"

namespace attacca::cli {
namespace {

constexpr int64_t kDefaultDim = 128;  // of a symbol that nothing binds

Result<int64_t> parse_size(const std::string& text, const std::string& option) {
  int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 0)
    return fail(fmt::format("{} is no size", text), option, "use a whole number >= 0");
  return size;
}

// A .npy file, or a tensor of a file as FILE.safetensors:NAME.
Result<ir::Tensor> read_tensor(const std::string& path, ir::DType dtype) {
  constexpr std::string_view kSafetensors = ".safetensors:";
  const size_t at = path.find(kSafetensors);
  if (at == std::string::npos) return import::read_npy(path, dtype);
  const size_t end = at + kSafetensors.size();
  ATTACCA_TRY(auto reader, import::SafetensorsReader::open(path.substr(0, end - 1)));
  const import::SafetensorsEntry* entry = reader.header().find(path.substr(end));
  if (entry == nullptr)
    return fail(fmt::format("the file has no tensor {}", path.substr(end)), path,
                "write FILE.safetensors:NAME");
  return reader.read(*entry);
}

// Packed weights must be what the graph unpacks.
Status check_packing(const ir::Graph& graph, ir::Value input, const ir::Tensor& tensor) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::Unpack || node.operands[0] != input) continue;
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.get<ir::UnpackAttrs>()));
    ATTACCA_TRY(const ir::Tensor dense, tensor.contiguous());
    const std::span<const std::byte> bytes(dense.data(), static_cast<size_t>(dense.bytes()));
    if (Status fits = ir::check_packed(bytes, layout); !fits)
      return fail(fits.error().what, graph[input].name, fits.error().fix);
  }
  return {};
}

// "M=1,16" and "K=8": the combinations ["M=1", "K=8"], ["M=16", "K=8"].
Result<std::vector<std::vector<std::string>>> combinations(const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto pairs, parse_pairs(texts, "--dim"));
  std::vector<std::vector<std::string>> all = {{}};
  for (const auto& [name, list] : pairs) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& each : all) {
      std::istringstream sizes(list);
      for (std::string size; std::getline(sizes, size, ',');) {
        longer.push_back(each);
        longer.back().push_back(name + "=" + size);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

Result<Job> load_job(const std::string& file, const std::vector<std::string>& dims) {
  Job job;
  auto graph = run::load_graph(file);
  const bool several = std::any_of(dims.begin(), dims.end(), [](const std::string& text) {
    return text.find(',') != std::string::npos;
  });
  if (!graph && !dims.empty() && !several) {
    ATTACCA_TRY(const auto pairs, parse_pairs(dims, "--dim"));
    for (const auto& [name, text] : pairs) {
      ATTACCA_TRY(job.fixed[name], parse_size(text, "--dim"));
    }
    graph = run::load_graph(file, job.fixed);
  }
  ATTACCA_TRY(job.graph, std::move(graph));
  ATTACCA_TRY_VOID(ir::verify(job.graph));
  return job;
}

Status read_inputs(Job& job, const std::vector<std::string>& texts) {
  const ir::Graph& graph = job.graph;
  ATTACCA_TRY(const auto files, parse_pairs(texts, "--input"));
  for (const auto& [name, path] : files) {
    const auto value = graph.find(name);
    if (!value || graph[*value].op != ir::Op::Input) {
      std::vector<std::string> names;
      for (const ir::Value input : graph.inputs()) names.push_back(graph[input].name);
      return fail(fmt::format("the graph has no input {}", name), "--input",
                  fmt::format("its inputs are {}", fmt::join(names, ", ")));
    }
    ATTACCA_TRY(ir::Tensor tensor, read_tensor(path, graph.type(*value).dtype));
    ATTACCA_TRY_VOID(check_packing(graph, *value, tensor));
    job.inputs.emplace(name, std::move(tensor));
  }
  return {};
}

Status bind_dims(Job& job, const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto pairs, parse_pairs(texts, "--dim"));
  const std::vector<std::string> known = job.graph.symbols();
  for (const auto& [name, text] : pairs) {
    if (job.fixed.count(name) != 0) continue;
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(fmt::format("the graph has no dimension {}", name), "--dim",
                  known.empty() ? "all its dimensions are fixed"
                                : fmt::format("its dimensions are {}", fmt::join(known, ", ")));
    ATTACCA_TRY(job.symbols[name], parse_size(text, "--dim"));
  }
  for (const auto& [name, tensor] : job.inputs) {
    const ir::Shape& shape = job.graph.type(*job.graph.find(name)).shape;
    for (size_t axis = 0; axis < std::min(shape.size(), tensor.shape().size()); ++axis)
      for (const std::string& symbol : known) {
        if (!(shape[axis] == ir::Dim::symbol(symbol))) continue;
        const auto slot = job.symbols.emplace(symbol, tensor.shape()[axis]).first;
        if (slot->second != tensor.shape()[axis])
          return fail(fmt::format("dimension {} is {} elsewhere and {} in input {}", symbol,
                                  slot->second, tensor.shape()[axis], name),
                      "--input", "give sizes and files that agree");
      }
  }
  for (const std::string& symbol : known)
    if (job.symbols.emplace(symbol, kDefaultDim).second) job.assumed.push_back(symbol);
  return {};
}

Result<std::vector<ir::SymbolValues>> sizes_of(const Job& job,
                                               const std::vector<std::string>& texts) {
  ATTACCA_TRY(const auto all, combinations(texts));
  std::vector<ir::SymbolValues> sizes;
  for (const std::vector<std::string>& each : all) {
    Job bound{job.graph, job.fixed, {}, {}, {}};
    ATTACCA_TRY_VOID(bind_dims(bound, each));
    sizes.push_back(std::move(bound.symbols));
  }
  return sizes;
}

std::string sizes_text(const ir::SymbolValues& symbols) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : symbols) parts.push_back(fmt::format("{}={}", name, size));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string dims_line(const Job& job) {
  std::vector<std::string> dims;
  for (const auto& [name, size] : job.symbols) dims.push_back(fmt::format("{}={}", name, size));
  if (dims.empty()) return {};
  return fmt::format(
      "dimensions: {}{}\n", fmt::join(dims, ", "),
      job.assumed.empty() ? "" : fmt::format(" (assumed: {})", fmt::join(job.assumed, ", ")));
}

// Names come from models: no file may be outside of the folder or overwrite another.
Result<std::vector<std::string>> output_files(const std::vector<std::string>& outputs,
                                              const std::string& folder) {
  constexpr size_t kLongest =
      220;  // a file's name has 255 bytes, ".npy" and its draft's among them
  std::vector<std::string> files;
  std::map<std::string, std::string> taken;
  for (const std::string& output : outputs) {
    std::string file = output + ".npy";
    std::replace(file.begin(), file.end(), '/', '_');
    const std::string name = ir::encode_name(output);
    if (output.size() > kLongest)
      return fail(fmt::format("output {} has a name of {} bytes, a file takes {}", name,
                              output.size(), kLongest),
                  "--output", "give the output a shorter name");
    const auto [other, fresh] = taken.emplace(file, name);
    if (!fresh)
      return fail(fmt::format("outputs {} and {} would both be {}", other->second, name, file),
                  "--output", "give each output of the model a name of its own");
    files.push_back(fmt::format("{}/{}", folder, file));
  }
  return files;
}

Status write_outputs(const std::vector<std::string>& names, const std::vector<ir::Tensor>& outputs,
                     const std::string& folder) {
  ATTACCA_TRY(const std::vector<std::string> files, output_files(names, folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(fmt::format("cannot make {}: {}", folder, error.message()), "--output");
  for (size_t i = 0; i < outputs.size(); ++i)
    ATTACCA_TRY_VOID(import::write_npy(files[i], outputs[i]));
  return {};
}

std::vector<std::string> output_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

}  // namespace attacca::cli
