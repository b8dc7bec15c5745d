// Packed weights: round trips bit for bit, their values, and everything that must be refused.
#include "ir/packed/packed.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/packed/header.hpp"
#include "ir/text/text.hpp"
#include "support/hash.hpp"

namespace attacca::ir {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}

void fill_bits(Tensor& tensor, std::mt19937& random) {
  for (int64_t i = 0; i < tensor.bytes(); ++i) tensor.data()[i] = static_cast<std::byte>(random());
}

// Full-range codes, zero points and, bit for bit, scales of every kind: NaN, infinity, subnormal.
Quantized random_weights(const Packing& packing, int64_t n, int64_t k, std::mt19937& random) {
  const int64_t groups = packing.group == 0 ? 1 : (k + packing.group - 1) / packing.group;
  Quantized from;
  from.weights = *Tensor::make(packing.weights, {n, packing.bits == 4 ? k / 2 : k});
  fill_bits(from.weights, random);
  if (packing.weights == DType::F8E4M3)
    for (int64_t i = 0; i < from.weights.size(); ++i)
      if ((from.weights.as<uint8_t>()[i] & 0x7f) == 0x7f) from.weights.as<uint8_t>()[i] = 0x80;
  from.scales = *Tensor::make(packing.scales, {n, groups});
  fill_bits(from.scales, random);
  if (packing.zeros) {
    from.zeros = *Tensor::make(packing.weights, {n, groups});
    const int64_t lowest = packing.weights == DType::S8 ? -(1 << (packing.bits - 1)) : 0;
    for (int64_t i = 0; i < from.zeros->size(); ++i)
      from.zeros->set_integer(i, lowest + static_cast<int64_t>(random() % (1u << packing.bits)));
  }
  return from;
}

std::vector<Packing> all_packings() {
  std::vector<Packing> all;
  for (const DType weights : {DType::S8, DType::U8, DType::F8E4M3})
    for (const int bits : {4, 8})
      for (const int64_t group : {0, 64, 128, 256})
        for (const DType scales : {DType::F32, DType::F16, DType::BF16})
          for (const bool zeros : {false, true}) {
            const Packing packing{weights, bits, group, scales, zeros};
            if (check(packing)) all.push_back(packing);
          }
  return all;
}

void expect_same_bytes(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())), 0);
}

TEST(Packed, ComesBackBitForBit) {
  std::mt19937 random(20261122);
  for (const Packing& packing : all_packings())
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{1, 2}, {64, 64}, {65, 130}, {200, 328}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", to_string(packing), n, k));
      const Quantized from = random_weights(packing, n, k, random);
      const auto packed = pack(from, packing);
      ASSERT_TRUE(packed) << to_string(packed.error());
      const auto layout = verify_packed(bytes_of(*packed));
      ASSERT_TRUE(layout) << to_string(layout.error());
      EXPECT_EQ(*layout, *packed_layout(packing, n, k));
      const auto back = unpack(bytes_of(*packed));
      ASSERT_TRUE(back);
      expect_same_bytes(back->weights, from.weights);
      expect_same_bytes(back->scales, from.scales);
      ASSERT_EQ(back->zeros.has_value(), from.zeros.has_value());
      if (from.zeros) expect_same_bytes(*back->zeros, *from.zeros);
    }
}

