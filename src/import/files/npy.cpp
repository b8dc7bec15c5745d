#include "import/files/npy.hpp"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "fmt/format.h"

#include "support/files/draft_file.hpp"

namespace attacca::import {
namespace {

using ir::DType;

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy's name of a dtype.
std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "<f8";
    case DType::F32:
      return "<f4";
    case DType::F16:
      return "<f2";
    case DType::BF16:
      return "|V2";
    case DType::F8E4M3:
    case DType::F8E5M2:
      return "|V1";
    case DType::S8:
      return "|i1";
    case DType::U8:
      return "|u1";
    case DType::S32:
      return "<i4";
    case DType::S64:
      return "<i8";
    case DType::Bool:
      return "|b1";
  }
  return "";
}

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The header is a Python dict literal of three known keys.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  // What is wrong with it, if anything.
  tl::expected<Header, std::string> read() {
    Header header;
    std::set<std::string> seen;
    if (!take('{')) return wrong();
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return wrong();
      if (!seen.insert(*key).second) return tl::make_unexpected(twice(*key));
      if (!value(*key, header)) return wrong();
      if (!take(',') && peek() != '}') return wrong();
    }
    peek();
    if (!text_.empty() || seen.size() != 3) return wrong();
    return header;
  }

 private:
  static tl::unexpected<std::string> wrong() {
    return tl::make_unexpected(std::string("the header is malformed"));
  }
  static std::string twice(const std::string& key) {
    return fmt::format("the header names {} twice", key);
  }

  bool value(const std::string& key, Header& header) {
    if (key == "descr") {
      const auto text = quoted();
      if (text) header.descr = *text;
      return text.has_value();
    }
    if (key == "shape") return tuple(header.shape);
    if (key != "fortran_order") return false;
    header.fortran = word("True");
    return header.fortran || word("False");
  }

  // The next character after white space; 0 at the end.
  char peek() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())))
      text_.remove_prefix(1);
    return text_.empty() ? '\0' : text_.front();
  }

  bool take(char wanted) {
    if (peek() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool word(std::string_view wanted) {
    peek();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(wanted.size());
    return true;
  }

  // Without escapes: no name of a dtype has any.
  std::optional<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text_.substr(1, end - 1);
    if (inside.find('\\') != std::string_view::npos) return std::nullopt;
    text_.remove_prefix(end + 1);
    return std::string(inside);
  }

  std::optional<int64_t> number() {
    if (!std::isdigit(static_cast<unsigned char>(peek()))) return std::nullopt;
    int64_t value = 0;
    while (!text_.empty() && std::isdigit(static_cast<unsigned char>(text_.front()))) {
      if (value > (int64_t{1} << 50)) return std::nullopt;
      value = value * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value;
  }

  // (), (2,), (2, 3). Without a comma it would be a number, no tuple.
  bool tuple(std::vector<int64_t>& extents) {
    if (!take('(')) return false;
    bool comma = true;
    while (!take(')')) {
      const auto extent = number();
      if (!extent || !comma) return false;
      extents.push_back(*extent);
      comma = take(',');
    }
    return comma || extents.size() > 1;
  }

  std::string_view text_;
};

Result<Header> read_header(std::ifstream& file, const std::string& path) {
  const auto bad = [&](std::string_view what) {
    return fail(fmt::format("{} is no .npy file: {}", path, what), path,
                "write it with numpy.save");
  };
  char start[8];
  if (!file.read(start, sizeof start) || std::string_view(start, 6) != kMagic)
    return bad("the first bytes are not NumPy's");
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) return bad(fmt::format("format version {}", version));
  unsigned char length_bytes[4] = {};
  if (!file.read(reinterpret_cast<char*>(length_bytes), version == 1 ? 2 : 4))
    return bad("the header is cut off");
  const uint32_t length = length_bytes[0] | length_bytes[1] << 8 | length_bytes[2] << 16 |
                          static_cast<uint32_t>(length_bytes[3]) << 24;
  if (length > (1u << 20)) return bad("the header is too long");
  std::string dict(length, '\0');
  if (!file.read(dict.data(), length)) return bad("the header is cut off");
  auto header = HeaderReader(dict).read();
  if (!header) return bad(header.error());
  return *std::move(header);
}

