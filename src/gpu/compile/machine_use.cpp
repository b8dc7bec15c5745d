#include "gpu/compile/machine_use.hpp"

#include <cstring>

namespace attacca::gpu {
namespace {

// Of ELF64 and of section .nv.info.
constexpr size_t kHeaderBytes = 64, kSectionBytes = 64, kSymbolBytes = 24;
constexpr uint32_t kSymbolTable = 2;  // a section's type
constexpr uint8_t kHasBytes = 4;      // an attribute's form: a length and so many bytes
constexpr uint8_t kFrameSize = 0x11, kRegisterCount = 0x2F;

class CubinReader {
 public:
  explicit CubinReader(const std::vector<char>& image) : image_(image) {
    if (image.size() < kHeaderBytes || std::memcmp(image.data(), "\177ELF\2", 5) != 0) return;
    sections_ = at<uint64_t>(0x28);
    count_ = at<uint16_t>(0x3C);
    names_ = section(at<uint16_t>(0x3E)).begin;
  }

  std::optional<MachineUse> use(std::string_view kernel) const {
    const std::optional<uint32_t> symbol = symbol_of(kernel);
    if (!symbol) return std::nullopt;
    for (size_t i = 0; i < count_; ++i)
      if (text(names_ + section(i).name) == ".nv.info") return use_in(section(i), *symbol);
    return std::nullopt;
  }

 private:
  struct Section {
    uint32_t name = 0, type = 0, link = 0;
    uint64_t begin = 0, bytes = 0;
  };

  // 0 beyond the image.
  template <class Number>
  Number at(uint64_t offset) const {
    Number number{};
    if (offset <= image_.size() && image_.size() - offset >= sizeof number)
      std::memcpy(&number, image_.data() + offset, sizeof number);
    return number;
  }
  std::string_view text(uint64_t offset) const {
    if (offset >= image_.size()) return {};
    const std::string_view rest(image_.data() + offset, image_.size() - offset);
    return rest.substr(0, rest.find('\0'));
  }

  Section section(size_t i) const {
    const uint64_t from = sections_ + i * kSectionBytes;
    return {at<uint32_t>(from), at<uint32_t>(from + 4), at<uint32_t>(from + 40),
            at<uint64_t>(from + 24), at<uint64_t>(from + 32)};
  }

  std::optional<uint32_t> symbol_of(std::string_view kernel) const {
    for (size_t i = 0; i < count_; ++i) {
      const Section symbols = section(i);
      if (symbols.type != kSymbolTable || symbols.bytes > image_.size()) continue;
      const uint64_t names = section(symbols.link).begin;
      for (uint32_t k = 0; k < symbols.bytes / kSymbolBytes; ++k)
        if (text(names + at<uint32_t>(symbols.begin + k * kSymbolBytes)) == kernel) return k;
    }
    return std::nullopt;
  }

  // A sequence of attributes: form, number, and two bytes more, which are a value or a length.
  std::optional<MachineUse> use_in(const Section& info, uint32_t symbol) const {
    MachineUse use;
    for (uint64_t from = info.begin; from < info.begin + info.bytes && from < image_.size();) {
      const bool has_bytes = at<uint8_t>(from) == kHasBytes;
      const auto number = at<uint8_t>(from + 1);
      if (has_bytes && at<uint32_t>(from + 4) == symbol) {
        if (number == kRegisterCount) use.registers = at<uint32_t>(from + 8);
        if (number == kFrameSize) use.local_bytes = at<uint32_t>(from + 8);
      }
      from += 4 + (has_bytes ? at<uint16_t>(from + 2) : 0);
    }
    return use.registers == 0 ? std::nullopt : std::optional(use);
  }

  const std::vector<char>& image_;
  uint64_t sections_ = 0, names_ = 0;
  size_t count_ = 0;
};

}  // namespace

std::optional<MachineUse> machine_use(const std::vector<char>& image, std::string_view kernel) {
  return CubinReader(image).use(kernel);
}

uint32_t blocks_in_registers(uint32_t threads, uint32_t registers) {
  constexpr uint32_t kRegisters = 65536, kOfAWarp = 256;  // allocated to a warp in such steps
  const uint32_t warps = (threads + 31) / 32;
  const uint32_t of_a_warp = (32 * registers + kOfAWarp - 1) / kOfAWarp * kOfAWarp;
  return kRegisters / (of_a_warp * warps);
}

}  // namespace attacca::gpu