TEST(Packed, StandsForCodeMinusZeroTimesScale) {
  std::mt19937 random(7);
  for (const Packing& packing : all_packings()) {
    SCOPED_TRACE(to_string(packing));
    constexpr int64_t n = 70, k = 200;
    Quantized from = random_weights(packing, n, k, random);
    for (int64_t i = 0; i < from.scales.size(); ++i)
      from.scales.set_number(i, 0.01 * static_cast<double>(random() % 100));
    const Tensor packed = *pack(from, packing);
    Tensor weights = *Tensor::make(DType::F32, {n, k});
    dequantize(bytes_of(packed), *verify_packed(bytes_of(packed)), weights);
    const int64_t groups = from.scales.shape()[1];
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column) {
        double code;
        if (packing.bits == 4) {
          const int pair = from.weights.as<uint8_t>()[row * k / 2 + column / 2];
          const int nibble = pair >> (column % 2 * 4) & 15;
          code = packing.weights == DType::S8 && nibble > 7 ? nibble - 16 : nibble;
        } else {
          code = from.weights.number_at(row * k + column);
        }
        const int64_t entry = row * groups + (packing.group == 0 ? 0 : column / packing.group);
        if (from.zeros) code -= from.zeros->number_at(entry);
        const auto wanted = static_cast<float>(code * from.scales.number_at(entry));
        ASSERT_EQ(weights.as<float>()[row * k + column], wanted) << row << ", " << column;
      }
  }
}

// Where a tensor core finds them: written down from the fragments of mma.m16n8k16.
TEST(Packed, MayLieAnywhere) {
  std::mt19937 random(5);
  for (const Packing& packing : all_packings()) {
    const Tensor packed = *pack(random_weights(packing, 9, 130, random), packing);
    std::vector<std::byte> moved(static_cast<size_t>(packed.bytes()) + 1);
    std::memcpy(moved.data() + 1, packed.data(), static_cast<size_t>(packed.bytes()));
    const auto bytes = std::span<const std::byte>(moved).subspan(1);
    const auto layout = verify_packed(bytes);
    ASSERT_TRUE(layout);
    Tensor weights = *Tensor::make(DType::F32, {9, 130}),
           same = *Tensor::make(DType::F32, {9, 130});
    dequantize(bytes_of(packed), *layout, weights);
    dequantize(bytes, *layout, same);
    expect_same_bytes(weights, same);
    expect_same_bytes(unpack(bytes_of(packed))->scales, unpack(bytes)->scales);
  }
}

TEST(Packed, ALaneFindsItsFragmentInOneLoad) {
  Quantized from;
  from.weights = *Tensor::make(DType::U8, {64, 64});
  for (int64_t i = 0; i < 64 * 64; ++i)
    from.weights.as<uint8_t>()[i] = static_cast<uint8_t>(i % 251);
  from.scales = Tensor::of(DType::F32, {64}, std::vector<double>(64, 1));
  const Tensor packed = *pack(from, {DType::U8, 8, 0, DType::F32, false});
  const auto code = [&](int n, int k) { return from.weights.as<uint8_t>()[n * 64 + k]; };
  for (int fragment = 0; fragment < 4; ++fragment)
    for (int lane = 0; lane < 32; ++lane)
      for (int step = 0; step < 4; ++step) {
        const uint8_t* at = packed.as<uint8_t>() + 256 + fragment * 1024 + step / 2 * 512 +
                            lane * 16 + step % 2 * 8;
        const int n = fragment * 16 + lane / 4, k = step * 16 + lane % 4 * 2;
        const uint8_t wanted[] = {code(n, k),         code(n, k + 1),    code(n + 8, k),
                                  code(n + 8, k + 1), code(n, k + 8),    code(n, k + 9),
                                  code(n + 8, k + 8), code(n + 8, k + 9)};
        ASSERT_EQ(std::memcmp(at, wanted, 8), 0) << fragment << " " << lane << " " << step;
      }
}

Tensor small_packed() {
  std::mt19937 random(3);
  const Packing packing{DType::S8, 4, 64, DType::BF16, true};
  return *pack(random_weights(packing, 40, 128, random), packing);
}

std::string refusal(std::span<const std::byte> bytes) {
  const auto layout = verify_packed(bytes);
  if (layout) return "";
  EXPECT_FALSE(layout.error().fix.empty()) << layout.error().what;
  return layout.error().what;
}

