#include "import/files/safetensors.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "fmt/format.h"

#include "support/check.hpp"
#include "support/text/json.hpp"

namespace attacca::import {
namespace {

using ir::DType;

constexpr uint64_t kMostHeader = 100'000'000;  // as the format's own readers
constexpr const char* kFix = "write the file again with the safetensors library";
constexpr std::string_view kMetadata = "__metadata__";

struct DtypeName {
  std::string_view name;
  int bytes;
  std::optional<DType> dtype;
};
constexpr DtypeName kDtypes[] = {
    {"F64", 8, DType::F64},   {"F32", 4, DType::F32},        {"F16", 2, DType::F16},
    {"BF16", 2, DType::BF16}, {"F8_E4M3", 1, DType::F8E4M3}, {"F8_E5M2", 1, DType::F8E5M2},
    {"I64", 8, DType::S64},   {"I32", 4, DType::S32},        {"I8", 1, DType::S8},
    {"U8", 1, DType::U8},     {"BOOL", 1, DType::Bool},      {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt}, {"U32", 4, std::nullopt},      {"U64", 8, std::nullopt},
};

const DtypeName* find_dtype(std::string_view name) {
  for (const DtypeName& entry : kDtypes)
    if (entry.name == name) return &entry;
  return nullptr;
}

tl::unexpected<Error> bad(const std::string& where, std::string what) {
  return fail(fmt::format("{} is no safetensors file: {}", where, what), where, kFix);
}

Result<uint64_t> natural(const json::Value& value, const std::string& where,
                         const std::string& name) {
  if (value.is<int64_t>() && value.as<int64_t>() >= 0)
    return static_cast<uint64_t>(value.as<int64_t>());
  return bad(where, fmt::format("{} of {} is no size", json::dump(value, -1), name));
}

// Bytes of a tensor; nullopt where they overflow.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, int width) {
  uint64_t bytes = static_cast<uint64_t>(width);
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return std::nullopt;
  return bytes;
}

Result<SafetensorsEntry> parse_entry(const std::string& name, const json::Value& value,
                                     const std::string& where) {
  const json::Value *dtype = value.find("dtype"), *shape = value.find("shape"),
                    *offsets = value.find("data_offsets");
  const bool complete = dtype && dtype->is<std::string>() && shape &&
                        shape->is<json::Value::Array>() && offsets &&
                        offsets->is<json::Value::Array>();
  if (!complete || offsets->as<json::Value::Array>().size() != 2)
    return bad(where, fmt::format("{} lacks its dtype, shape or data_offsets", name));
  SafetensorsEntry entry{name, dtype->as<std::string>(), {}, 0, 0};
  for (const json::Value& each : shape->as<json::Value::Array>()) {
    ATTACCA_TRY(const uint64_t extent, natural(each, where, name));
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  ATTACCA_TRY(entry.begin, natural(offsets->as<json::Value::Array>()[0], where, name));
  ATTACCA_TRY(entry.end, natural(offsets->as<json::Value::Array>()[1], where, name));
  if (entry.begin > entry.end) return bad(where, fmt::format("{} ends before it begins", name));
  const DtypeName* known = find_dtype(entry.dtype);
  if (known && bytes_of(entry.shape, known->bytes) != entry.bytes())
    return bad(where, fmt::format("{} has {} bytes, which is not {}{}", name, entry.bytes(),
                                  entry.dtype, ir::to_string(entry.shape)));
  return entry;
}

// The tensors cover the bytes without gap or overlap.
Status check_places(const SafetensorsHeader& header, uint64_t data_bytes,
                    const std::string& where) {
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != at)
      return bad(where, fmt::format("{} begins at {}, not at {}", entry.name, entry.begin, at));
    at = entry.end;
  }
  if (at != data_bytes)
    return bad(where, fmt::format("{} bytes of tensors, the header says {}", data_bytes, at));
  return {};
}

Result<uint64_t> read_length(std::ifstream& file, uint64_t file_bytes, const std::string& path) {
  unsigned char bytes[8];
  if (!file.read(reinterpret_cast<char*>(bytes), sizeof bytes))
    return bad(path, "it is shorter than eight bytes");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
  if (length > kMostHeader || length > file_bytes - sizeof bytes)
    return bad(path, fmt::format("a header of {} bytes", length));
  return length;
}

json::Value header_json(const SafetensorsHeader& header) {
  json::Value all = json::Value::object();
  if (!header.metadata.empty()) {
    json::Value metadata = json::Value::object();
    for (const auto& [key, value] : header.metadata) metadata.set(key, value);
    all.set(std::string(kMetadata), std::move(metadata));
  }
  for (const SafetensorsEntry& entry : header.entries) {
    json::Value shape = json::Value::array(), offsets = json::Value::array();
    for (const int64_t extent : entry.shape) shape.push(extent);
    offsets.push(entry.begin).push(entry.end);
    json::Value value = json::Value::object();
    value.set("dtype", entry.dtype).set("shape", std::move(shape));
    value.set("data_offsets", std::move(offsets));
    all.set(entry.name, std::move(value));
  }
  return all;
}

