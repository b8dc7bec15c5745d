#include "import/pack_weights.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <map>
#include <memory>
#include <set>

#include "fmt/format.h"

#include "import/safetensors.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Packing;

constexpr std::string_view kScaleSuffixes[] = {"_scale", "_scales", ".scale"};
constexpr std::string_view kZeroSuffixes[] = {"_zero_point", ".zero_point"};
constexpr std::string_view kKey = "attacca.unpack.";

// A tensor of the file to be written, and how its bytes come about.
struct Job {
  SafetensorsEntry entry;
  uint64_t bytes = 0;
  std::function<Status(SafetensorsWriter&)> write;
};

template <size_t N>
const SafetensorsEntry* companion(const SafetensorsHeader& header, const std::string& name,
                                  const std::string_view (&suffixes)[N]) {
  for (const std::string_view suffix : suffixes)
    if (const SafetensorsEntry* found = header.find(name + std::string(suffix))) return found;
  return nullptr;
}

bool chosen(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

// One weight and what stands beside it.
struct Weight {
  SafetensorsEntry codes, scales;
  std::optional<SafetensorsEntry> zeros;
  ir::PackedLayout layout;
};

Result<int64_t> group_of(const Weight& weight, int64_t k) {
  const std::vector<int64_t>& shape = weight.scales.shape;
  const int64_t groups = shape.size() == 2 ? shape[1] : 1;
  if (groups == 1) return 0;
  for (int64_t group = 64; group < k; group *= 2)
    if ((k + group - 1) / group == groups) return group;
  return fail(
      fmt::format("{} has scales {} for K = {}", weight.codes.name, ir::to_string(shape), k),
      weight.scales.name, "groups have 64, 128 or a larger power of two values of k");
}

Result<Weight> describe(const SafetensorsHeader& header, const SafetensorsEntry& codes, int bits) {
  Weight weight{codes, *companion(header, codes.name, kScaleSuffixes), std::nullopt, {}};
  if (const auto* zeros = companion(header, codes.name, kZeroSuffixes)) weight.zeros = *zeros;
  const auto dtype = dtype_of(codes), scales = dtype_of(weight.scales);
  if (!dtype || !scales || codes.shape.size() != 2)
    return fail(fmt::format("{} is {}{} with {} scales", codes.name, codes.dtype,
                            ir::to_string(codes.shape), weight.scales.dtype),
                codes.name, "pack matrices (N, K) alone: choose them with --only");
  Packing packing{.weights = *dtype,
                  .bits = *dtype == DType::F8E4M3 ? 8 : bits,
                  .scales = *scales,
                  .zeros = weight.zeros.has_value()};
  const int64_t k = packing.bits == 4 ? codes.shape[1] * 2 : codes.shape[1];
  ATTACCA_TRY(packing.group, group_of(weight, k));
  auto layout = ir::packed_layout(packing, codes.shape[0], k);
  if (!layout) return fail(layout.error().what, codes.name, layout.error().mend);
  weight.layout = *layout;
  return weight;
}

Result<ir::Tensor> packed_tensor(SafetensorsReader& reader, const Weight& weight) {
  ir::Quantized from;
  ATTACCA_TRY(from.weights, reader.read(weight.codes));
  ATTACCA_TRY(from.scales, reader.read(weight.scales));
  if (weight.zeros) {
    ATTACCA_TRY(from.zeros, reader.read(*weight.zeros));
  }
  auto packed = ir::pack(from, weight.layout.packing);
  if (!packed) return fail(packed.error().what, weight.codes.name, packed.error().mend);
  return packed;
}

Status write_tensor(SafetensorsWriter& writer, const ir::Tensor& tensor) {
  return writer.write(tensor.data(), static_cast<uint64_t>(tensor.bytes()));
}

Job copy_job(SafetensorsReader& reader, const SafetensorsEntry& entry) {
  return {entry, entry.bytes(), [&reader, entry](SafetensorsWriter& writer) -> Status {
            std::vector<char> bytes;
            ATTACCA_TRY_VOID(reader.read(entry, bytes));
            return writer.write(bytes.data(), bytes.size());
          }};
}

// All jobs' tensors, in their order.
Status write_file(const std::string& path, std::vector<Job>& jobs,
                  std::vector<std::pair<std::string, std::string>> metadata,
                  const PackProgress& progress) {
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  std::vector<uint64_t> sizes;
  double total = 0, done = 0;
  for (const Job& job : jobs) {
    header.entries.push_back(job.entry);
    sizes.push_back(job.bytes);
    total += static_cast<double>(job.bytes);
  }
  place_entries(header, sizes);
  ATTACCA_TRY(SafetensorsWriter writer, SafetensorsWriter::create(path, std::move(header)));
  for (Job& job : jobs) {
    if (progress) progress(total > 0 ? done / total : 0, job.entry.name);
    ATTACCA_TRY_VOID(job.write(writer));
    done += static_cast<double>(job.bytes);
  }
  return writer.commit();
}

// How a graph unpacks a weight, and where unpack_file puts scales and zero points back. "row": (N)
// in the file, not (N, 1).
std::string unpack_text(const Weight& weight) {
  const auto companion_text = [](const char* what, const SafetensorsEntry& entry) {
    return fmt::format("; {}{} {}", entry.shape.size() == 1 ? "row " : "", what, entry.name);
  };
  return fmt::format("unpack({}, [{}, {}], {}){}{}", weight.codes.name, weight.layout.n,
                     weight.layout.k, to_string(weight.layout.packing),
                     companion_text("scales", weight.scales),
                     weight.zeros ? companion_text("zeros", *weight.zeros) : "");
}

// The entry of scales or zero points as unpack_text wrote it down.
SafetensorsEntry companion_entry(const std::string& text, std::string_view what,
                                 const std::string& otherwise, DType dtype,
                                 const ir::PackedLayout& layout) {
  SafetensorsEntry entry{
      otherwise, std::string(*safetensors_dtype(dtype)), {layout.n, layout.groups}, 0, 0};
  for (const bool row : {false, true}) {
    const std::string key = fmt::format("; {}{} ", row ? "row " : "", what);
    const size_t at = text.find(key);
    if (at == std::string::npos) continue;
    const size_t begin = at + key.size();
    entry.name = text.substr(begin, text.find("; ", begin) - begin);
    if (row && layout.groups == 1) entry.shape = {layout.n};
  }
  return entry;
}

// A packed weight that is unpacked when its first part is written, and forgotten after its last.
struct Unpacking {
  SafetensorsReader& reader;
  const SafetensorsEntry entry;
  ir::PackedLayout layout = {};
  std::optional<ir::Quantized> weights = {};

  // Reads and verifies all of it, twice: a file is written only where every weight is intact.
  Result<std::vector<char>> bytes() {
    std::vector<char> read;
    ATTACCA_TRY_VOID(reader.read(entry, read));
    auto verified = ir::verify_packed(std::as_bytes(std::span(read)));
    if (!verified) return fail(verified.error().what, entry.name, verified.error().mend);
    layout = *verified;
    return read;
  }
  Status load() {
    if (weights) return {};
    ATTACCA_TRY(const std::vector<char> read, bytes());
    ATTACCA_TRY(weights, ir::unpack(std::as_bytes(std::span(read))));
    return {};
  }
};

using Part = const ir::Tensor& (*)(const ir::Quantized&);

Job part_job(std::shared_ptr<Unpacking> from, SafetensorsEntry entry, DType dtype, Part part,
             bool last) {
  uint64_t bytes = static_cast<uint64_t>(ir::size_of(dtype));
  for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
  return {std::move(entry), bytes, [from, part, last](SafetensorsWriter& writer) -> Status {
            ATTACCA_TRY_VOID(from->load());
            const Status written = write_tensor(writer, part(*from->weights));
            if (last) from->weights.reset();
            return written;
          }};
}

void add_parts(const std::shared_ptr<Unpacking>& from, const std::string& text,
               std::vector<Job>& jobs) {
  const ir::PackedLayout& layout = from->layout;
  const Packing& packing = layout.packing;
  const std::string& name = from->entry.name;
  const int64_t columns = packing.bits == 4 ? layout.k / 2 : layout.k;
  jobs.push_back(part_job(
      from, {name, std::string(*safetensors_dtype(packing.weights)), {layout.n, columns}, 0, 0},
      packing.weights, [](const auto& all) -> auto& { return all.weights; }, false));
  jobs.push_back(part_job(
      from, companion_entry(text, "scales", name + "_scale", packing.scales, layout),
      packing.scales, [](const auto& all) -> auto& { return all.scales; }, !packing.zeros));
  if (packing.zeros)
    jobs.push_back(part_job(
        from, companion_entry(text, "zeros", name + "_zero_point", packing.weights, layout),
        packing.weights, [](const auto& all) -> auto& { return *all.zeros; }, true));
}

}  // namespace