TEST(Packed, EveryFlippedBitIsFound) {
  Tensor packed = small_packed();
  ASSERT_EQ(refusal(bytes_of(packed)), "");
  for (int64_t i = 0; i < packed.bytes(); ++i) {
    const auto bit = static_cast<std::byte>(1 << i % 8);
    packed.data()[i] ^= bit;
    EXPECT_NE(refusal(bytes_of(packed)), "") << "byte " << i;
    packed.data()[i] ^= bit;
  }
}

TEST(Packed, EveryLengthButItsOwnIsRefused) {
  const Tensor packed = small_packed();
  for (int64_t length = 0; length < packed.bytes(); ++length)
    EXPECT_NE(refusal(bytes_of(packed).first(static_cast<size_t>(length))), "") << length;
  std::vector<std::byte> longer(bytes_of(packed).begin(), bytes_of(packed).end());
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer), "");
}

TEST(Packed, SaysWhatIsWrong) {
  Tensor packed = small_packed();
  auto* bytes = packed.data();
  bytes[packed.bytes() - 1] ^= std::byte{1};
  EXPECT_NE(refusal(bytes_of(packed)).find("checksum"), std::string::npos);
  bytes[8] = std::byte{2};
  EXPECT_NE(refusal(bytes_of(packed)).find("version 2, this one reads 1"), std::string::npos);
  bytes[0] = std::byte{0};
  EXPECT_NE(refusal(bytes_of(packed)).find("not ATTPACK"), std::string::npos);
}

// Headers that are intact, of another version's packing.
TEST(Packed, WhatWasMadeForAnotherKernelIsRefused) {
  const struct {
    size_t at;
    uint8_t value;
    const char* reason;
  } cases[] = {{12, 8, "a header of 264 bytes, this version's have 256"},
               {16, 2, "layout 2, this version reads 1"},
               {20, 90, "for kernels of compute capability 90, this version's have 80"},
               {24, 9, "dtypes that this version does not know"},
               {28, 3, "packed s8 of 3 bits"},
               {32, 0, "dtypes that this version does not know"},
               {36, 3, "that fold"},
               {36, 4, "dtypes that this version does not know"},
               {40, 0, "packed weights of shape [0, "},
               {48, 254, "bytes, the header says"},
               {56, 65, "groups of 65"},
               {64, 1, "bytes, the header says"}};
  for (const auto& each : cases) {
    Tensor packed = small_packed();
    packed.as<uint8_t>()[each.at] = each.value;
    const uint64_t hash = hash64({reinterpret_cast<const char*>(packed.data()), 80});
    std::memcpy(packed.data() + 80, &hash, sizeof hash);
    EXPECT_NE(refusal(bytes_of(packed)).find(each.reason), std::string::npos)
        << each.at << ": " << refusal(bytes_of(packed));
  }
}

// The flag in the header of weights whose scales are 1 but for one.
bool folds(const Packing& packing, double scale) {
  std::mt19937 random(5);
  Quantized from = random_weights(packing, 40, 128, random);
  for (int64_t i = 0; i < from.scales.size(); ++i) from.scales.set_number(i, 1);
  from.scales.set_number(17, scale);
  const Tensor packed = *pack(from, packing);
  EXPECT_EQ(refusal(bytes_of(packed)), "");
  return (packed.as<uint8_t>()[36] & 2) != 0;
}

TEST(Packed, ScalesFoldWhereOneRoundingIsExact) {
  const Packing packing{DType::S8, 4, 64, DType::BF16, false};
  for (const double scale : {0.0, -0.0, 1.0, -0.01, 1.9921875, -1.9921875, 0x1p-123})
    EXPECT_TRUE(folds(packing, scale)) << scale;
  for (const double scale : {2.0, -3e38, 0x1.fcp-124, -0x1p-133, HUGE_VAL, std::nan("")})
    EXPECT_FALSE(folds(packing, scale)) << scale;
  for (const Packing& other :
       {Packing{DType::S8, 4, 64, DType::BF16, true}, Packing{DType::U8, 4, 64, DType::BF16, false},
        Packing{DType::S8, 8, 64, DType::BF16, false}, Packing{DType::S8, 4, 64, DType::F16, false},
        Packing{DType::S8, 4, 64, DType::F32, false}})
    EXPECT_FALSE(folds(other, 1)) << to_string(other);
}

