#include "import/files/pack_weights.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>

#include "fmt/format.h"

#include "import/files/safetensors.hpp"
#include "ir/packed/header.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Packing;

constexpr std::string_view kScaleSuffixes[] = {"_scale", "_scales", ".scale"};
constexpr std::string_view kZeroSuffixes[] = {"_zero_point", ".zero_point"};
constexpr std::string_view kKey = "attacca.unpack.";

// A tensor of the file to be written, and how its bytes are made.
struct Job {
  SafetensorsEntry entry;
  uint64_t bytes = 0;
  std::function<Status(SafetensorsWriter&)> write;
};

// A file's tensors by their names: there may be a hundred thousand.
using EntryIndex = std::unordered_map<std::string_view, const SafetensorsEntry*>;

EntryIndex index_of(const SafetensorsHeader& header) {
  EntryIndex index;
  for (const SafetensorsEntry& entry : header.entries) index.emplace(entry.name, &entry);
  return index;
}

template <size_t N>
const SafetensorsEntry* companion(const EntryIndex& index, const std::string& name,
                                  const std::string_view (&suffixes)[N]) {
  for (const std::string_view suffix : suffixes)
    if (const auto found = index.find(fmt::format("{}{}", name, suffix)); found != index.end())
      return found->second;
  return nullptr;
}

bool chosen(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

// One weight with its scales and zero points.
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

Result<Weight> describe(const EntryIndex& index, const SafetensorsEntry& codes, int bits) {
  Weight weight{codes, *companion(index, codes.name, kScaleSuffixes), std::nullopt, {}};
  if (const auto* zeros = companion(index, codes.name, kZeroSuffixes)) weight.zeros = *zeros;
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
  if (!layout) return fail(layout.error().what, codes.name, layout.error().fix);
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
  if (!packed) return fail(packed.error().what, weight.codes.name, packed.error().fix);
  return packed;
}

Status write_tensor(SafetensorsWriter& writer, const ir::Tensor& tensor) {
  return writer.write(tensor.data(), static_cast<uint64_t>(tensor.bytes()));
}

Job copy_job(SafetensorsReader& reader, const SafetensorsEntry& entry) {
  return {entry, entry.bytes(), [&reader, entry](SafetensorsWriter& writer) -> Status {
            constexpr uint64_t kPiece = uint64_t{1} << 24;
            std::vector<char> piece(std::min(kPiece, entry.bytes()));
            for (uint64_t first = 0; first < entry.bytes(); first += kPiece) {
              const uint64_t count = std::min(kPiece, entry.bytes() - first);
              ATTACCA_TRY_VOID(reader.read(entry, first, piece.data(), count));
              ATTACCA_TRY_VOID(writer.write(piece.data(), count));
            }
            return {};
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
std::string unpack_text(const std::string& name, const ir::PackedLayout& layout,
                        const SafetensorsEntry& scales,
                        const std::optional<SafetensorsEntry>& zeros) {
  const auto companion_text = [](const char* what, const SafetensorsEntry& entry) {
    return fmt::format("; {}{} {}", entry.shape.size() == 1 ? "row " : "", what, entry.name);
  };
  return fmt::format("unpack({}, [{}, {}], {}){}{}", name, layout.n, layout.k,
                     to_string(layout.packing), companion_text("scales", scales),
                     zeros ? companion_text("zeros", *zeros) : "");
}

// The weights that are packed, and the tensors that go into them.
struct Chosen {
  std::map<std::string, Weight> weights;
  std::set<std::string> absorbed;
};

// Shorter names first: the scales of a weight are not weights, even if they have scales themselves.
Result<Chosen> choose(const SafetensorsHeader& header, const PackOptions& options) {
  const EntryIndex index = index_of(header);
  std::vector<const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries.push_back(&entry);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto* a, const auto* b) { return a->name.size() < b->name.size(); });
  Chosen result;
  for (const SafetensorsEntry* entry : entries) {
    if (result.absorbed.count(entry->name) || !chosen(entry->name, options.only) ||
        !companion(index, entry->name, kScaleSuffixes))
      continue;
    ATTACCA_TRY(Weight weight, describe(index, *entry, options.bits));
    result.absorbed.insert(weight.scales.name);
    if (weight.zeros) result.absorbed.insert(weight.zeros->name);
    result.weights.emplace(entry->name, std::move(weight));
  }
  return result;
}

// The metadata, including how to unpack each weight.
Result<std::vector<std::pair<std::string, std::string>>> packed_metadata(
    const SafetensorsHeader& header, const std::map<std::string, Weight>& weights) {
  auto metadata = header.metadata;
  for (const auto& [name, weight] : weights) {
    const std::string key = std::string(kKey) + name;
    for (const auto& [other, value] : header.metadata)
      if (other == key)
        return fail(fmt::format("the metadata has {} already", key), name,
                    "take it out, or leave the weight out by --only");
    metadata.emplace_back(key, unpack_text(name, weight.layout, weight.scales, weight.zeros));
  }
  return metadata;
}

// The origin of a packed weight's scales and zero points, from the text that unpack_text made.
struct Companions {
  SafetensorsEntry scales;
  std::optional<SafetensorsEntry> zeros;
};

// Every name and shape that such a tensor may have had.
template <size_t N>
std::vector<SafetensorsEntry> possible(const std::string& name, DType dtype,
                                       const ir::PackedLayout& layout,
                                       const std::string_view (&suffixes)[N]) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string_view suffix : suffixes) {
    SafetensorsEntry entry{
        name + std::string(suffix), std::string(*safetensors_dtype(dtype)), {}, 0, 0};
    entry.shape = {layout.n, layout.groups};
    entries.push_back(entry);
    if (layout.groups != 1) continue;
    entry.shape = {layout.n};
    entries.push_back(entry);
  }
  return entries;
}