Status check_names(const SafetensorsHeader& header, const std::string& path) {
  std::set<std::string_view> seen{kMetadata};
  for (const SafetensorsEntry& entry : header.entries)
    if (!seen.insert(entry.name).second)
      return fail(fmt::format("two tensors would be called {}", entry.name), path,
                  "rename one of them in the file that is read");
  return {};
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  for (const SafetensorsEntry& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::optional<std::string_view> safetensors_dtype(DType dtype) {
  for (const DtypeName& entry : kDtypes)
    if (entry.dtype == dtype) return entry.name;
  return std::nullopt;
}

std::optional<DType> dtype_of(const SafetensorsEntry& entry) {
  const DtypeName* known = find_dtype(entry.dtype);
  return known ? known->dtype : std::nullopt;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, uint64_t data_bytes,
                                                   const std::string& where) {
  ATTACCA_TRY(const json::Value all, json::parse(text, where));
  if (!all.is<json::Value::Object>()) return bad(where, "its header is no JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : all.as<json::Value::Object>()) {
    if (name == kMetadata) {
      if (!value.is<json::Value::Object>()) return bad(where, "its metadata is no JSON object");
      for (const auto& [key, text_value] : value.as<json::Value::Object>()) {
        if (!text_value.is<std::string>())
          return bad(where, fmt::format("its metadata {} is no text", key));
        header.metadata.emplace_back(key, text_value.as<std::string>());
      }
      continue;
    }
    ATTACCA_TRY(SafetensorsEntry entry, parse_entry(name, value, where));
    header.entries.push_back(std::move(entry));
  }
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  ATTACCA_TRY_VOID(check_places(header, data_bytes, where));
  return header;
}

Result<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  SafetensorsReader reader;
  reader.path_ = path;
  reader.file_.open(path, std::ios::binary);
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (!reader.file_ || error)
    return fail(fmt::format("cannot read {}", path), {}, "check the path");
  ATTACCA_TRY(const uint64_t length, read_length(reader.file_, file_bytes, path));
  std::string text(length, '\0');
  if (!reader.file_.read(text.data(), static_cast<std::streamsize>(length)))
    return bad(path, "its header is cut off");
  reader.data_at_ = 8 + length;
  ATTACCA_TRY(reader.header_, parse_safetensors_header(text, file_bytes - reader.data_at_, path));
  return reader;
}

Status SafetensorsReader::read(const SafetensorsEntry& entry, uint64_t first, void* bytes,
                               uint64_t count) {
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(data_at_ + entry.begin + first));
  if (!file_.read(static_cast<char*>(bytes), static_cast<std::streamsize>(count)))
    return fail(fmt::format("cannot read {} of {}", entry.name, path_), path_,
                "the file changed while it was read");
  return {};
}

Result<ir::Tensor> SafetensorsReader::read(const SafetensorsEntry& entry) {
  const std::optional<DType> dtype = dtype_of(entry);
  if (!dtype)
    return fail(fmt::format("{} is of dtype {}", entry.name, entry.dtype), path_,
                fmt::format("Attacca has {}", ir::all_dtype_names()));
  ATTACCA_TRY(ir::Tensor tensor, ir::Tensor::make(*dtype, entry.shape));
  ATTACCA_TRY_VOID(read(entry, 0, tensor.data(), entry.bytes()));
  return tensor;
}

void place_entries(SafetensorsHeader& header, const std::vector<uint64_t>& sizes) {
  ATTACCA_CHECK(sizes.size() == header.entries.size(), "a size an entry");
  uint64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    header.entries[i].begin = at;
    header.entries[i].end = at += sizes[i];
  }
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    SafetensorsHeader header) {
  ATTACCA_TRY_VOID(check_names(header, path));
  ATTACCA_TRY(DraftFile file, DraftFile::create(path));
  std::string text = json::dump(header_json(header), -1);
  // Tensors begin at a multiple of 64, so that a mapped packed tensor is aligned.
  text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  ATTACCA_TRY_VOID(file.write(length, sizeof length));
  ATTACCA_TRY_VOID(file.write(text));
  return SafetensorsWriter(std::move(file), header.entries.empty() ? 0 : header.entries.back().end);
}

Status SafetensorsWriter::write(const void* bytes, uint64_t count) {
  ATTACCA_CHECK(count <= left_, "more bytes than the header says");
  left_ -= count;
  return file_.write(bytes, count);
}

Status SafetensorsWriter::commit() {
  ATTACCA_CHECK(left_ == 0, "fewer bytes than the header says");
  return file_.commit();
}

}  // namespace attacca::import