TEST(Packed, RandomBytesAreRefused) {
  std::mt19937 random(11);
  Tensor packed = small_packed();
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> bytes(bytes_of(packed).begin(), bytes_of(packed).end());
    const size_t changes = 1 + random() % 40;
    for (size_t i = 0; i < changes; ++i) bytes[random() % 256] = static_cast<std::byte>(random());
    bytes[256] ^= std::byte{1};
    EXPECT_NE(refusal(bytes), "");
  }
}

struct Bad {
  const char* what;
  Packing packing;
  std::vector<int64_t> weights, scales;
  DType weights_dtype = DType::S8, scales_dtype = DType::F32;
};

TEST(Packed, WhatDoesNotFitIsRefused) {
  const Bad cases[] = {
      {"f64 weights", {DType::F64}, {4, 4}, {4, 1}},
      {"4-bit floats", {DType::F8E4M3, 4}, {4, 4}, {4, 1}, DType::F8E4M3},
      {"5 bits", {DType::S8, 5}, {4, 4}, {4, 1}},
      {"a group of 96", {DType::S8, 8, 96}, {4, 4}, {4, 1}},
      {"a group of 32", {DType::S8, 8, 32}, {4, 4}, {4, 1}},
      {"a negative group", {DType::S8, 8, -64}, {4, 4}, {4, 1}},
      {"s32 scales", {DType::S8, 8, 0, DType::S32}, {4, 4}, {4, 1}, DType::S8, DType::S32},
      {"other scales", {DType::S8, 8, 0, DType::F16}, {4, 4}, {4, 1}},
      {"other weights", {DType::U8}, {4, 4}, {4, 1}},
      {"a vector", {DType::S8}, {4}, {4, 1}},
      {"no rows", {DType::S8}, {0, 4}, {0, 1}},
      {"too few scales", {DType::S8, 8, 64}, {4, 128}, {4, 1}},
      {"zeros that are missing", {DType::S8, 8, 0, DType::F32, true}, {4, 4}, {4, 1}},
  };
  for (const Bad& bad : cases) {
    Quantized from{*Tensor::make(bad.weights_dtype, bad.weights),
                   *Tensor::make(bad.scales_dtype, bad.scales), std::nullopt};
    EXPECT_FALSE(pack(from, bad.packing)) << bad.what;
  }
  Quantized nan{*Tensor::make(DType::F8E4M3, {1, 2}), *Tensor::make(DType::F32, {1}), std::nullopt};
  nan.weights.as<uint8_t>()[1] = 0xff;
  const auto refused = pack(nan, {DType::F8E4M3});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("NaN"), std::string::npos);
  Quantized wild{*Tensor::make(DType::S8, {1, 2}), *Tensor::make(DType::F32, {1}),
                 Tensor::of(DType::S8, {1}, {8})};
  EXPECT_FALSE(pack(wild, {DType::S8, 4, 0, DType::F32, true}));
}

constexpr const char* kGraph =
    "graph g(x: f32[2, 128], w: u8[4864]) {{ "
    "return x @ transpose(unpack(w, [40, 128], weights=s8, bits=4, group={}, scales=bf16, "
    "zeros=true, dtype=bf16)) }}";

TEST(Packed, GraphsUnpack) {
  const auto layout = packed_layout({DType::S8, 4, 64, DType::BF16, true}, 40, 128);
  ASSERT_EQ(layout->bytes, 4864) << "the size that the graph names";
  const auto graph = parse_graph(fmt::format(kGraph, 64));
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto again = parse_graph(print_graph(*graph));
  ASSERT_TRUE(again) << print_graph(*graph);
  EXPECT_EQ(print_graph(*again), print_graph(*graph));
  Bindings inputs;
  inputs.emplace("x", *Tensor::make(DType::F32, {2, 128}));
  inputs.emplace("w", small_packed());
  for (const Precision precision : {Precision::Exact, Precision::Fp32, Precision::Eager})
    EXPECT_TRUE(interpret(*graph, inputs, {.precision = precision}));
}