Result<Companions> companions_of(const std::string& name, const ir::PackedLayout& layout,
                                 const std::string& text) {
  const Packing& packing = layout.packing;
  std::vector<std::optional<SafetensorsEntry>> all_zeros{std::nullopt};
  if (packing.zeros) {
    const auto entries = possible(name, packing.weights, layout, kZeroSuffixes);
    all_zeros.assign(entries.begin(), entries.end());
  }
  for (const SafetensorsEntry& scales : possible(name, packing.scales, layout, kScaleSuffixes))
    for (const auto& zeros : all_zeros)
      if (unpack_text(name, layout, scales, zeros) == text) return Companions{scales, zeros};
  return fail(fmt::format("the metadata {}{} says of [{}, {}], {}: {}", kKey, name, layout.n,
                          layout.k, to_string(packing), text),
              name, "restore the metadata that `attacca pack` wrote");
}

std::span<const std::byte> span_of(const ir::Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}

// A packed weight that is unpacked when its first part is written, and freed after its last.
struct Unpacking {
  SafetensorsReader& reader;
  const SafetensorsEntry entry;
  ir::PackedLayout layout = {};
  std::optional<ir::Quantized> weights = {};

  // Reads and verifies all weights before anything is written, so that a file is written only if
  // every weight is intact.
  Result<ir::Tensor> bytes() {
    ATTACCA_TRY(ir::Tensor read, reader.read(entry));
    auto verified = ir::verify_packed(span_of(read));
    if (!verified) return fail(verified.error().what, entry.name, verified.error().fix);
    layout = *verified;
    return read;
  }
  Status load() {
    if (weights) return {};
    ATTACCA_TRY(const ir::Tensor read, bytes());
    ATTACCA_TRY(weights, ir::unpack(span_of(read)));
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

Status add_parts(const std::shared_ptr<Unpacking>& from, const std::string& text,
                 std::vector<Job>& jobs) {
  const ir::PackedLayout& layout = from->layout;
  const Packing& packing = layout.packing;
  const std::string& name = from->entry.name;
  const int64_t columns = packing.bits == 4 ? layout.k / 2 : layout.k;
  ATTACCA_TRY(Companions companions, companions_of(name, layout, text));
  jobs.push_back(part_job(
      from, {name, std::string(*safetensors_dtype(packing.weights)), {layout.n, columns}, 0, 0},
      packing.weights, [](const ir::Quantized& all) -> const ir::Tensor& { return all.weights; },
      false));
  jobs.push_back(part_job(
      from, std::move(companions.scales), packing.scales,
      [](const ir::Quantized& all) -> const ir::Tensor& { return all.scales; }, !packing.zeros));
  if (companions.zeros)
    jobs.push_back(part_job(
        from, *std::move(companions.zeros), packing.weights,
        [](const ir::Quantized& all) -> const ir::Tensor& { return *all.zeros; }, true));
  return {};
}

// The metadata for packed weights, and the rest of the metadata.
struct PackedMetadata {
  std::map<std::string, std::string> packed;
  std::vector<std::pair<std::string, std::string>> rest;
};

Result<PackedMetadata> split_metadata(const SafetensorsHeader& header, const std::string& path) {
  const EntryIndex index = index_of(header);
  PackedMetadata result;
  for (const auto& [key, value] : header.metadata) {
    if (key.compare(0, kKey.size(), kKey) != 0) {
      result.rest.emplace_back(key, value);
      continue;
    }
    const std::string name = key.substr(kKey.size());
    if (!index.count(name))
      return fail(fmt::format("the metadata {} names no tensor", key), path,
                  "take it out, or restore the tensor");
    result.packed.emplace(name, value);
  }
  if (result.packed.empty())
    return fail(fmt::format("{} holds no packed weights", path), path,
                "give a file that `attacca pack` wrote");
  return result;
}

}  // namespace

Result<std::vector<PackedWeight>> pack_file(const std::string& from, const std::string& to,
                                            const PackOptions& options,
                                            const PackProgress& progress) {
  ATTACCA_TRY(SafetensorsReader reader, SafetensorsReader::open(from));
  const SafetensorsHeader& header = reader.header();
  ATTACCA_TRY(const Chosen found, choose(header, options));
  if (found.weights.empty())
    return fail(fmt::format("{} holds no weights to pack", from), from,
                "weights are those with NAME_scale beside NAME; --only chooses among them");
  ATTACCA_TRY(auto metadata, packed_metadata(header, found.weights));
  std::vector<PackedWeight> result;
  std::vector<Job> jobs;
  for (const SafetensorsEntry& entry : header.entries) {
    if (found.absorbed.count(entry.name)) continue;
    const auto at = found.weights.find(entry.name);
    if (at == found.weights.end()) {
      jobs.push_back(copy_job(reader, entry));
      continue;
    }
    const Weight& weight = at->second;
    const auto bytes = static_cast<uint64_t>(weight.layout.bytes);
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
  ATTACCA_TRY(auto metadata, split_metadata(reader.header(), from));
  std::vector<PackedWeight> result;
  std::vector<Job> jobs;
  for (const SafetensorsEntry& entry : reader.header().entries) {
    const auto found = metadata.packed.find(entry.name);
    if (found == metadata.packed.end()) {
      jobs.push_back(copy_job(reader, entry));
      continue;
    }
    auto unpacking = std::make_shared<Unpacking>(Unpacking{reader, entry});
    ATTACCA_TRY_VOID(unpacking->bytes());
    const size_t first = jobs.size();
    ATTACCA_TRY_VOID(add_parts(unpacking, found->second, jobs));
    PackedWeight weight{entry.name, unpacking->layout, entry.bytes(), 0};
    for (size_t i = first; i < jobs.size(); ++i) weight.bytes_after += jobs[i].bytes;
    result.push_back(std::move(weight));
  }
  ATTACCA_TRY_VOID(write_file(to, jobs, std::move(metadata.rest), progress));
  return result;
}

}  // namespace attacca::import
