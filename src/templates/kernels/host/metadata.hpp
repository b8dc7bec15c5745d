// A template's record as JSON, which templates/metadata.hpp reads.
#pragma once

#include <sstream>
#include <string>

#include "host/record.hpp"

namespace attacca_description {

inline const char* boolean(bool value) {
  return value ? "true" : "false";
}

inline std::string quoted(const char* text) {
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

inline void print_hole(std::ostream& out, const attacca_info& info) {
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

inline std::string metadata(const attacca_record& record) {
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

}  // namespace attacca_description