Result<std::vector<PackedWeight>> pack_file(const std::string& from, const std::string& to,
                                            const PackOptions& options,
                                            const PackProgress& progress) {
  ATTACCA_TRY(SafetensorsReader reader, SafetensorsReader::open(from));
  const SafetensorsHeader& header = reader.header();
  std::map<std::string, Weight> weights;
  std::set<std::string> absorbed;
  for (const SafetensorsEntry& entry : header.entries) {
    if (!companion(header, entry.name, kScaleSuffixes) || !chosen(entry.name, options.only))
      continue;
    ATTACCA_TRY(Weight weight, describe(header, entry, options.bits));
    absorbed.insert(weight.scales.name);
    if (weight.zeros) absorbed.insert(weight.zeros->name);
    weights.emplace(entry.name, std::move(weight));
  }
  if (weights.empty())
    return fail(fmt::format("{} holds no weights to pack", from), from,
                "weights are those with NAME_scale beside NAME; --only chooses among them");
  auto metadata = header.metadata;
  std::vector<PackedWeight> result;
  std::vector<Job> jobs;
  for (const SafetensorsEntry& entry : header.entries) {
    if (absorbed.count(entry.name)) continue;
    const auto found = weights.find(entry.name);
    if (found == weights.end()) {
      jobs.push_back(copy_job(reader, entry));
      continue;
    }
    const Weight& weight = found->second;
    const auto bytes = static_cast<uint64_t>(weight.layout.bytes);
    metadata.emplace_back(std::string(kKey) + entry.name, unpack_text(weight));
    jobs.push_back({{entry.name, "U8", {weight.layout.bytes}, 0, 0},
                    bytes,
                    [&reader, &weight](SafetensorsWriter& writer) -> Status {
                      ATTACCA_TRY(const ir::Tensor packed, packed_tensor(reader, weight));
                      return write_tensor(writer, packed);
                    }});
    result.push_back(
        {entry.name, weight.layout,
         entry.bytes() + weight.scales.bytes() + (weight.zeros ? weight.zeros->bytes() : 0),
         bytes});
  }
  ATTACCA_TRY_VOID(write_file(to, jobs, std::move(metadata), progress));
  return result;
}

