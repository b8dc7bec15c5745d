#!/usr/bin/env python3
"""Whole layers of experts under torch.compile: Inductor beside backend="attacca", in turns.

A layer is written as transformers writes it: rows of tokens are sorted by expert, both products are
torch._grouped_mm, and the router's weights and the sum over each token's experts follow. GPT-OSS's
has biases, alternate columns and a clamped gate, Qwen3's and Mixtral's halves and SwiGLU. Each
contender compiles with empty caches (`*_first_s`, the time to the first result) and is timed in a
CUDA graph; `error` is the distance from Inductor's result over that result's norm.

    bench/gpu/expert_layers.py --csv expert-layers.csv --minutes 2
    bench/gpu/expert_layers.py --device cpu --tiny --csv /tmp/layers.csv    # times mean nothing
"""

import argparse
import functools
import json
import os
import tempfile

import torch
import torch.nn.functional as F

import attacca.torch
import blocks
import csv_run
import machine
import models
from expert_layers_page import COLUMNS

# Experts, chosen for each token, width, inner width, whether it is GPT-OSS's.
LAYERS = {"gpt-oss-20b": (32, 4, 2880, 2880, True), "qwen3-30b-a3b": (128, 8, 2048, 768, False),
          "mixtral-8x7b": (8, 2, 4096, 14336, False)}
TINY = {"gpt-oss-20b": (4, 2, 64, 32, True), "qwen3-30b-a3b": (4, 2, 64, 32, False),
        "mixtral-8x7b": (4, 2, 32, 64, False)}


class Layer(torch.nn.Module):
    def __init__(self, experts, chosen, width, inner, gpt_oss, device):
        super().__init__()
        self.experts, self.count, self.gpt_oss = experts, chosen, gpt_oss
        for name, columns, k in (("up", 2 * inner, width), ("down", width, inner)):
            weight = torch.randn(experts, columns, k, device=device) * k**-0.5
            bias = torch.randn(experts, columns, device=device) if gpt_oss else None
            self.register_buffer(name, weight.bfloat16())
            self.register_buffer(f"{name}_bias", None if bias is None else bias.bfloat16())

    def linear(self, x, name, expert, ends):
        out = torch._grouped_mm(x, getattr(self, name).transpose(-2, -1), offs=ends)
        bias = getattr(self, f"{name}_bias")
        return out if bias is None else out + bias[expert]

    def gate(self, h):
        if not self.gpt_oss:
            gate, up = h.chunk(2, dim=-1)
            return F.silu(gate) * up
        gate, up = h[..., ::2].clamp(max=7.0), h[..., 1::2].clamp(min=-7.0, max=7.0)
        return (up + 1) * (gate * torch.sigmoid(gate * 1.702))

    def forward(self, hidden, chosen, weights):
        tokens = hidden.shape[0]
        expert = chosen.reshape(-1)
        order = torch.argsort(expert)
        back = torch.argsort(order)
        expert = expert[order]
        counts = torch.histc(expert.float(), bins=self.experts, min=0, max=self.experts - 1)
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        inner = self.gate(self.linear(hidden[order // self.count], "up", expert, ends))
        out = self.linear(inner, "down", expert, ends)
        out = out * weights.reshape(-1)[order].unsqueeze(-1)
        return out[back].view(tokens, self.count, -1).sum(dim=1)


def make(name, tokens, tiny, device):
    """A layer, and its inputs for so many tokens."""
    facts = (TINY if tiny else LAYERS)[name]
    layer = Layer(*facts, device)
    return layer, inputs_of(layer, facts[2], tokens, device)


def inputs_of(layer, width, tokens, device):
    chosen = torch.rand(tokens, layer.experts, device=device).argsort(dim=1)[:, :layer.count]
    return {"hidden": torch.randn(tokens, width, device=device).bfloat16(), "chosen": chosen,
            "weights": torch.rand(tokens, layer.count, device=device).bfloat16()}


def measure(case, args):
    name, tokens = case
    torch.manual_seed(5)
    layer, inputs = make(name, tokens, args.tiny, args.device)
    row = {"layer": name, "tokens": tokens}
    results, launches = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for contender in models.CONTENDERS:
            models.caches(os.path.join(folder, contender))
            attacca.torch.reset()
            torch._dynamo.reset()
            function, row[f"{contender}_first_s"] = models.first_result(contender, layer, inputs,
                                                                        args)
            call = functools.partial(function, **inputs)
            results[contender] = call().double()
            launches[contender] = blocks.captured(call, ()) if args.device == "cuda" else call
        report = attacca.torch.report()
        print(report, flush=True)
    row["regions"] = sum(len(graph.fused) for graph in report.graphs)
    row["error"] = f"{blocks.error(results['attacca'], results['inductor']):.1e}"
    times = blocks.in_turns(launches, args.device, args.turns, args.rounds)
    row |= {f"{contender}_us": us for contender, us in times.items()}
    row["ratio"] = row["inductor_us"] / row["attacca_us"]
    print(csv_run.rounded(row), flush=True)
    return csv_run.rounded(row)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--tokens", default="16,512,2048")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny widths")
    parser.add_argument("--turns", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--options", type=json.loads, help="of the backend, as JSON")
    args = parser.parse_args(arguments)
    if args.options is None:
        args.options = {"policy": "always"} if args.device == "cpu" else {}
    cases = [(name, int(tokens)) for name in args.layers.split(",")
             for tokens in args.tokens.split(",")]
    with torch.no_grad():
        csv_run.run(cases, lambda case: measure(case, args), COLUMNS, args.csv, args.minutes,
                    machine.facts())


if __name__ == "__main__":
    main()
