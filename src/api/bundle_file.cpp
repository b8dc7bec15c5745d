#include "api/bundle_file.hpp"

#include "fmt/format.h"

#include "api/plan_members.hpp"
#include "templates/metadata.hpp"

namespace attacca::api {
namespace {

json::Value kernels_json(const launch::Bundle& bundle) {
  json::Value list = json::Value::array();
  for (const auto& [key, kernel] : bundle.kernels)
    list.push(json::Value::object()
                  .set("key", key)
                  .set("entry", kernel.entry)
                  .set("bytes", static_cast<int64_t>(kernel.image->size())));
  return list;
}

json::Value sizes_json(const std::vector<ir::SymbolValues>& sizes) {
  json::Value list = json::Value::array();
  for (const ir::SymbolValues& each : sizes) {
    json::Value object = json::Value::object();
    for (const auto& [symbol, value] : each) object.set(symbol, value);
    list.push(std::move(object));
  }
  return list;
}

Result<std::vector<ir::SymbolValues>> read_sizes(const json::Value::Array& list,
                                                 const std::string& source) {
  std::vector<ir::SymbolValues> sizes;
  for (const json::Value& entry : list) {
    if (!entry.is<json::Value::Object>())
      return fail("sizes of a bundle that are no object", source, kSaveAgain);
    ir::SymbolValues& each = sizes.emplace_back();
    for (const auto& [symbol, value] : entry.as<json::Value::Object>()) {
      if (!value.is<int64_t>())
        return fail(fmt::format("size {} of a bundle is no number", symbol), source, kSaveAgain);
      each[symbol] = value.as<int64_t>();
    }
  }
  return sizes;
}

Result<int> small_number(const Members& members, std::string_view key, const std::string& source) {
  ATTACCA_TRY(const int64_t number, members.get<int64_t>(key));
  if (number < 0 || number > 1'000'000)
    return fail(fmt::format("{} {} of a bundle", key, number), source, kSaveAgain);
  return static_cast<int>(number);
}

Status read_kernels(const json::Value::Array& list, std::string_view bytes,
                    const std::string& source, launch::Bundle& bundle) {
  for (const json::Value& entry : list) {
    const Members members(entry, source);
    ATTACCA_TRY(std::string key, members.get<std::string>("key"));
    ATTACCA_TRY(std::string name, members.get<std::string>("entry"));
    ATTACCA_TRY(const int64_t size, members.get<int64_t>("bytes"));
    if (size <= 0 || static_cast<uint64_t>(size) > bytes.size())
      return fail(fmt::format("kernel {} has {} bytes of {}", name, size, bytes.size()), source,
                  kSaveAgain);
    const std::string_view image = bytes.substr(0, static_cast<size_t>(size));
    bytes.remove_prefix(image.size());
    auto copy = std::make_shared<const std::vector<char>>(image.begin(), image.end());
    if (!bundle.kernels.try_emplace(std::move(key), launch::BundledKernel{name, std::move(copy)})
             .second)
      return fail(fmt::format("kernel {} is there twice", name), source, kSaveAgain);
  }
  if (!bytes.empty())
    return fail(fmt::format("{} bytes belong to no kernel", bytes.size()), source, kSaveAgain);
  return {};
}

Status read_templates(const json::Value::Array& list, const std::string& source,
                      launch::Bundle& bundle) {
  for (const json::Value& entry : list) {
    if (!entry.is<std::string>())
      return fail("metadata of a template that are no text", source, kSaveAgain);
    ATTACCA_TRY(const templates::Template form,
                templates::parse_metadata(entry.as<std::string>(), source));
    bundle.templates[form.name] = entry.as<std::string>();
  }
  return {};
}

}  // namespace

json::Value bundle_json(const run::Bundle& bundle) {
  const launch::Bundle& kernels = bundle.kernels;
  json::Value templates = json::Value::array();
  for (const auto& [name, metadata] : kernels.templates) templates.push(metadata);
  return json::Value::object()
      .set("library", kernels.library)
      .set("device", kernels.device)
      .set("capability", int64_t{kernels.capability})
      .set("assembler", kernels.assembler)
      .set("driver", int64_t{kernels.driver})
      .set("builders", kernels.builders)
      .set("sizes", sizes_json(bundle.sizes))
      .set("choices", choices_json(bundle.choices))
      .set("templates", std::move(templates))
      .set("kernels", kernels_json(kernels));
}

void append_kernels(const run::Bundle& bundle, std::string& bytes) {
  for (const auto& [key, kernel] : bundle.kernels.kernels)
    bytes.append(kernel.image->data(), kernel.image->size());
}

Result<run::Bundle> read_bundle(const json::Value& bundle, std::string_view bytes,
                                const std::string& source) {
  const Members members(bundle, source);
  run::Bundle read;
  launch::Bundle& kernels = read.kernels;
  ATTACCA_TRY(kernels.library, members.get<std::string>("library"));
  ATTACCA_TRY(kernels.device, members.get<std::string>("device"));
  ATTACCA_TRY(kernels.capability, small_number(members, "capability", source));
  ATTACCA_TRY(kernels.assembler, members.get<std::string>("assembler"));
  ATTACCA_TRY(kernels.driver, small_number(members, "driver", source));
  ATTACCA_TRY(kernels.builders, members.get<std::string>("builders"));
  ATTACCA_TRY(const auto sizes, members.get<json::Value::Array>("sizes"));
  ATTACCA_TRY(read.sizes, read_sizes(sizes, source));
  ATTACCA_TRY(const auto choices, members.get<json::Value::Array>("choices"));
  ATTACCA_TRY(read.choices, read_choices(choices, source));
  ATTACCA_TRY(const auto templates, members.get<json::Value::Array>("templates"));
  ATTACCA_TRY_VOID(read_templates(templates, source, kernels));
  ATTACCA_TRY(const auto list, members.get<json::Value::Array>("kernels"));
  ATTACCA_TRY_VOID(read_kernels(list, bytes, source, kernels));
  return read;
}

}  // namespace attacca::api