TEST(Packed, AGraphRefusesWhatWasPackedOtherwise) {
  const Packing packing{DType::U8, 4, 64, DType::BF16, true};
  std::mt19937 random(5);
  Bindings inputs;
  inputs.emplace("x", *Tensor::make(DType::F32, {2, 128}));
  inputs.emplace("w", *pack(random_weights(packing, 40, 128, random), packing));
  const auto result = interpret(*parse_graph(fmt::format(kGraph, 64)), inputs);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().what.find("weights=u8, bits=4"), std::string::npos)
      << result.error().what;
  EXPECT_FALSE(result.error().fix.empty());
}

TEST(Packed, BadUnpacksAreRefused) {
  const char* const bad[] = {
      "unpack(w, [40, 128], weights=s8, bits=4, group=32)",
      "unpack(w, [40, 128], weights=s8, bits=3)",
      "unpack(w, [40, 128])",
      "unpack(w, [40], weights=s8)",
      "unpack(w, [M, 128], weights=s8)",
      "unpack(w, [40, 128], weights=s8)",
      "unpack(w, [40, 128], weights=f16)",
      "unpack(w, [40, 128], weights=s8, bits=4, group=64, scales=bf16, zeros=true, dtype=s8)",
      "unpack(x, [40, 128], weights=s8, bits=4, group=64, scales=bf16, zeros=true)",
  };
  for (const char* call : bad) {
    const auto graph =
        parse_graph(fmt::format("graph g(x: f32[M, 128], w: u8[4864]) {{ return {} }}", call));
    ASSERT_FALSE(graph) << call;
    EXPECT_FALSE(graph.error().fix.empty()) << call << ": " << graph.error().what;
  }
}

// ---- Scales of u8

constexpr Packing kWhole{DType::S8, 4, 128, DType::U8, false};

Quantized random_whole(const Packing& packing, int64_t n, int64_t k, std::mt19937& random) {
  Quantized from = random_weights(packing, n, k, random);
  for (int64_t i = 0; i < from.scales.size(); ++i) from.scales.as<uint8_t>()[i] = random() % 9;
  return from;
}

TEST(PackedWhole, IsCodeMinusZeroTimesScaleAndComesBack) {
  std::mt19937 random(20261124);
  for (const DType weights : {DType::S8, DType::U8})
    for (const int64_t group : {0, 128, 256})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 2}, {65, 130}, {70, 640}}) {
        const Packing packing{weights, 4, group, DType::U8, true};
        SCOPED_TRACE(fmt::format("{} [{}, {}]", to_string(packing), n, k));
        const Quantized from = random_whole(packing, n, k, random);
        const auto packed = pack(from, packing);
        ASSERT_TRUE(packed) << to_string(packed.error());
        const auto layout = verify_packed(bytes_of(*packed));
        ASSERT_TRUE(layout) << to_string(layout.error());
        const auto back = unpack(bytes_of(*packed));
        expect_same_bytes(back->weights, from.weights);
        expect_same_bytes(back->scales, from.scales);
        expect_same_bytes(*back->zeros, *from.zeros);
        Tensor made = *Tensor::make(DType::S8, {n, k});
        dequantize(bytes_of(*packed), *layout, made);
        for (int64_t row = 0; row < n; ++row)
          for (int64_t column = 0; column < k; ++column) {
            const int nibble =
                from.weights.as<uint8_t>()[(row * k + column) / 2] >> (column % 2 * 4) & 15;
            const int code = weights == DType::S8 && nibble > 7 ? nibble - 16 : nibble;
            const int64_t entry =
                row * layout->groups + (packing.group == 0 ? 0 : column / packing.group);
            ASSERT_EQ(made.integer_at(row * k + column),
                      (code - from.zeros->integer_at(entry)) * from.scales.integer_at(entry))
                << row << ", " << column;
          }
      }
}

