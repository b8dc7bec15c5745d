// Graphs that must fuse, by what is required of each: it becomes `regions` regions. The tests of
// the CPU and of the GPU run them all.
#pragma once

namespace attacca::requirements {

struct Requirement {
  const char* name;
  const char* text;  // of a graph; M is its symbol
  int regions = 1;
};

inline constexpr Requirement kRequirements[] = {
    {"llama_mlp", R"(graph g(x: bf16[M, 96], w1: bf16[136, 96], w2: bf16[136, 96]) {
  return silu(x @ transpose(w1)) * (x @ transpose(w2))
})"},
    // The second product reads the first one, which shares its other operand: no gate.
    {"product_of_product", R"(graph g(x: bf16[96, 96], w: bf16[96, M]) {
  y = x @ w
  return silu(x @ y) * y
})",
     2},
    {"external_buffer", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], e: bf16[M, 136]) {
  return silu(x @ transpose(w)) * e
})"},
    {"raw_accumulator", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], b: bf16[136]) {
  acc = x @ transpose(w)
  return gelu(acc + b), acc
})"},
    {"squares", R"(graph g(x: bf16[M, 96], w: bf16[136, 96]) {
  acc = x @ transpose(w)
  return acc * acc + square(acc)
})"},
    // As torch.compile writes gelu(addmm(b, x, w)).
    {"stored_sum", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], b: bf16[136]) {
  sum = cast(matmul(x, transpose(w), out=f32) + b, bf16, compute=f32)
  return cast(gelu_tanh(cast(sum, f32)), bf16)
})"},
    {"input_again", R"(graph g(x: bf16[M, 96], w: bf16[96, 96]) {
  return relu(x @ transpose(w)) + x
})"},
    {"scales",
     R"(graph g(x: bf16[M, 96], w: bf16[136, 96],
        s: f32[M, 1], t: f32[136], u: f32[], b: bf16[136]) {
  return cast(cast(x @ transpose(w), f32) * s * t * u + b, bf16)
})"},
    {"fp8_tensor_wise",
     R"(graph g(x: f8e4m3[M, 96], w: f8e4m3[144, 96], s: f32[], t: f32[], b: bf16[144]) {
  return cast(gelu(matmul(x, transpose(w)) * s * t + b), bf16)
})"},
    {"fp8_row_wise",
     R"(graph g(x: f8e4m3[M, 96], w: f8e5m2[144, 96], s: f32[M, 1], t: f32[144]) {
  return cast(matmul(x, transpose(w), fast=true) * s * t, f16)
})"},
    {"fp8_blocks",
     R"(graph g(x: f8e4m3[M, 320], w: f8e4m3[144, 320], s: f32[M, 3], t: f32[2, 3], b: bf16[144]) {
  y = dequantize(x, s, block=[1, 128]) @ transpose(dequantize(w, t, block=[128, 128]))
  return cast(silu(y + b), bf16)
})",
     3},  // where the kernel of the product scales no blocks; there it is one
    {"dequantised",
     R"(graph g(x: s8[M, 96], w: s8[144, 96], s: f32[M, 1], t: f32[144], b: bf16[144]) {
  return cast(silu(cast(x @ transpose(w), f32) * s * t + b), bf16)
})"},
    {"zero_points",
     R"(graph g(x: u8[M, 96], w: s8[144, 96], z: s32[], sums: s32[144], s: f32[144]) {
  return cast(x @ transpose(w) - z * sums, f32) * s
})"},
    {"dequantise_matmul_quantise",
     R"(graph g(x: s8[M, 96], w: s8[144, 96], s: f32[], t: f32[144, 1], u: f32[], b: f32[144]) {
  y = dequantize(x, s) @ transpose(dequantize(w, t)) + b
  return quantize(relu(y), u, -3, dtype=s8)
})"},
    {"asymmetric",
     R"(graph g(x: u8[M, 96], w: s8[144, 96], s: f32[], z: u8[], t: f32[144, 1]) {
  return cast(dequantize(x, s, z) @ transpose(dequantize(w, t)), bf16)
})",
     3},  // the sums of w's rows are two more
    {"every_role",
     R"(graph g(x: bf16[M, 96], w: bf16[136, 96],
        r: bf16[136], c: bf16[M, 1], f: bf16[M, 136], s: f32[]) {
  return cast(tanh(x @ transpose(w) + r) * c + f * s, f16)
})"},
    {"unary", R"(graph g(x: bf16[M, 96], w: bf16[136, 96]) {
  acc = x @ transpose(w)
  y = neg(sigmoid(acc)) + silu(acc) + gelu(acc) + gelu_tanh(acc) + tanh(acc) + relu(acc)
    + square(acc)
  return y + erf(acc) + exp(0.25 * acc) + log(abs(acc) + 1) + sqrt(abs(acc)) + rsqrt(abs(acc) + 1)
})"},
    {"binary_and_scalar", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], f: bf16[M, 136]) {
  acc = x @ transpose(w)
  y = max(acc, f) - min(acc, f) * 0.5 + acc / (abs(f) + 1)
  return clamp(1 - y, min=-2, max=2) * silu(y, alpha=1.702) + 2 / (square(y) + 1)
    + pow(abs(y) + 0.5, 1.5)
})"},
    {"views", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], b: bf16[136]) {
  y = reshape(x @ transpose(w) + b, [M, 136])
  return reshape(relu(y), [M, 136]) * 2
})"},
    {"casts", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], f: f16[M, 136]) {
  acc = x @ transpose(w)
  narrow = cast(acc, f16) * f
  wide = cast(acc, f32) * 0.125
  return cast(cast(narrow, f32) + wide, bf16)
})"},
    {"one_axis", R"(graph g(x: bf16[M, 96], w: bf16[48, 96], b: bf16[48]) {
  return x @ transpose(w) + b
})"},
    {"two_axes",
     R"(graph g(x: bf16[M, 96], w: bf16[136, 96],
        r: bf16[1, 136], c: bf16[M, 1], f: bf16[M, 136; 160, 1]) {
  return (x @ transpose(w) + r) * c + f + r
})"},
    {"n_by_k", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], b: bf16[136]) {
  return relu(x @ transpose(w) + b)
})"},
    {"k_by_n", R"(graph g(x: bf16[M, 96], w: bf16[96, 136], b: bf16[136]) {
  return relu(x @ w + b)
})"},
    {"strided_view", R"(graph g(x: bf16[M, 96; 200, 2], w: bf16[96, 136; 1, 100], b: bf16[136]) {
  return relu(x @ w + b)
})"},
    {"bf16", R"(graph g(x: bf16[M, 90], w: bf16[131, 90], b: bf16[131]) {
  return silu(x @ transpose(w) + b)
})"},
    {"f16", R"(graph g(x: f16[M, 90], w: f16[131, 90], b: f16[131]) {
  return silu(x @ transpose(w) + b)
})"},
    {"f32", R"(graph g(x: bf16[M, 90], w: bf16[131, 90], b: f32[131]) {
  return silu(cast(x @ transpose(w), f32) + b)
})"},
    {"escapes", R"(graph g(x: bf16[M, 96], w: bf16[136, 96], b: bf16[136]) {
  h = x @ transpose(w) + b
  return silu(h) * 2, h
})"},
    {"gpt_oss", R"(graph g(x: bf16[M, 96], w: bf16[272, 96], b: bf16[272]) {
  h = x @ transpose(w) + b
  gate = clamp(h[:, ::2], max=7.0)
  up = clamp(h[:, 1::2], min=-7.0, max=7.0)
  return gate * sigmoid(1.702 * gate) * (up + 1.0)
})"},
    {"other_constants", R"(graph g(x: bf16[M, 96], w: bf16[272, 96]) {
  h = x @ transpose(w)
  gate = clamp(h[:, ::2], max=3.5)
  up = clamp(h[:, 1::2], min=-3.5, max=3.5)
  return gate * sigmoid(1.25 * gate) * (up + 0.5)
})"},
    {"gru",
     R"(graph g(x: bf16[M, 64], h: bf16[M, 32], w: bf16[96, 64], r: bf16[96, 32], b: bf16[96],
        c: bf16[96]) {
  gi = x @ transpose(w) + b
  gh = h @ transpose(r) + c
  reset = sigmoid(gi[:, :32] + gh[:, :32])
  update = sigmoid(gi[:, 32:64] + gh[:, 32:64])
  fresh = tanh(gi[:, 64:] + reset * gh[:, 64:])
  return (1 - update) * fresh + update * h
})",
     3},  // two products, and all gates
    {"halves", R"(graph g(x: bf16[M, 96], w: bf16[272, 96]) {
  h = x @ transpose(w)
  return gelu(h[:, :136]) * h[:, 136:]
})"},
};

}  // namespace attacca::requirements
