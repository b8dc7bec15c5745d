// The kernel templates at hand: their metadata, PTX and host-side builders.
//
// A template directory holds NAME.json and NAME.ptx for each template, libattacca_templates.so with
// the builders (abi.h, sources.h), and perhaps an index (index.hpp). It is looked for in
// $ATTACCA_TEMPLATE_DIR, where the library is installed (../share/attacca/templates), beside the
// library, then in the build tree.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/error.hpp"
#include "templates/template.hpp"

namespace attacca::templates {

// A template of the directory that cannot be used.
struct LeftOut {
  std::string name;
  Error reason;
};

class Catalog {
 public:
  // All complete templates of the directory; the others are in left_out(). Errors, which name the
  // file and the fix (`make gpu`): no directory, no library of builders, another ABI version, no
  // complete template.
  // `encode_tiled`: the driver's cuTensorMapEncodeTiled, or nullptr where nothing is launched.
  static Result<Catalog> open(void* encode_tiled,
                              const std::string& directory = default_directory());
  // The templates that these metadata describe, in their order; their PTX need not be there.
  // Errors: no library of builders, metadata that cannot be read or of a template without builder.
  static Result<Catalog> of(const std::vector<std::string>& metadata, void* encode_tiled,
                            const std::string& directory = default_directory());
  static std::string default_directory();
  // Writes the directory's index, by which open() reads one file instead of two a template. It
  // holds for this library of builders, and metadata and PTX of these sizes.
  // Errors: those of open(), the first template that is left out, a file that cannot be written.
  static Status write_index(const std::string& directory = default_directory());

  // Identifies the sources of the library of builders; machine code must come from the same ones.
  // For a library of an older version, which does not say: its build ID or checksum.
  Result<std::string> builders_id() const;

  const std::vector<Template>& templates() const { return templates_; }
  const Template* find(std::string_view name) const;
  // Templates with unreadable metadata, without a builder, or whose PTX is missing or cut off.
  const std::vector<LeftOut>& left_out() const { return left_out_; }
  // Whether the directory was opened by its index.
  bool indexed() const { return indexed_; }
  // Depends on the templates' metadata and the sizes of their PTX. Measurements made with another
  // fingerprint are not used.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Builders;
  static Result<Catalog> read(void* encode_tiled, const std::string& directory);
  static Result<Catalog> read_index(void* encode_tiled, const std::string& directory);
  Result<Builders> open_builders(void* encode_tiled, const std::string& directory);
  Result<std::string> library_id() const;

  std::vector<Template> templates_;
  std::vector<LeftOut> left_out_;
  uint64_t fingerprint_ = 0;
  bool indexed_ = false;
  std::shared_ptr<void> library_;
  std::string library_path_;
};

}  // namespace attacca::templates