// Written down from the fragments of mma.m16n8k32.
TEST(PackedWhole, ALaneFindsItsFragmentInOneLoad) {
  std::mt19937 random(2);
  const Quantized from = random_whole(kWhole, 64, 128, random);
  const Tensor packed = *pack(from, kWhole);
  const auto code = [&](int n, int k) {
    return (from.weights.as<uint8_t>()[n * 64 + k / 2] >> (k % 2 * 4) & 15) ^ 8;
  };
  for (int block = 0; block < 2; ++block)
    for (int fragment = 0; fragment < 4; ++fragment)
      for (int lane = 0; lane < 32; ++lane)
        for (int word = 0; word < 4; ++word)
          for (int i = 0; i < 4; ++i) {
            const int n = fragment * 16 + lane / 4;
            const int k = block * 64 + word / 2 * 32 + word % 2 * 16 + lane % 4 * 4 + i;
            const uint8_t at =
                packed
                    .as<uint8_t>()[256 + block * 2048 + fragment * 512 + lane * 16 + word * 4 + i];
            ASSERT_EQ(at, code(n, k) | code(n + 8, k) << 4) << n << ", " << k;
          }
}

TEST(PackedWhole, GraphsMultiplyItExactly) {
  std::mt19937 random(4);
  const Quantized from = random_whole(kWhole, 3, 256, random);
  Bindings inputs;
  inputs.emplace("w", *pack(from, kWhole));
  Tensor x = *Tensor::make(DType::S8, {2, 256});
  fill_bits(x, random);
  inputs.emplace("x", x);
  const auto graph = parse_graph(
      "graph g(x: s8[2, 256], w: u8[8704]) { return x @ transpose(unpack(w, [3, 256], weights=s8, "
      "bits=4, group=128, scales=u8, dtype=s8)) }");
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(print_graph(*parse_graph(print_graph(*graph))), print_graph(*graph));
  for (const Precision precision : {Precision::Exact, Precision::Fp32, Precision::Eager}) {
    const auto result = interpret(*graph, inputs, {.precision = precision});
    ASSERT_TRUE(result) << to_string(result.error());
    for (int64_t m = 0; m < 2; ++m)
      for (int64_t n = 0; n < 3; ++n) {
        int64_t sum = 0;
        for (int64_t k = 0; k < 256; ++k) {
          const int nibble = from.weights.as<uint8_t>()[n * 128 + k / 2] >> (k % 2 * 4) & 15;
          sum += x.integer_at(m * 256 + k) * (nibble > 7 ? nibble - 16 : nibble) *
                 from.scales.integer_at(n * 2 + k / 128);
        }
        EXPECT_EQ(result->front().number_at(m * 3 + n), static_cast<double>(sum));
      }
  }
}

TEST(PackedWhole, WhatIsNoS8IsRefused) {
  Quantized from{*Tensor::make(DType::U8, {1, 64}), Tensor::of(DType::U8, {1}, {9}), std::nullopt};
  from.weights.as<uint8_t>()[7] = 0xe0;  // 14 * 9 is one, 15 * 9 is not
  const Packing packing{DType::U8, 4, 0, DType::U8, false};
  EXPECT_TRUE(pack(from, packing));
  from.weights.as<uint8_t>()[7] = 0xf0;
  const auto refused = pack(from, packing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "the weight at [0, 15] is 135, no s8");
  for (const Packing& bad :
       {Packing{DType::U8, 8, 0, DType::U8}, Packing{DType::U8, 4, 64, DType::U8}})
    EXPECT_FALSE(check(bad)) << to_string(bad);
  EXPECT_FALSE(
      parse_graph("graph g(w: u8[8704]) { return unpack(w, [3, 256], weights=s8, bits=4, "
                  "group=128, scales=u8, dtype=bf16) }"));
}

}  // namespace
}  // namespace attacca::ir
