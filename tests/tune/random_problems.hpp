// Random problems as text: every kind of product that a template takes, with random tails.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace attacca::tune::testing {

class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}

  template <class T>
  T pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // A matrix, dense or with rows that lie apart or all at one place.
  std::string matrix(const std::string& name, const std::string& dtype, int rows, int columns) {
    const std::string batches = batched_ && number(2) ? "3, " : "";
    const std::string shape = fmt::format("{}{}, {}", batches, rows, columns);
    const int apart = columns + pick<int>({1, 8, 16});
    if (batches.empty() && number(4) == 0)
      return fmt::format("{}: {}[{}; {}, 1]", name, dtype, shape, number(5) ? apart : 0);
    return fmt::format("{}: {}[{}]", name, dtype, shape);
  }

  // "PARAMETERS) {\nBODY" of a product, a gate, packed weights, bytes, scaled blocks or groups of
  // rows, and a tail. `rows`: of A, in place of random ones; all else is the same.
  std::pair<std::string, std::string> problem(std::optional<int> rows = {}) {
    batched_ = number(3) == 0;
    m_ = pick<int>({1, 2, 8, 16, 64, 100, 300});
    m_ = rows.value_or(m_);
    n_ = pick<int>({1, 8, 24, 64, 100, 256, 1024});
    k_ = pick<int>({0, 1, 8, 16, 64, 65, 128, 400});
    switch (number(10)) {
      case 0:
        return gate();
      case 1:
        return packed();
      case 2:
        return scaled();
      case 3:
        return widened();
      case 4:
        return grouped({"bf16", "f16", "f8e4m3", "s8"});
      case 5:
      case 6:
        return grouped({"mxfp4", "decode", "decode"});
      default:
        return product();
    }
  }

 private:
  std::pair<std::string, std::string> product() {
    const auto [a, b, attributes] = pick<std::tuple<const char*, const char*, const char*>>(
        {{"bf16", "bf16", ""},
         {"bf16", "bf16", ""},
         {"f16", "f16", ""},
         {"s8", "s8", ""},
         {"u8", "s8", ""},
         {"f8e4m3", "f8e5m2", ""},
         {"f8e4m3", "f8e4m3", ", fast=true"},
         {"f32", "f32", ""}});
    const bool a_transposed = number(5) == 0, b_transposed = number(3) > 0;
    std::string parameters = (a_transposed ? matrix("a", a, k_, m_) : matrix("a", a, m_, k_)) +
                             ", " +
                             (b_transposed ? matrix("b", b, n_, k_) : matrix("b", b, k_, n_));
    const std::string body =
        fmt::format("y = cast(matmul({}, {}{}), f32)", a_transposed ? "transpose(a)" : "a",
                    b_transposed ? "transpose(b)" : "b", attributes);
    return tail(parameters, body);
  }

  std::pair<std::string, std::string> gate() {
    const std::string dtype = pick<const char*>({"bf16", "bf16", "f16", "f8e4m3"});
    const std::string a = matrix("a", dtype, m_, k_);
    const auto [weights, products] = pick<std::pair<std::string, std::string>>(
        {{matrix("v", dtype, n_, k_) + ", " + matrix("w", dtype, n_, k_),
          "p = a @ transpose(v); q = a @ transpose(w)"},
         {matrix("w", dtype, 2 * n_, k_),
          fmt::format("h = a @ transpose(w); p = h[..., :{0}]; q = h[..., {0}:]", n_)},
         {matrix("w", dtype, 2 * n_, k_),
          "h = a @ transpose(w); p = h[..., ::2]; q = h[..., 1::2]"},
         {matrix("w", dtype, k_, 2 * n_), "h = a @ w; q = h[..., ::2]; p = h[..., 1::2]"}});
    return tail(a + ", " + weights, products + "\ny = cast(silu(p) * q, f32)");
  }

  std::pair<std::string, std::string> packed() {
    batched_ = false;
    n_ = 64 * (1 + number(4));
    k_ = 64 * (1 + number(4));
    const auto [dtype, scales, unpacked] =
        pick<std::tuple<const char*, const char*, const char*>>({{"bf16", "bf16", "bf16"},
                                                                 {"f16", "f16", "f16"},
                                                                 {"bf16", "f32", "f32"},
                                                                 {"s8", "u8", "s8"}});
    const std::string_view of_scales = scales;
    const int width = of_scales == "f32" ? 4 : of_scales == "u8" ? 1 : 2;
    const int bits = of_scales == "u8" ? 4 : pick<int>({4, 8}),
              group = of_scales == "u8" ? 128 : 64;
    if (of_scales == "u8") k_ *= 2;
    const int groups = k_ / group;
    const int bytes = 256 + n_ * k_ * bits / 8 + (n_ * groups * width + 255) / 256 * 256;
    return tail(matrix("a", dtype, m_, k_) + fmt::format(", w: u8[{}]", bytes),
                fmt::format("y = cast(a @ transpose(unpack(w, [{}, {}], weights=s8, "
                            "bits={}, group={}, scales={}, dtype={})), f32)",
                            n_, k_, bits, group, scales, unpacked));
  }

  std::pair<std::string, std::string> widened() {
    const char* dtype = pick<const char*>({"bf16", "f16"});
    const char* bytes = pick<const char*>({"s8", "u8"});
    const bool transposed = number(2);
    return tail(
        matrix("a", dtype, m_, k_) + ", " +
            (transposed ? matrix("b", bytes, n_, k_) : matrix("b", bytes, k_, n_)),
        fmt::format("y = cast(a @ {}(cast(b, {})), f32)", transposed ? "transpose" : "", dtype));
  }

  // `forms`: of the weights.
  std::pair<std::string, std::string> grouped(const std::vector<const char*>& forms) {
    batched_ = false;
    const std::string weights = pick(forms);
    const bool bytes = weights == "f8e4m3" || weights == "s8", mxfp4 = weights == "mxfp4";
    const bool decode = weights == "decode", codes = mxfp4 || decode;
    const std::string dtype = mxfp4    ? "bf16"
                              : decode ? pick<const char*>({"bf16", "f16"})
                                       : weights;
    if (codes) k_ = 32 * (1 + number(6)), n_ = 32 * (1 + number(6));
    const bool transposed = bytes || number(decode ? 4 : 2), halves = number(2);
    const int groups = pick<int>({1, 3, 40}), columns = halves ? 2 * n_ : n_;
    const auto [rows, row] = transposed ? std::pair(columns, k_) : std::pair(k_, columns);
    const bool gathered = !bytes && number(2), zeros = number(2);
    const int bits = pick<int>({4, 8}),
              block = pick<int>({32, row % 64 == 0 ? 64 : 32, std::max(row, 32)});
    const std::string product = fmt::format(
        "grouped_matmul({}, {}({}), o)", gathered ? "gather(a, i)" : "a",
        transposed ? "transpose" : "",
        mxfp4    ? "mxfp4(w, u)"
        : decode ? fmt::format("decode(w, u{}, bits={}, dtype={})", zeros ? ", v" : "", bits, dtype)
                 : "w");
    const std::string index =
        gathered ? fmt::format(", i: {}[{}]", pick<const char*>({"s32", "s64"}), m_) : "";
    const std::string h =
        bytes ? fmt::format("h = cast({}, f32)\n", product) : fmt::format("h = {}\n", product);
    const std::string decoded =
        fmt::format("w: {5}[{0}, {1}, {2}], u: {4}[{0}, {1}, {3}]{6}", groups, rows, row * bits / 8,
                    row / block, dtype, zeros || number(2) ? "u8" : "s8",
                    zeros ? fmt::format(", v: u8[{}, {}, {}]", groups, rows, row / block) : "");
    const std::string matrices = decode ? decoded
                                 : mxfp4
                                     ? fmt::format("w: u8[{0}, {1}, {2}], u: u8[{0}, {1}, {3}]",
                                                   groups, rows, row / 2, row / 32)
                                     : fmt::format("w: {}[{}, {}, {}]", dtype, groups, rows, row);
    const std::string y = halves ? fmt::format("y = cast(silu(h[:, :{0}]) * h[:, {0}:], f32)", n_)
                                 : "y = cast(h, f32)";
    const std::string bias = number(2) ? fmt::format(" + gather(e, group_ids(o, [{}]))", m_) : "";
    return tail(matrix("a", dtype, gathered ? 50 : m_, k_) + index +
                    fmt::format(", {}, o: s32[{}], e: f32[{}, {}]", matrices, groups, groups, n_),
                h + y + bias);
  }

  std::pair<std::string, std::string> scaled() {
    batched_ = false;
    k_ = pick<int>({64, 128, 320});
    const int blocks = (k_ + 127) / 128;
    if (number(2)) return scaled_groups(blocks);
    return tail(
        fmt::format("a: f8e4m3[{0}, {1}], s: f32[{0}, {2}], b: f8e4m3[{3}, {1}], t: f32[{4}, "
                    "{2}]",
                    m_, k_, blocks, n_, (n_ + 127) / 128),
        "y = scale_blocks(a, s, [1, 128]) @ transpose(scale_blocks(b, t, [128, 128]))");
  }

  // A product, a gate of two, or one of a product's halves; `blocks`: of k.
  std::pair<std::string, std::string> scaled_groups(int blocks) {
    const bool transposed = number(2), gathered = number(2), halves = number(3) == 0;
    if (halves) n_ = 128 * (1 + number(3));
    const int groups = pick<int>({1, 3, 40}), columns = halves ? 2 * n_ : n_;
    const auto [rows, row] = transposed ? std::pair(columns, k_) : std::pair(k_, columns);
    const std::string index = gathered ? fmt::format(", i: s32[{}]", m_) : "";
    const std::string parameters = fmt::format(
        "a: f8e4m3[{0}, {1}], s: f32[{2}, {3}], o: s32[{4}], b: f8e4m3[{4}, {5}, {6}], "
        "t: f32[{4}, {7}, {8}], v: f8e4m3[{4}, {5}, {6}], u: f32[{4}, {7}, {8}]{9}",
        gathered ? 50 : m_, k_, m_, blocks, groups, rows, row, (rows + 127) / 128,
        (row + 127) / 128, index);
    const auto product = [&](const char* weights, const char* scales) {
      return fmt::format("grouped_matmul(x, {}(scale_blocks({}, {}, [1, 128, 128])), o)",
                         transposed ? "transpose" : "", weights, scales);
    };
    const std::string of_two = number(2) ? "y = h" : "y = silu(h) * " + product("v", "u");
    return tail(
        parameters,
        fmt::format("x = scale_blocks({}, s, [1, 128])\nh = {}\n{}",
                    gathered ? "gather(a, i)" : "a", product("b", "t"),
                    halves ? fmt::format("y = silu(h[:, :{0}]) * h[:, {0}:]", n_) : of_two));
  }

  std::pair<std::string, std::string> tail(std::string parameters, std::string body) {
    std::string value = "y";
    if (number(2)) parameters += fmt::format(", c: f32[{}]", n_), value += " + c";
    if (number(3) == 0) parameters += fmt::format(", d: bf16[{}, 1]", m_), value += " * d";
    if (number(2)) parameters += ", " + matrix("r", "bf16", m_, n_), value += " + r";
    if (number(4) == 0) parameters += ", z: f64[]", value += " + cast(z, f32)";
    const char* result = pick<const char*>({"bf16", "f16", "f32", "s8", "f8e4m3"});
    return {parameters, fmt::format("{}\nreturn cast({}, {})", body, value, result)};
  }

  std::mt19937 random_;
  bool batched_ = false;
  int m_ = 0, n_ = 0, k_ = 0;
};

}  // namespace attacca::tune::testing
