"""The problems that the ranking is trained on, and the file of their times."""

import random
from typing import NamedTuple

from cases import LAYERS

GROUP = 128  # values of k that share a scale of packed weights or of blocks


def padded(size, to):
    return (size + to - 1) // to * to


def packed_bytes(bits, n, k):
    """The size of a packed tensor (src/ir/packed/packed.hpp) with bf16 scales."""
    codes = padded(padded(n, 64) * padded(k, 64) * bits // 8, 256)
    return 256 + codes + padded(2 * padded(n, 64) * -(-k // GROUP), 256)


def unpack(attributes):
    return f"y = x @ transpose(unpack(w, [{{N}}, {{K}}], {attributes}, group={GROUP}, " \
           "scales=bf16, dtype=bf16))"


HALVES = "z = x @ transpose(w)\n  y = z[:, :{N}]\n  u = z[:, {N}:]"
BLOCKS = ("y = cast(dequantize(x, xs, block=[1, 128]) @ "
          "transpose(dequantize(w, ws, block=[128, 128])), bf16)")


class Family(NamedTuple):
    """Products of one kind: how often they are drawn, their inputs, and what makes y (and u)."""
    weight: int
    inputs: str
    product: str
    tails: list
    bits: int = 0  # of packed weights


# Names and types of what tails read.
OPERANDS = {"b": "bf16[{N}]", "r": "bf16[M, {N}]", "q": "bf16[M, {N}]", "t": "bf16[M, 1]",
            "s": "f32[{N}]", "c": "f32[M, 1]", "h": "f16[{N}]", "p": "f16[M, {N}]",
            "e": "bf16[B, M, {N}]"}
TAILS = {
    "none": "y", "bias": "y + b", "gelu": "gelu_tanh(y + b)", "silu_mul": "silu(y + b) * r",
    "add": "y + r", "two_fulls": "relu(y * t) * r + q",
    "relu_f16": "relu(y + h)", "silu_f16": "silu(y + h) * p",
    "swiglu": "silu(y) * u", "geglu_add": "gelu_tanh(y + b) * u + r",
    "scales": "cast(cast(y, f32) * s * c, bf16)",
    "scales_silu": "cast(silu(cast(y, f32) * s + cast(b, f32)) * cast(r, f32), bf16)",
    "batch_add": "silu(y) + e", "batch_scale": "y * 0.125",
}
NK = "y = x @ transpose(w)"
BF16 = "x: bf16[M, {K}], w: bf16[{N}, {K}]"
PLAIN = ["none", "bias", "gelu", "gelu", "silu_mul", "silu_mul", "add", "add", "two_fulls"]
FAMILIES = {
    "bf16": Family(44, BF16, NK, PLAIN),
    "f16": Family(5, "x: f16[M, {K}], w: f16[{N}, {K}]", NK, ["none", "relu_f16", "silu_f16"]),
    "kn": Family(7, "x: bf16[M, {K}], w: bf16[{K}, {N}]", "y = x @ w", ["gelu", "silu_mul"]),
    "gate": Family(11, "x: bf16[M, {K}], w: bf16[{N2}, {K}]", HALVES, ["swiglu", "geglu_add"]),
    "gate_two": Family(3, "x: bf16[M, {K}], w: bf16[{N}, {K}], v: bf16[{N}, {K}]",
                       NK + "\n  u = x @ transpose(v)", ["swiglu"]),
    "s8": Family(8, "x: s8[M, {K}], w: s8[{N}, {K}]", NK, ["scales", "scales_silu"]),
    "fp8": Family(5, "x: f8e4m3[M, {K}], w: f8e4m3[{N}, {K}]", NK, ["scales", "scales_silu"]),
    "fp8_fast": Family(5, "x: f8e4m3[M, {K}], w: f8e4m3[{N}, {K}]",
                       "y = matmul(x, transpose(w), fast=true)", ["scales", "scales_silu"]),
    "fp8_blocks": Family(3, "x: f8e4m3[M, {K}], w: f8e4m3[{N}, {K}], "
                         "xs: f32[M, {kb}], ws: f32[{nb}, {kb}]", BLOCKS, ["none", "silu_mul"]),
    "packed4": Family(4, "x: bf16[M, {K}], w: u8[{bytes}]", unpack("weights=s8, bits=4"),
                      ["none", "silu_mul"], 4),
    "packed8": Family(3, "x: bf16[M, {K}], w: u8[{bytes}]", unpack("weights=s8"),
                      ["none", "silu_mul"], 8),
    "batch": Family(4, "x: bf16[B, M, {K}], w: bf16[B, {N}, {K}]", NK,
                    ["batch_add", "batch_scale"]),
}
# The same weights' product, stored as it is.
BARE = {"kn": "kn", "batch": "batch", "f16": "f16", "s8": "s8", "fp8": "fp8",
        "fp8_fast": "fp8_fast"}


class Problem(NamedTuple):
    family: str
    tail: str
    m: int
    n: int
    k: int
    batch: int
    held_out: int  # 1: trees that are judged were trained without it

    def operations(self):
        return 2 * self.m * self.n * self.k * self.batch * (2 if "gate" in self.family else 1)

    def bytes(self):
        return 2 * self.batch * (self.m * self.k + 2 * self.n * self.k + 3 * self.m * self.n)

    def bare(self):
        """None where this is a bare product itself, or its product has no dtype of its own."""
        if self.family == "fp8_blocks" or (self.tail == "none" and "packed" not in self.family):
            return None
        n = 2 * self.n if "gate" in self.family else self.n
        return self._replace(family=BARE.get(self.family, "bf16"), tail="none", n=n)

    def graph(self):
        family, tail = FAMILIES[self.family], TAILS[self.tail]
        product = family.product
        sizes = {"N": self.n, "N2": 2 * self.n, "K": self.k,
                 "kb": -(-self.k // GROUP), "nb": -(-self.n // GROUP),
                 "bytes": packed_bytes(family.bits, self.n, self.k)}
        used = [name for name in OPERANDS if name in words(tail)]
        inputs = ", ".join([family.inputs, *(f"{name}: {OPERANDS[name]}" for name in used)])
        return (f"graph g({inputs.format(**sizes)}) {{\n  {product.format(**sizes)}\n"
                f"  return {tail}\n}}\n")

    def request(self, candidates=(), rounds=0):
        """A line for `attacca tune-worker`."""
        return {"problem": {"graph": self.graph(), "mode": "fp32", "alignments": {},
                            "symbols": {"M": self.m, "B": self.batch}},
                "candidates": list(candidates), "rounds": rounds, "device": 0,
                "pace": "sustained", "vendor": ""}


def words(text):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


MOST_OPERATIONS = 1e12  # about 1.5 ms
MOST_BYTES = 3e8
MOST_OF_FEW = 3.0       # times as much of some


def extent(source, low, high):
    """Log-uniform: a multiple of 8, at times any number."""
    value = round(2**source.uniform(low, high))
    return value if source.random() < 0.14 else max(8, value // 8 * 8)


def rows(source):
    draw = source.random()
    if draw < 0.25:
        return source.randrange(96, 301)  # where many tilings are close
    if draw < 0.35:
        return source.randrange(64, 520)
    if draw < 0.47:
        return 2**source.randrange(14)
    return min(8192, round(2**source.uniform(0, 13)))


def sizes(source, family):
    if family == "batch":
        return (min(2048, rows(source)), extent(source, 5, 11), extent(source, 5, 11),
                source.choice([2, 4, 8, 16, 24, 32, 48, 64]))
    n, k = (extent(source, 7, 14.3) for _ in "nk")
    if source.random() < 0.2:
        n, k = source.choice(LAYERS)
    if source.random() < 0.08:
        n = source.randrange(1, 160)
    if "gate" in family:
        n = max(8, n // 16 * 8)
    if "packed" in family or "blocks" in family:
        n, k = padded(n, 8), padded(k, 16)
    return rows(source), n, k, 1


def problems(seed):
    """Random problems without end; the same ones for the same seed."""
    source = random.Random(seed)
    names, weights = list(FAMILIES), [each.weight for each in FAMILIES.values()]
    while True:
        family = source.choices(names, weights)[0]
        m, n, k, batch = sizes(source, family)
        most = MOST_OF_FEW if source.random() < 0.1 else 1
        made = Problem(family, source.choice(FAMILIES[family].tails), m, n, k, batch,
                       int(source.random() < 0.25))
        if made.operations() <= most * MOST_OPERATIONS and made.bytes() <= most * MOST_BYTES:
            yield made


COLUMNS = [*Problem._fields, "times", "proposals"]  # the last one was added later
TIMES = COLUMNS.index("times")


class Names:
    """Candidates in a file of times: written out the first time, then by number."""

    def __init__(self):
        self.known = []

    def encode(self, times):
        words_of = []
        for name, us in times.items():
            word = self.known.index(name) if name in self.known else name
            if word == name:
                self.known.append(name)
            words_of.append(f"{word}:{us:.4g}")
        return ";".join(words_of)

    def decode(self, text):
        times = {}
        for word in text.split(";"):
            name, us = word.rsplit(":", 1)
            if name.isdigit():
                name = self.known[int(name)]
            else:
                self.known.append(name)
            times[name] = float(us)
        return times


def write_proposals(proposals):
    """Of the unfused path's candidates: numbers that describe the vendor library's algorithms, as
    `attacca bench proposals` names them."""
    return ";".join(f"{name}:" + " ".join(f"{value:.4g}" for value in values)
                    for name, values in proposals.items() if values)


def read_proposals(text):
    words_of = (word.split(":") for word in text.split(";") if word)
    return {name: [float(value) for value in values.split()] for name, values in words_of}


def write_stamp(device, date, templates):
    """The first line of a file of times: where and when, and the templates' fingerprints, 8
    hexadecimal digits each."""
    return f"# {device}; {date}; {' '.join(sorted(templates))}"


def read_stamp(line):
    device, date, templates = line.lstrip("# ").split("; ")
    return {"device": device, "date": date, "templates": templates.split()}


def read(lines):
    """(problem, microseconds of its candidates, what the vendor library proposed) of each row of a
    file of times."""
    names = Names()
    for line in lines:
        values = line.rstrip("\n").split(",")
        if len(values) > TIMES and values[:2] != COLUMNS[:2]:
            yield (Problem(values[0], values[1], *map(int, values[2:TIMES])),
                   names.decode(values[TIMES]), read_proposals("".join(values[TIMES + 1:])))
