#!/usr/bin/env python3
"""The tuned choices that a package carries: tunes the layers of well-known models, the most common
first, for as long as it may, and exports what was measured.

    shipped.py --minutes 8 --out src/tune/shipped/nvidia_h200.choices

Where OUT is already a file of choices of this device, those are kept that hold here, as shipped.hpp
says, and others are added. A template that was added since does not compete with what is kept: give
another OUT to measure all again.
With --graphs, the graphs of that folder come first (model_layers.py writes them). Needs the command
line program and its templates, no Python package.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from typing import NamedTuple

import program


class Form(NamedTuple):
    """A kind of layer: the inputs and the statements of its graph, with N columns and K terms."""
    name: str
    inputs: str
    body: str
    layers: list

    def graph(self, n, k):
        inputs, body = (text.format(n=n, n2=2 * n, k=k) for text in (self.inputs, self.body))
        return f"graph g({inputs}) {{\n  {body}\n}}\n"


GATE_LAYERS = [(14336, 4096), (28672, 8192), (11008, 4096), (18944, 3584), (2880, 2880)]
UP_LAYERS = [(14336, 4096), (11008, 4096), (12288, 4096), (4096, 4096), (32768, 512)]
DOWN_LAYERS = [(4096, 14336), (4096, 4096), (8192, 28672), (8192, 8192), (4096, 11008),
               (3584, 18944), (3584, 3584), (2880, 4096), (7168, 2048)]
BIASED_LAYERS = [(6144, 4096), (10240, 8192), (4608, 3584), (5120, 2880), (4096, 4096)]
# Weights as torch.nn.Linear stores them, vectors in the activations' dtype.
PLAIN = "x: bf16[M, {k}], w: bf16[{n}, {k}]"
BIASED = PLAIN + ", b: bf16[{n}]"
SCALES = "xs: f32[M, 1], ws: f32[{n}], b: bf16[{n}]"
FORMS = [
    Form("swiglu of packed halves", "x: bf16[M, {k}], w: bf16[{n2}, {k}]",
         "h = x @ transpose(w); return silu(h[:, :{n}]) * h[:, {n}:]", GATE_LAYERS),
    Form("residual", PLAIN + ", r: bf16[M, {n}]", "return x @ transpose(w) + r", DOWN_LAYERS),
    Form("swiglu of two weights", PLAIN + ", v: bf16[{n}, {k}]",
         "return silu(x @ transpose(w)) * (x @ transpose(v))", GATE_LAYERS),
    Form("bias, gelu_tanh", BIASED, "return gelu_tanh(x @ transpose(w) + b)", UP_LAYERS),
    Form("bias, silu", BIASED, "return silu(x @ transpose(w) + b)", UP_LAYERS),
    Form("bias, gelu", BIASED, "return gelu(x @ transpose(w) + b)", UP_LAYERS),
    Form("int8, bias, silu", "x: s8[M, {k}], w: s8[{n}, {k}], " + SCALES,
         "y = cast(x @ transpose(w), f32) * xs * ws; return silu(cast(y, bf16) + b)", UP_LAYERS),
    Form("fp8, bias, silu", "x: f8e4m3[M, {k}], w: f8e4m3[{n}, {k}], " + SCALES,
         "y = matmul(x, transpose(w), out=f32) * xs * ws + b; return silu(cast(y, bf16))",
         UP_LAYERS),
    Form("bias", BIASED, "return x @ transpose(w) + b", BIASED_LAYERS),
    Form("bias, relu", BIASED, "return relu(x @ transpose(w) + b)", UP_LAYERS),
    Form("bias, residual", BIASED + ", r: bf16[M, {n}]", "return x @ transpose(w) + b + r",
         DOWN_LAYERS),
]
# A choice holds for all M down to the next smaller one of these.
ROWS = [[16, 256, 1024, 4096], [1, 64, 512, 2048], [8, 32, 128, 8192],
        [2, 4, 192, 384, 768, 1536, 3072, 6144]]


class Item(NamedTuple):
    name: str
    graph: str
    rows: list  # the values of M; none: all sizes are fixed


def items():
    """All of them, the most important first: a later layer weighs as two later forms, later rows as
    two later layers."""
    found = []
    for r, rows in enumerate(ROWS):
        for f, form in enumerate(FORMS):
            for i, (n, k) in enumerate(form.layers):
                name = f"{form.name} N={n} K={k} M={','.join(map(str, rows))}"
                found.append((4 * r + 2 * i + f, Item(name, form.graph(n, k), rows)))
    return [item for _, item in sorted(found, key=lambda each: each[0])]


def tune(attacca, item, budget, folder, environment):
    """What `attacca tune` says of each M."""
    sizes = ["--dim", "M=" + ",".join(map(str, item.rows))] if item.rows else []
    with tempfile.NamedTemporaryFile("w", suffix=".attacca", dir=folder) as file:
        file.write(item.graph)
        file.flush()
        said = program.answer(attacca, "tune", file.name, "--missing", "--budget", str(budget),
                              "--json", *sizes, env=environment)
    return json.loads(said)["tuned"]


def tune_and_say(attacca, item, budget, folder, environment):
    """The number of choices; prints a line."""
    begin = time.monotonic()
    try:
        rows = tune(attacca, item, budget, folder, environment)
    except RuntimeError as error:
        print(f"{item.name}: {error}", file=sys.stderr)
        return 0
    gains = ", ".join(f"{row['dims'].get('M', '')}: {row['ratio']:.2f}x" for row in rows
                      if row.get("ratio"))
    print(f"{time.monotonic() - begin:5.1f} s  {item.name}  {gains}", flush=True)
    return len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    program.add_option(parser)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--budget", type=int, default=16,
                        help="templates to time, the best by rank")
    parser.add_argument("--graphs", help="a folder of graphs to tune first")
    parser.add_argument("--jobs", type=int, default=1, help="graphs tuned at the same time")
    parser.add_argument("--out", required=True, help="the file of choices")
    parser.add_argument("--most", type=int, help="of the items, for a trial")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as folder:
        environment = program.without_choices(folder)
        if os.path.exists(args.out):
            print(program.answer(args.attacca, "tune", "--import", args.out, "--holding",
                                 env=environment),
                  end="")
        given = sorted(pathlib.Path(args.graphs).glob("*.attacca")) if args.graphs else []
        wanted = [Item(path.stem, path.read_text(encoding="utf-8"), []) for path in given] + items()
        # Processes take turns on the GPU; while one times its kernels, others build theirs.
        count, saved, waiting = 0, time.monotonic(), iter(wanted[:args.most])
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            while time.monotonic() < end:
                now = list(itertools.islice(waiting, args.jobs))
                if not now:
                    break
                count += sum(pool.map(lambda item: tune_and_say(args.attacca, item, args.budget,
                                                                folder, environment), now))
                # What was measured so far is kept, however this ends.
                if time.monotonic() > saved + 30:
                    program.answer(args.attacca, "tune", "--export", args.out, env=environment)
                    saved = time.monotonic()
        print(f"{count} choices tuned or known; "
              + program.answer(args.attacca, "tune", "--export", args.out, env=environment), end="")


if __name__ == "__main__":
    main()
