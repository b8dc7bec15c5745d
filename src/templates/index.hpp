// DIR/templates.index: in one file, what Catalog::open() reads from all files of a directory.
//
// Integers are little-endian, texts and lists begin with their length.
//   0   8 bytes        "attaccai"
//   8   u64            XXH3 of all that follows
//   16  u64            XXH3 of the names of the members (other versions' are not read)
//   24                 the members of Index; each template by the members of Template
// Anything else is no index, and the directory is read instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/template.hpp"

namespace attacca::templates {

inline constexpr const char* kIndexFile = "templates.index";

// Sizes of a template's files.
struct FileBytes {
  uint64_t metadata = 0, ptx = 0;
};

struct Index {
  // Identifies the library of builders that wrote the metadata. The index holds for no other
  // library.
  std::string library;
  uint64_t fingerprint = 0;
  std::vector<Template> templates;  // all but `path` and `builder`
  std::vector<FileBytes> files;     // one each
};

std::string encode_index(const Index& index);
std::optional<Index> decode_index(std::string_view bytes);

}  // namespace attacca::templates
