// Checkpoints packed and unpacked, bit for bit; malicious headers of every kind.
#include "import/files/pack_weights.hpp"

#include <cstring>
#include <filesystem>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "import/files/safetensors.hpp"
#include "ir/packed/header.hpp"
#include "support/files/file.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Tensor;

struct Named {
  std::string name;
  Tensor tensor;
};

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937& random) {
  Tensor tensor = *Tensor::make(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.bytes(); ++i)
    tensor.data()[i] = static_cast<std::byte>(random() & 0x3f);
  return tensor;
}

class PackWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("pack_weights_{}_{}", getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, const std::vector<Named>& tensors) const {
    SafetensorsHeader header;
    header.metadata = {{"format", "pt"}};
    std::vector<uint64_t> sizes;
    for (const Named& each : tensors) {
      header.entries.push_back({each.name, std::string(*safetensors_dtype(each.tensor.dtype())),
                                each.tensor.shape(), 0, 0});
      sizes.push_back(static_cast<uint64_t>(each.tensor.bytes()));
    }
    place_entries(header, sizes);
    auto writer = SafetensorsWriter::create(path(name), header);
    ASSERT_TRUE(writer);
    for (const Named& each : tensors)
      ASSERT_TRUE(writer->write(each.tensor.data(), static_cast<uint64_t>(each.tensor.bytes())));
    ASSERT_TRUE(writer->commit());
  }

  std::vector<Named> checkpoint(DType weights, int bits) {
    const int64_t columns = bits == 4 ? 96 : 192;
    std::vector<Named> all = {{"embed", random_tensor(DType::BF16, {3, 5}, random_)},
                              {"up.weight", random_tensor(weights, {70, columns}, random_)},
                              {"up.weight_scale", random_tensor(DType::BF16, {70, 3}, random_)},
                              {"norm", random_tensor(DType::F32, {7}, random_)},
                              {"down.weight", random_tensor(weights, {8, columns}, random_)},
                              {"down.weight_scale", random_tensor(DType::F32, {8}, random_)}};
    if (weights == DType::F8E4M3) return all;
    Tensor zeros = *Tensor::make(weights, {70, 3});
    for (int64_t i = 0; i < zeros.size(); ++i) zeros.set_integer(i, i % 8);
    all.push_back({"up.weight_zero_point", zeros});
    return all;
  }

  std::filesystem::path folder_;
  std::mt19937 random_{42};
};

