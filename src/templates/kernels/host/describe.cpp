// describe DIR: writes the metadata of every template to DIR/NAME.json and removes the .json files
// of templates that no longer exist. Each file is written as a draft and then renamed.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "host/record.hpp"

namespace {

const char* boolean(bool value) {
  return value ? "true" : "false";
}

std::string quoted(const char* text) {
  return std::string("\"").append(text).append("\"");
}

// A JSON list of the elements before the end mark: nullptr for texts, -1 for numbers.
template <size_t N>
std::string list(const char* const (&texts)[N]) {
  std::string all;
  for (const char* text : texts) {
    if (!text) break;
    all += (all.empty() ? "" : ", ") + quoted(text);
  }
  return "[" + all + "]";
}

template <size_t N>
std::string list(const int (&numbers)[N]) {
  std::string all;
  for (int number : numbers) {
    if (number < 0) break;
    all += (all.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + all + "]";
}

void print_hole(std::ostream& out, const attacca_info& info) {
  out << "  \"hole\": {\n"
      << "    \"accumulators\": " << info.accumulators << ",\n"
      << "    \"accumulator_type\": " << quoted(info.accumulator_type) << ",\n"
      << "    \"full_bits\": " << list(info.full_bits) << ",\n"
      << "    \"rows\": " << info.rows << ",\n"
      << "    \"columns\": " << info.columns << ",\n"
      << "    \"result_bits\": " << list(info.result_bits) << ",\n"
      << "    \"maxima\": " << info.maxima << ",\n"
      << "    \"swapped\": " << boolean(info.swapped) << "\n"
      << "  },\n";
}

std::string metadata(const attacca_record& record) {
  const attacca_info info = record.info();
  std::ostringstream out;
  out << "{\n"
      << "  \"name\": " << quoted(record.entry.name) << ",\n"
      << "  \"family\": " << quoted(info.family) << ",\n"
      << "  \"arch\": " << quoted(info.arch) << ",\n"
      << "  \"min_capability\": " << info.min_capability << ",\n"
      << "  \"max_capability\": " << info.max_capability << ",\n"
      << "  \"input_types\": " << list(info.input_types) << ",\n"
      << "  \"mixed_inputs\": " << boolean(info.mixed_inputs) << ",\n"
      << "  \"b_first\": " << boolean(info.b_first) << ",\n"
      << "  \"fast_accumulation\": " << boolean(info.fast_accumulation) << ",\n"
      << "  \"a_k_major\": " << boolean(info.a_k_major) << ",\n"
      << "  \"b_k_major\": " << boolean(info.b_k_major) << ",\n"
      << "  \"any_strides\": " << boolean(info.any_strides) << ",\n"
      << "  \"alternate_columns\": " << boolean(info.alternate_columns) << ",\n"
      << "  \"scaled_blocks\": " << boolean(info.scaled_blocks) << ",\n"
      << "  \"packed_bits\": " << info.packed_bits << ",\n"
      << "  \"packed_floats\": " << boolean(info.packed_floats) << ",\n"
      << "  \"packed_rounds\": " << boolean(info.packed_rounds) << ",\n"
      << "  \"packed_scale_bits\": " << info.packed_scale_bits << ",\n"
      << "  \"tile\": [" << info.tile_m << ", " << info.tile_n << ", " << info.tile_k << "],\n"
      << "  \"cluster\": [" << info.cluster_m << ", " << info.cluster_n << ", " << info.cluster_k
      << "],\n"
      << "  \"schedule\": " << quoted(info.schedule) << ",\n"
      << "  \"stream_k\": " << boolean(info.stream_k) << ",\n"
      << "  \"dependent_launch\": " << boolean(info.dependent_launch) << ",\n"
      << "  \"stages\": " << info.stages << ",\n"
      << "  \"threads\": " << info.threads << ",\n"
      << "  \"shared_bytes\": " << info.shared_bytes << ",\n"
      << "  \"align_a\": " << info.align_a << ",\n"
      << "  \"align_b\": " << info.align_b << ",\n"
      << "  \"align_d\": " << info.align_d << ",\n";
  // Where they are set alone, so that the fingerprints of other templates stay as they were.
  if (info.widened) out << "  \"widened\": true,\n";
  if (info.grouped) out << "  \"grouped\": true,\n";
  if (info.gathered) out << "  \"gathered\": true,\n";
  if (info.row_step > 0) out << "  \"row_step\": " << info.row_step << ",\n";
  if (info.code_bits > 0) out << "  \"code_bits\": " << info.code_bits << ",\n";
  if (info.code_floats) out << "  \"code_floats\": true,\n";
  if (info.only_named_on) out << "  \"only_named_on\": " << info.only_named_on << ",\n";
  print_hole(out, info);
  out << "  \"kernel\": " << quoted(record.entry.name) << ",\n"
      << "  \"params_bytes\": " << record.entry.params_bytes << ",\n"
      << "  \"params_align\": " << record.entry.params_align << "\n"
      << "}\n";
  return std::move(out).str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: describe DIR\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::set<std::string> written;
  for (int i = 0; i < attacca_record_count; ++i) {
    const attacca_record& record = *attacca_records[i];
    const std::string name = std::string(record.entry.name) + ".json";
    const std::filesystem::path draft = folder / (name + ".draft");
    std::ofstream file(draft);
    file << metadata(record);
    file.close();
    std::error_code error;
    if (file) std::filesystem::rename(draft, folder / name, error);
    if (!file || error) {
      std::fprintf(stderr, "describe: cannot write %s\n", (folder / name).c_str());
      return 1;
    }
    written.insert(name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && !written.count(name))
      std::filesystem::remove(entry.path());
  }
  return 0;
}
