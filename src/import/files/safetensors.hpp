// Hugging Face's format for files of tensors: eight bytes of length, a JSON object of that length
// which says of each tensor its dtype, shape and place, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/tensor.hpp"
#include "support/files/draft_file.hpp"

namespace attacca::import {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as in the file: "BF16", "I8", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // of its bytes, behind the header
  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::vector<std::pair<std::string, std::string>> metadata;
  const SafetensorsEntry* find(std::string_view name) const;
};

// The format's name of a dtype, and back; nullopt if the other side has none.
std::optional<std::string_view> safetensors_dtype(ir::DType dtype);
std::optional<ir::DType> dtype_of(const SafetensorsEntry& entry);

// A file that is read tensor by tensor. No header, even a malicious one, makes it read outside of
// the file.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  // Errors: a dtype that Attacca does not have, a file that cannot be read.
  Result<ir::Tensor> read(const SafetensorsEntry& entry);
  // Some of its bytes. REQUIRES: first + count <= entry.bytes().
  Status read(const SafetensorsEntry& entry, uint64_t first, void* bytes, uint64_t count);

 private:
  std::string path_;
  std::ifstream file_;
  uint64_t data_at_ = 0;
  SafetensorsHeader header_;
};

// Parses a header's JSON and checks it against the bytes that follow.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                                   const std::string& where);

// A file that is complete or absent.
class SafetensorsWriter {
 public:
  // The entries' places are those given by place_entries(). Errors: two entries of one name.
  static Result<SafetensorsWriter> create(const std::string& path, SafetensorsHeader header);
  // The next entry's bytes, in order.
  Status write(const void* bytes, uint64_t count);
  Status commit();

 private:
  SafetensorsWriter(DraftFile file, uint64_t bytes) : file_(std::move(file)), left_(bytes) {}
  DraftFile file_;
  uint64_t left_;
};

// Sets begin and end of entries that follow each other, from their sizes.
void place_entries(SafetensorsHeader& header, const std::vector<uint64_t>& sizes);

}  // namespace attacca::import