TEST_F(PackWeights, FilesComeBackBitForBit) {
  for (const auto& [weights, bits] : {std::pair{DType::S8, 8},
                                      {DType::U8, 8},
                                      {DType::S8, 4},
                                      {DType::U8, 4},
                                      {DType::F8E4M3, 8}}) {
    SCOPED_TRACE(fmt::format("{} {}", name(weights), bits));
    const std::vector<Named> all = checkpoint(weights, bits);
    write("a", all);
    std::vector<double> steps;
    const auto packed = pack_file(path("a"), path("b"), {{}, bits},
                                  [&](double done, const std::string&) { steps.push_back(done); });
    ASSERT_TRUE(packed) << to_string(packed.error());
    ASSERT_EQ(packed->size(), 2u);
    EXPECT_EQ((*packed)[0].layout.packing.group, 64);
    EXPECT_EQ((*packed)[1].layout.packing.group, 0);
    EXPECT_EQ(steps.size(), 4u);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    auto file = SafetensorsReader::open(path("b"));
    ASSERT_TRUE(file);
    EXPECT_EQ(file->header().entries.size(), 4u);
    const Tensor weight = *file->read(*file->header().find("up.weight"));
    EXPECT_TRUE(ir::verify_packed({weight.data(), static_cast<size_t>(weight.bytes())}));
    ASSERT_TRUE(unpack_file(path("b"), path("c"), {}));
    auto back = SafetensorsReader::open(path("c"));
    ASSERT_TRUE(back);
    ASSERT_EQ(back->header().entries.size(), all.size());
    EXPECT_EQ(back->header().metadata,
              (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
    for (const Named& each : all) {
      const SafetensorsEntry* entry = back->header().find(each.name);
      ASSERT_NE(entry, nullptr) << each.name;
      const auto tensor = back->read(*entry);
      ASSERT_TRUE(tensor);
      EXPECT_EQ(tensor->dtype(), each.tensor.dtype()) << each.name;
      ASSERT_EQ(tensor->shape(), each.tensor.shape()) << each.name;
      EXPECT_EQ(
          std::memcmp(tensor->data(), each.tensor.data(), static_cast<size_t>(each.tensor.bytes())),
          0)
          << each.name;
    }
  }
}

// As write() would, from what a file holds.
std::vector<std::pair<std::string, std::vector<char>>> contents(const std::string& path) {
  auto file = SafetensorsReader::open(path);
  std::vector<std::pair<std::string, std::vector<char>>> all;
  if (!file) return all;
  for (const SafetensorsEntry& entry : file->header().entries) {
    all.emplace_back(fmt::format("{} {}{}", entry.name, entry.dtype, ir::to_string(entry.shape)),
                     std::vector<char>(entry.bytes()));
    EXPECT_TRUE(file->read(entry, 0, all.back().second.data(), entry.bytes()));
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST_F(PackWeights, NamesOfEveryKindComeBack) {
  for (const std::string name : {"", "; ", "a; scales b", "x; row zeros y", "a]b, [", "é\n\"\\",
                                 "w_scale", "unpack(w", "a/../b"}) {
    for (const char* scale : {"_scale", "_scales", ".scale"})
      for (const char* zero : {"_zero_point", ".zero_point"}) {
        SCOPED_TRACE(name + scale + zero);
        write("a", {{name, random_tensor(DType::S8, {3, 70}, random_)},
                    {name + scale, random_tensor(DType::F32, {3, 2}, random_)},
                    {name + zero, random_tensor(DType::S8, {3, 2}, random_)},
                    {"row", random_tensor(DType::U8, {3, 70}, random_)},
                    {"row.scale", random_tensor(DType::F32, {3}, random_)},
                    {"row.zero_point", random_tensor(DType::U8, {3, 1}, random_)}});
        const auto packed = pack_file(path("a"), path("b"), {}, {});
        ASSERT_TRUE(packed) << to_string(packed.error());
        EXPECT_EQ(packed->size(), 2u);
        const auto unpacked = unpack_file(path("b"), path("c"), {});
        ASSERT_TRUE(unpacked) << to_string(unpacked.error());
        EXPECT_EQ(contents(path("a")), contents(path("c")));
      }
  }
}

TEST_F(PackWeights, WhatStandsBesideAWeightIsNoWeight) {
  write("a", {{"w_zero_point_scale", random_tensor(DType::F32, {3}, random_)},
              {"w_zero_point", random_tensor(DType::S8, {3, 2}, random_)},
              {"w_scale", random_tensor(DType::F32, {3, 2}, random_)},
              {"w", random_tensor(DType::S8, {3, 70}, random_)}});
  const auto packed = pack_file(path("a"), path("b"), {}, {});
  ASSERT_TRUE(packed) << to_string(packed.error());
  EXPECT_EQ(packed->size(), 1u);
  ASSERT_TRUE(unpack_file(path("b"), path("c"), {}));
  EXPECT_EQ(contents(path("a")), contents(path("c")));
}

TEST_F(PackWeights, MetadataThatWasChangedIsRefused) {
  const Tensor codes = random_tensor(DType::S8, {3, 70}, random_),
               scale = random_tensor(DType::F32, {3}, random_);
  write("a", {{"w", codes}, {"w_scale", scale}});
  ASSERT_TRUE(pack_file(path("a"), path("b"), {}, {}));
  const std::string bytes = *read_file(path("b"));
  const struct {
    const char *from, *to, *what;
  } cases[] = {
      {"scales w_scale", "scales w_scalE", "the metadata attacca.unpack.w says of [3, 70]"},
      {"row scales", "roW scales", "the metadata attacca.unpack.w says of [3, 70]"},
      {"[3, 70]", "[7, 30]", "the metadata attacca.unpack.w says of [3, 70]"},
      {"attacca.unpack.w", "attacca.unpack.v", "attacca.unpack.v names no tensor"}};
  for (const auto& each : cases) {
    std::string changed = bytes;
    changed.replace(changed.find(each.from), std::strlen(each.from), each.to);
    std::ofstream(path("d"), std::ios::binary)
        .write(changed.data(), static_cast<std::streamsize>(changed.size()));
    const auto unpacked = unpack_file(path("d"), path("c"), {});
    ASSERT_FALSE(unpacked) << each.to;
    EXPECT_NE(unpacked.error().what.find(each.what), std::string::npos) << unpacked.error().what;
    EXPECT_FALSE(std::filesystem::exists(path("c")));
  }
  // A tensor that came into the packed file later, under the name of the scales.
  auto packed = SafetensorsReader::open(path("b"));
  SafetensorsHeader header = packed->header();
  const Tensor weight = *packed->read(header.entries[0]);
  header.entries.push_back({"w_scale", "U8", {0}, 0, 0});
  place_entries(header, {static_cast<uint64_t>(weight.bytes()), 0});
  {
    auto writer = SafetensorsWriter::create(path("d"), header);
    ASSERT_TRUE(writer && writer->write(weight.data(), static_cast<uint64_t>(weight.bytes())) &&
                writer->commit());
  }
  EXPECT_EQ(unpack_file(path("d"), path("c"), {}).error().what,
            "two tensors would be called w_scale");
}

TEST_F(PackWeights, TheFileItselfMayBeReplaced) {
  write("a", {{"w", random_tensor(DType::S8, {3, 70}, random_)},
              {"w_scale", random_tensor(DType::F32, {3}, random_)}});
  EXPECT_TRUE(pack_file(path("a"), path("a"), {}, {}));
  EXPECT_TRUE(unpack_file(path("a"), path("a"), {}));
}

TEST_F(PackWeights, PatternsChoose) {
  write("a", checkpoint(DType::S8, 8));
  const auto packed = pack_file(path("a"), path("b"), {{"up.*"}, 8}, {});
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->size(), 1u);
  EXPECT_EQ(SafetensorsReader::open(path("b"))->header().entries.size(), 5u - 0u);
}

TEST_F(PackWeights, WhatCannotBePackedLeavesNoFile) {
  const auto refused = [&](const std::vector<Named>& tensors, const PackOptions& options = {}) {
    write("a", tensors);
    const auto packed = pack_file(path("a"), path("b"), options, {});
    EXPECT_FALSE(std::filesystem::exists(path("b")));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
    if (packed) return std::string();
    EXPECT_FALSE(packed.error().fix.empty()) << packed.error().what;
    return packed.error().what;
  };
  const Tensor weights = random_tensor(DType::S8, {8, 128}, random_);
  EXPECT_NE(refused({{"w", weights}}), "");
  EXPECT_NE(refused({{"w", weights}, {"w_scale", random_tensor(DType::F32, {8, 5}, random_)}}), "");
  EXPECT_NE(refused({{"w", weights}, {"w_scale", random_tensor(DType::F32, {7}, random_)}}), "");
  EXPECT_NE(refused({{"w", weights}, {"w_scale", random_tensor(DType::S32, {8}, random_)}}), "");
  EXPECT_NE(refused({{"w", random_tensor(DType::BF16, {8, 128}, random_)},
                     {"w_scale", random_tensor(DType::F32, {8}, random_)}}),
            "");
  Tensor nan = random_tensor(DType::F8E4M3, {8, 128}, random_);
  nan.as<uint8_t>()[77] = 0x7f;
  EXPECT_NE(refused({{"w", nan}, {"w_scale", random_tensor(DType::F32, {8}, random_)}}), "");
}

TEST_F(PackWeights, ADamagedWeightIsNotUnpacked) {
  write("a", checkpoint(DType::S8, 4));
  ASSERT_TRUE(pack_file(path("a"), path("b"), {{}, 4}, {}));
  std::string bytes = *read_file(path("b"));
  bytes[bytes.size() - 1] ^= 1;
  std::ofstream(path("b"), std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto unpacked = unpack_file(path("b"), path("c"), {});
  EXPECT_FALSE(unpacked);
  EXPECT_FALSE(std::filesystem::exists(path("c")));
}

std::string refusal(std::string_view json, uint64_t bytes) {
  const auto header = parse_safetensors_header(json, bytes, "test");
  if (header) return "";
  EXPECT_FALSE(header.error().fix.empty()) << header.error().what;
  return header.error().what;
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const struct {
    const char* json;
    uint64_t bytes;
  } cases[] = {
      {"", 0},
      {"[]", 0},
      {"{", 0},
      {"7", 0},
      {"{\"a\": 1}", 0},
      {"{\"__metadata__\": {\"a\": 1}}", 0},
      {"{\"__metadata__\": []}", 0},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 7},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 9},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}})", 9},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", 8},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}})", 8},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})", 12},
      {R"({"a": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 10]}})", 10},
      {R"({"a": {"dtype": "F32", "shape": [2]}})", 8},
      {R"({"a": {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}})", 8},
      {R"({"a": {"dtype": 3, "shape": [2], "data_offsets": [0, 8]}})", 8},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 9]}})", 8},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})", 0},
      {R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
           "b": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]}})",
       12},
      {R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 18446744073709551615]}})", 8},
      {R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
           "a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}})",
       8},
  };
  for (const auto& each : cases) {
    const auto header = parse_safetensors_header(each.json, each.bytes, "test");
    EXPECT_FALSE(header) << each.json;
  }
  EXPECT_EQ(refusal(R"({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]},
                        "e": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]},
                        "x": {"dtype": "MX4", "shape": [3], "data_offsets": [8, 9]}})",
                    9),
            "");
}

TEST_F(PackWeights, MutatedFilesNeverCrash) {
  write("a", checkpoint(DType::S8, 8));
  const std::string whole = *read_file(path("a"));
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = whole;
    if (random_() % 4 == 0) bytes.resize(random_() % bytes.size());
    const size_t changes = 1 + random_() % 6;
    for (size_t i = 0; i < changes && !bytes.empty(); ++i)
      bytes[random_() % std::min<size_t>(bytes.size(), 700)] =
          random_() % 2 ? static_cast<char>(random_()) : "0123456789[]{},\""[random_() % 16];
    std::ofstream(path("m"), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    (void)pack_file(path("m"), path("n"), {}, {});
  }
}

}  // namespace
}  // namespace attacca::import
