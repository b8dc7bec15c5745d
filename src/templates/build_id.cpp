#include "templates/build_id.hpp"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <span>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace attacca::templates {
namespace {

struct Search {
  ElfW(Addr) base;
  std::string id;
};

size_t aligned(size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

// A segment of notes: each a header, a name and a description, padded to 4 bytes.
std::string id_among(std::span<const unsigned char> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const size_t at = sizeof note + aligned(note.n_namesz);
    if (at + note.n_descsz > notes.size()) return {};
    const auto* name = reinterpret_cast<const char*>(notes.data() + sizeof note);
    if (note.n_type == NT_GNU_BUILD_ID && std::string_view(name, note.n_namesz).starts_with("GNU"))
      return fmt::format("{:02x}", fmt::join(notes.subspan(at, note.n_descsz), ""));
    notes = notes.subspan(std::min(at + aligned(note.n_descsz), notes.size()));
  }
  return {};
}

int look_into(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (info->dlpi_addr != search.base) return 0;
  for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE || !search.id.empty()) continue;
    const auto* begin = reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);
    search.id = id_among({begin, segment.p_memsz});
  }
  return 1;
}

}  // namespace

std::string build_id(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  Search search{map->l_addr, {}};
  dl_iterate_phdr(look_into, &search);
  return search.id;
}

}  // namespace attacca::templates
