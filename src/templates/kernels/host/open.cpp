// The exports of libattacca_templates.so, except attacca_templates_sources(), which is generated.
#include <vector>

#include "host/record.hpp"

void* attacca_encode_tiled = nullptr;

extern "C" __attribute__((visibility("default"))) const attacca_template_entry*
attacca_templates_open(int32_t abi_version, void* encode_tiled, int32_t* count) {
  if (abi_version != ATTACCA_ABI_VERSION) return nullptr;
  if (encode_tiled) attacca_encode_tiled = encode_tiled;
  static const std::vector<attacca_template_entry> entries = [] {
    std::vector<attacca_template_entry> all;
    for (int i = 0; i < attacca_record_count; ++i) all.push_back(attacca_records[i]->entry);
    return all;
  }();
  *count = static_cast<int32_t>(entries.size());
  return entries.data();
}