std::vector<int64_t> fortran_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides;
  int64_t stride = 1;
  for (const int64_t extent : shape) {
    strides.push_back(stride);
    stride *= extent;
  }
  return strides;
}

// Checked before allocating: the file must contain as many bytes as its header says.
Status check_length(std::ifstream& file, const std::vector<int64_t>& shape, DType dtype,
                    const std::string& path) {
  int64_t bytes = ir::size_of(dtype);
  bool overflow = false;
  for (const int64_t extent : shape) overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
  const auto begin = file.tellg();
  if (begin < 0)
    return fail(fmt::format("{} is a pipe, whose length is not known", path), path,
                "write it to a .npy file and give its path");
  const int64_t available = file.seekg(0, std::ios::end).tellg() - begin;
  file.seekg(begin);
  if (overflow || available < bytes)
    return fail(fmt::format("{} is cut off: its shape {} wants more than its {} bytes of data",
                            path, ir::to_string(shape), available),
                path, "write the file again");
  return {};
}

bool same_descr(std::string_view descr, DType wanted) {
  const std::string_view expected = descr_of(wanted);
  if (descr == expected) return true;
  // For single bytes and raw bits '<' and '|' mean the same.
  return descr.size() == 3 && descr.substr(1) == expected.substr(1) &&
         (expected.front() == '|' || descr.front() == '=');
}

}  // namespace

Result<ir::Tensor> read_npy(const std::string& path, DType wanted) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none))
    return fail(fmt::format("{} is a folder", path), path, "give a .npy file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(fmt::format("cannot read {}", path), path, "check the path");
  ATTACCA_TRY(const Header header, read_header(file, path));
  if (!same_descr(header.descr, wanted))
    return fail(fmt::format("{} holds '{}', the graph wants {} ('{}')", path, header.descr,
                            name(wanted), descr_of(wanted)),
                path, fmt::format("convert it to {} before saving", name(wanted)));
  ATTACCA_TRY_VOID(check_length(file, header.shape, wanted, path));
  ATTACCA_TRY(ir::Tensor tensor, ir::Tensor::make(wanted, header.shape));
  if (!file.read(reinterpret_cast<char*>(tensor.data()), tensor.bytes()))
    return fail(fmt::format("{} could not be read to its end", path), path);
  if (!header.fortran) return tensor;
  const ir::Tensor view =
      ir::Tensor::view(wanted, header.shape, tensor.data(), fortran_strides(header.shape));
  // contiguous() of a contiguous view would not own its memory.
  if (view.is_contiguous()) return tensor;
  return view.contiguous();
}

Status write_npy(const std::string& path, const ir::Tensor& tensor) {
  ATTACCA_TRY(const ir::Tensor dense, tensor.contiguous());
  std::string shape = fmt::format("{}", fmt::join(tensor.shape(), ", "));
  if (tensor.shape().size() == 1) shape += ",";
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr_of(tensor.dtype()), shape);
  // The data starts at a multiple of 64 bytes.
  const size_t used = kMagic.size() + 4 + dict.size() + 1;
  dict.append((64 - used % 64) % 64, ' ');
  dict.push_back('\n');
  const auto length = static_cast<uint16_t>(dict.size());
  const char version_and_length[4] = {1, 0, static_cast<char>(length & 0xFF),
                                      static_cast<char>(length >> 8)};
  ATTACCA_TRY(DraftFile file, DraftFile::create(path));
  ATTACCA_TRY_VOID(file.write(kMagic));
  ATTACCA_TRY_VOID(file.write(version_and_length, sizeof version_and_length));
  ATTACCA_TRY_VOID(file.write(dict));
  ATTACCA_TRY_VOID(file.write(dense.data(), static_cast<uint64_t>(dense.bytes())));
  return file.commit();
}

}  // namespace attacca::import
