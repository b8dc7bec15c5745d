#include "fmt/format.h"

#include "cli/commands.hpp"
#include "import/files/pack_weights.hpp"
#include "support/progress.hpp"
#include "support/text/json.hpp"

namespace attacca::cli {
namespace {

json::Value to_json(const import::PackedWeight& weight) {
  json::Value value = json::Value::object();
  value.set("name", weight.name).set("n", weight.layout.n).set("k", weight.layout.k);
  value.set("packing", to_string(weight.layout.packing));
  value.set("bytes_before", weight.bytes_before).set("bytes_after", weight.bytes_after);
  return value;
}

Result<int> try_pack(const PackArgs& args) {
  std::vector<import::PackedWeight> weights;
  {
    const ProgressBar bar;
    const auto progress = [&](double done, const std::string& name) { bar.show(done, name); };
    if (args.unpack) {
      ATTACCA_TRY(weights, import::unpack_file(args.from, args.to, progress));
    } else {
      ATTACCA_TRY(weights, import::pack_file(args.from, args.to, {args.only, args.bits}, progress));
    }
  }
  if (args.json) {
    json::Value all = json::Value::array();
    for (const import::PackedWeight& weight : weights) all.push(to_json(weight));
    fmt::print("{}\n", json::dump(all));
    return kOk;
  }
  for (const import::PackedWeight& weight : weights)
    fmt::print("{}: [{}, {}] {}, {} bytes -> {}\n", weight.name, weight.layout.n, weight.layout.k,
               to_string(weight.layout.packing), weight.bytes_before, weight.bytes_after);
  fmt::print("{} {} {} into {}\n", args.unpack ? "unpacked" : "packed", weights.size(),
             weights.size() == 1 ? "weight" : "weights", args.to);
  return kOk;
}

}  // namespace

int pack(const PackArgs& args) {
  return exit_code(try_pack(args));
}

}  // namespace attacca::cli
