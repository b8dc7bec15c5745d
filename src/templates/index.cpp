#include "templates/index.hpp"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "support/hash.hpp"

namespace attacca::templates {
namespace {

constexpr std::string_view kMagic = "attaccai";
constexpr size_t kHashed = 16;  // where the hashed bytes begin

template <class T>
concept Scalar = std::integral<T> || std::is_enum_v<T>;

// Every member of a Template but `path` and `builder`, by name.
template <class Visitor, class Form>
void each_member(Visitor& visit, Form& form) {
  visit("name", form.name);
  visit("family", form.family);
  visit("arch", form.arch);
  visit("min_capability", form.min_capability);
  visit("max_capability", form.max_capability);
  visit("only_named_on", form.only_named_on);
  visit("input_types", form.input_types);
  visit("mixed_inputs", form.mixed_inputs);
  visit("b_first", form.b_first);
  visit("fast_accumulation", form.fast_accumulation);
  visit("a_k_major", form.a_k_major);
  visit("b_k_major", form.b_k_major);
  visit("any_strides", form.any_strides);
  visit("scaled_blocks", form.scaled_blocks);
  visit("packed_bits", form.packed_bits);
  visit("packed_floats", form.packed_floats);
  visit("packed_rounds", form.packed_rounds);
  visit("packed_scale_bits", form.packed_scale_bits);
  visit("widened", form.widened);
  visit("grouped", form.grouped);
  visit("gathered", form.gathered);
  visit("row_step", form.row_step);
  visit("code_bits", form.code_bits);
  visit("code_floats", form.code_floats);
  visit("alternate_columns", form.alternate_columns);
  visit("tile.m", form.tile.m);
  visit("tile.n", form.tile.n);
  visit("tile.k", form.tile.k);
  visit("cluster_m", form.cluster_m);
  visit("cluster_n", form.cluster_n);
  visit("cluster_k", form.cluster_k);
  visit("schedule", form.schedule);
  visit("stream_k", form.stream_k);
  visit("dependent_launch", form.dependent_launch);
  visit("stages", form.stages);
  visit("threads", form.threads);
  visit("shared_bytes", form.shared_bytes);
  visit("align_a", form.align_a);
  visit("align_b", form.align_b);
  visit("align_d", form.align_d);
  visit("hole.accumulators", form.hole.accumulators);
  visit("hole.accumulator_type", form.hole.accumulator_type);
  visit("hole.full_bits", form.hole.full_bits);
  visit("hole.rows", form.hole.rows);
  visit("hole.columns", form.hole.columns);
  visit("hole.result_bits", form.hole.result_bits);
  visit("hole.swapped", form.hole.swapped);
  visit("hole.maxima", form.hole.maxima);
  visit("kernel", form.kernel);
  visit("fingerprint", form.fingerprint);
}

uint64_t hash_of_names() {
  std::string names;
  const auto visit = [&](const char* name, const auto&) { (names += name) += '\n'; };
  const Template none;
  each_member(visit, none);
  return hash64(names);
}

class IndexWriter {
 public:
  template <Scalar T>
  void operator()(const char*, T value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8) bytes += static_cast<char>(bits);
  }
  void operator()(const char* name, const std::string& text) {
    (*this)(name, static_cast<uint32_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void operator()(const char* name, const std::vector<T>& list) {
    (*this)(name, static_cast<uint32_t>(list.size()));
    for (const T& value : list) (*this)(name, value);
  }

  std::string bytes;
};

// Once the bytes end too early, every further member reads as zero.
class IndexReader {
 public:
  explicit IndexReader(std::string_view bytes) : rest_(bytes) {}

  template <Scalar T>
  void operator()(const char*, T& value) {
    uint64_t bits = 0;
    const std::string_view own = take(sizeof(T));
    for (size_t i = own.size(); i > 0; --i)
      bits = bits << 8 | static_cast<unsigned char>(own[i - 1]);
    value = static_cast<T>(bits);
  }
  void operator()(const char* name, std::string& text) { text = take(length(name)); }
  template <class T>
  void operator()(const char* name, std::vector<T>& list) {
    for (uint32_t left = length(name); left > 0 && !failed_; --left)
      (*this)(name, list.emplace_back());
  }
  uint32_t length(const char* name) {
    uint32_t value = 0;
    (*this)(name, value);
    return value;
  }

  bool at_end() const { return !failed_ && rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view take(size_t bytes) {
    failed_ |= bytes > rest_.size();
    if (failed_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace

std::string encode_index(const Index& index) {
  IndexWriter body;
  body("members", hash_of_names());
  body("library", index.library);
  body("fingerprint", index.fingerprint);
  body("count", static_cast<uint32_t>(index.templates.size()));
  for (size_t i = 0; i < index.templates.size(); ++i) {
    body("metadata", index.files[i].metadata);
    body("ptx", index.files[i].ptx);
    each_member(body, index.templates[i]);
  }
  IndexWriter head;
  head("hash", hash64(body.bytes));
  return std::string(kMagic) + head.bytes + body.bytes;
}

std::optional<Index> decode_index(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kHashed) return std::nullopt;
  IndexReader head(bytes.substr(kMagic.size()));
  uint64_t hash = 0, members = 0;
  head("hash", hash);
  if (hash != hash64(bytes.substr(kHashed))) return std::nullopt;
  IndexReader body(bytes.substr(kHashed));
  body("members", members);
  if (members != hash_of_names()) return std::nullopt;
  Index index;
  body("library", index.library);
  body("fingerprint", index.fingerprint);
  for (uint32_t left = body.length("count"); left > 0 && !body.failed(); --left) {
    FileBytes& files = index.files.emplace_back();
    body("metadata", files.metadata);
    body("ptx", files.ptx);
    each_member(body, index.templates.emplace_back());
  }
  if (!body.at_end()) return std::nullopt;
  return index;
}

}  // namespace attacca::templates
