// Shared objects that are not what the catalogue wants: no builders at all, or of an old version.
#include "templates/abi.h"

#ifdef OLD_TEMPLATES
const attacca_template_entry* attacca_templates_open(int32_t abi_version, void*, int32_t* count) {
  *count = 0;
  return abi_version == ATTACCA_ABI_VERSION - 1 ? reinterpret_cast<attacca_template_entry*>(count)
                                                : nullptr;
}
#else
extern "C" int attacca_nothing() {
  return 0;
}
#endif