Result<std::vector<PackedWeight>> unpack_file(const std::string& from, const std::string& to,
                                              const PackProgress& progress) {
  ATTACCA_TRY(SafetensorsReader reader, SafetensorsReader::open(from));
  std::map<std::string, std::string> packed;
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& [key, value] : reader.header().metadata) {
    if (key.compare(0, kKey.size(), kKey) == 0)
      packed.emplace(key.substr(kKey.size()), value);
    else
      metadata.emplace_back(key, value);
  }
  if (packed.empty())
    return fail(fmt::format("{} holds no packed weights", from), from,
                "give a file that `attacca pack` wrote");
  std::vector<PackedWeight> result;
  std::vector<Job> jobs;
  for (const SafetensorsEntry& entry : reader.header().entries) {
    const auto found = packed.find(entry.name);
    if (found == packed.end()) {
      jobs.push_back(copy_job(reader, entry));
      continue;
    }
    auto unpacking = std::make_shared<Unpacking>(Unpacking{reader, entry});
    ATTACCA_TRY_VOID(unpacking->bytes());
    const size_t first = jobs.size();
    add_parts(unpacking, found->second, jobs);
    PackedWeight weight{entry.name, unpacking->layout, entry.bytes(), 0};
    for (size_t i = first; i < jobs.size(); ++i) weight.bytes_after += jobs[i].bytes;
    result.push_back(std::move(weight));
  }
  ATTACCA_TRY_VOID(write_file(to, jobs, std::move(metadata), progress));
  return result;
}

}  // namespace attacca::import
