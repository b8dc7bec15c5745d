// Builds a graph op by op. Each op is a call of the text form, so one parser serves both, with the
// same errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::api {

class Builder {
 public:
  // A value and the builder that made it.
  using Handle = uint64_t;

  explicit Builder(std::string name);

  Result<Handle> input(const std::string& name, const std::string& type);
  Result<Handle> constant(const std::string& type, const void* data, size_t bytes);
  Result<Handle> call(std::string_view op, const std::vector<Handle>& operands,
                      std::string_view attributes);
  // `arguments`: each a value, or if its text is not empty, that text of the text form.
  struct KernelArgument {
    std::string text;
    Handle value = 0;
  };
  Result<Handle> kernel(std::string_view file, const std::vector<KernelArgument>& arguments,
                        std::string_view launch);
  Result<Handle> compute(std::string_view expression,
                         const std::vector<std::pair<std::string, Handle>>& values);
  Status output(Handle value, std::string name);
  Result<ir::Graph> finish() const;

 private:
  Handle handle(ir::Value value) const { return serial_ << 32 | value.id; }
  Result<ir::Value> value(Handle handle) const;
  // Adds the text's expression over these values to the graph. Returns its result.
  Result<Handle> add(std::string_view text, const std::string& source,
                     const std::vector<std::pair<std::string, ir::Value>>& values);

  uint64_t serial_;
  ir::Graph graph_;
};

// A constant's tensor: a copy of the caller's row-major elements. Errors: symbols, strides, or
// another number of bytes than the type has.
Result<ir::Tensor> copied_tensor(const ir::Type& type, const void* data, size_t bytes,
                                 const std::string& where);

}  // namespace attacca::api
