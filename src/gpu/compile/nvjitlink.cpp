#include "gpu/compile/nvjitlink.hpp"

#include "fmt/format.h"

#include "gpu/driver/library.hpp"

namespace attacca::gpu {
namespace {

using Link = struct NvJitLinkHandle*;
constexpr int kInputPtx = 2;

// The functions of nvJitLink that Attacca calls. Each returns 0 or an error code.
struct NvJitLink {
  int (*version)(unsigned* major, unsigned* minor);
  int (*create)(Link*, uint32_t count, const char** options);
  int (*add)(Link, int kind, const void* data, size_t size, const char* name);
  int (*complete)(Link);
  int (*cubin_size)(Link, size_t*);
  int (*cubin)(Link, void*);
  int (*log_size)(Link, size_t*);
  int (*log)(Link, char*);
  int (*destroy)(Link*);
  std::string path;
};

Result<NvJitLink> open() {
  ATTACCA_TRY(const Library library, Library::open(kNvJitLinkLibrary));
  NvJitLink link{};
  link.path = library.path();
  // Their names contain the version, except for aliases, which 12.4 added.
  ATTACCA_TRY_VOID(library.resolve({{"nvJitLinkVersion", link.version},
                                    {"nvJitLinkCreate", link.create},
                                    {"nvJitLinkAddData", link.add},
                                    {"nvJitLinkComplete", link.complete},
                                    {"nvJitLinkGetLinkedCubinSize", link.cubin_size},
                                    {"nvJitLinkGetLinkedCubin", link.cubin},
                                    {"nvJitLinkGetErrorLogSize", link.log_size},
                                    {"nvJitLinkGetErrorLog", link.log},
                                    {"nvJitLinkDestroy", link.destroy}},
                                   {"13_0", "12_4", "12_3", "12_2", "12_1", "12_0"}));
  return link;
}

Result<const NvJitLink*> get() {
  return open_once(open);
}

std::string log_of(const NvJitLink& api, Link link) {
  size_t size = 0;
  if (!link || api.log_size(link, &size) != 0 || size <= 1) return {};
  std::string log(size, '\0');
  if (api.log(link, log.data()) != 0) return {};
  log.resize(log.find('\0'));
  return log;
}

struct LinkOwner {
  const NvJitLink& api;
  Link link = nullptr;
  ~LinkOwner() {
    if (link) api.destroy(&link);
  }
};

}  // namespace

Result<ToolDescription> describe_nvjitlink() {
  ATTACCA_TRY(const NvJitLink* api, get());
  unsigned major = 0, minor = 0;
  api->version(&major, &minor);
  return ToolDescription{fmt::format("nvJitLink {}.{}", major, minor), api->path};
}

Result<std::vector<char>> assemble_with_nvjitlink(const std::string& ptx, const std::string& arch) {
  ATTACCA_TRY(const NvJitLink* api, get());
  LinkOwner owner{*api};
  const auto check = [&](int code, std::string_view what) -> Status {
    if (code == 0) return {};
    return fail(fmt::format("nvJitLink cannot {} (code {})", what, code), log_of(*api, owner.link));
  };
  const std::string arch_option = "-arch=" + arch;
  const char* options[] = {arch_option.c_str(), "-O3"};
  ATTACCA_TRY_VOID(check(api->create(&owner.link, 2, options), "start for " + arch));
  // The zero byte at the end counts.
  ATTACCA_TRY_VOID(check(
      api->add(owner.link, kInputPtx, ptx.c_str(), ptx.size() + 1, "spliced.ptx"), "read the PTX"));
  ATTACCA_TRY_VOID(check(api->complete(owner.link), "assemble the PTX"));
  size_t size = 0;
  ATTACCA_TRY_VOID(check(api->cubin_size(owner.link, &size), "give the cubin"));
  std::vector<char> cubin(size);
  ATTACCA_TRY_VOID(check(api->cubin(owner.link, cubin.data()), "give the cubin"));
  return cubin;
}

}  // namespace attacca::gpu
