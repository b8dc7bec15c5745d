#!/usr/bin/env python3
"""The layers of transformers' models as graphs in text form: what torch.compile(backend="attacca")
finds in them, each distinct one as a file. shipped.py tunes them. Models are those of
model_configs.py and the layers of experts of expert_layers.py.

    bench/gpu/model_layers.py --out /tmp/layers --models llama,gpt-oss-20b --tokens 16,512

Attacca's package must be importable. Nothing is compiled: each compilation ends where Attacca has
found its regions.
"""

import argparse
import hashlib
import pathlib
import sys

import torch

import expert_layers
import model_configs
from attacca.torch import _rewrite


class Found(Exception):
    """Ends a compilation."""


def is_large(region):
    """Whether an input has as many elements as a layer's weights, in contrast to, say, the products
    that make rotary embeddings."""
    return any(node.meta["val"].numel() >= 1 << 20 for node in region.inputs)


def layers(model, inputs):
    """The distinct regions' graphs, in the order of the model."""
    graphs = []  # of large regions
    find = _rewrite.find

    def note(graph):
        graphs.extend(region.graph for region in find(graph).regions if is_large(region))
        raise Found

    _rewrite.find = note
    try:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(model, backend="attacca", dynamic=False)(**inputs)
    except Exception as end:  # torch wraps it
        if not graphs and "Found" not in repr(end):
            raise
    finally:
        _rewrite.find = find
    return list(dict.fromkeys(graphs))


def make(name, tokens, args):
    """A model of one layer, and its inputs."""
    if name in expert_layers.LAYERS:
        return expert_layers.make(name, tokens, args.tiny, args.device)
    model, inputs = model_configs.make(name, 1, args.tiny, args.device, torch.bfloat16)
    return model, inputs(1, tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, help="the folder")
    parser.add_argument("--models", default=",".join((*model_configs.NAMES, *expert_layers.LAYERS)))
    parser.add_argument("--tokens", default="16,512,1,2048")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to test this script")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    known = set()
    for tokens in map(int, args.tokens.split(",")):
        for name in args.models.split(","):
            model, inputs = make(name, tokens, args)
            new = [graph for graph in layers(model, inputs) if graph not in known]
            known.update(new)
            for i, graph in enumerate(new):
                digest = hashlib.sha256(graph.encode()).hexdigest()[:8]
                file = out / f"{len(known) - len(new) + i:04d}-{name}-{tokens}-{digest}.attacca"
                file.write_text(graph)
            print(f"{name}, {tokens} tokens: {len(new)} new layers", flush=True)
            del model, inputs
    return 0 if known else 1


if __name__ == "__main__":
    sys.exit(main())
