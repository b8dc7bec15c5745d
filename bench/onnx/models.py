"""The models of onnx_bench: small ones of common structures with random weights, exported by torch,
in f32 and fp16, and quantised by onnxruntime.quantization."""
from __future__ import annotations

import io
import math
import pathlib
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

HIDDEN, HEADS, LAYERS, TOKENS = 256, 4, 2, 128


class Mlp(nn.Module):
    """Three layers with ReLU on 64 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024),
                                    nn.ReLU(), nn.Linear(1024, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Attention(nn.Module):
    """Of all tokens, or of the earlier ones."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=bias) for _ in range(4))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, -1, HEADS, HIDDEN // HEADS).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None,
                turn: Any = lambda each: each) -> torch.Tensor:
        q, k, v = turn(self.split(self.q(x))), turn(self.split(self.k(x))), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS)
        if mask is not None:
            scores = scores + mask
        mixed = torch.softmax(scores, -1) @ v
        return self.o(mixed.transpose(1, 2).reshape(1, -1, HIDDEN))


class BertLayer(nn.Module):
    """Attention and a GELU of four times the width, norms behind (BERT) or in front (ViT)."""

    def __init__(self, before: bool) -> None:
        super().__init__()
        self.attention, self.before = Attention(bias=True), before
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if self.before:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.down(F.gelu(self.up(self.norm2(x))))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Tokens and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, HIDDEN), nn.Embedding(TOKENS, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.layers = nn.ModuleList(BertLayer(before=False) for _ in range(LAYERS))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(tokens) + self.places.weight)
        hidden = (1 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, hidden)
        return x


class RmsNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class LlamaLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(bias=False)
        self.gate, self.up = (nn.Linear(HIDDEN, 704, bias=False) for _ in range(2))
        self.down = nn.Linear(704, HIDDEN, bias=False)
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()

    def forward(self, x: torch.Tensor, mask: torch.Tensor, turn: Any) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask, turn)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Rotary places, a causal mask, a product with the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        width = HIDDEN // HEADS
        rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(TOKENS)[:, None] * torch.cat([rates, rates])
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.full((TOKENS, TOKENS), -10000.0).triu(1))
        self.words = nn.Embedding(1000, HIDDEN)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(LAYERS))
        self.norm, self.head = RmsNorm(), nn.Linear(HIDDEN, 1000, bias=False)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, -1)
        return x * self.cos + torch.cat([-right, left], -1) * self.sin

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, self.mask, self.turn)
        return self.head(self.norm(x))


class Vit(nn.Module):
    """196 patches of 16 x 16 x 3 numbers and a class."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(768, HIDDEN)
        self.first = nn.Parameter(torch.randn(1, 1, HIDDEN))
        self.places = nn.Parameter(torch.randn(1, 197, HIDDEN))
        self.layers = nn.ModuleList(BertLayer(before=True) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 1000)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.first, self.patches(patches)], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def _tokens() -> torch.Tensor:
    return torch.randint(0, 1000, (1, TOKENS))


def _mask() -> torch.Tensor:
    return (torch.arange(TOKENS) < TOKENS - 9).to(torch.int64)[None]


# Each structure: its class, its inputs by name.
STRUCTURES = {
    "mlp": (Mlp, {"x": lambda: torch.randn(64, 256)}),
    "bert": (Bert, {"tokens": _tokens, "mask": _mask}),
    "llama": (Llama, {"tokens": _tokens}),
    "vit": (Vit, {"patches": lambda: torch.randn(1, 196, 768)}),
}
FORMS = ("f32", "fp16", "dynamic int8", "QDQ")


def _export(model: nn.Module, inputs: dict[str, torch.Tensor]) -> bytes:
    buffer = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(model.eval(), tuple(inputs.values()), buffer, opset_version=17,
                          input_names=list(inputs), output_names=["y"], dynamo=False,
                          do_constant_folding=True)
    return buffer.getvalue()


def _quantised(path: pathlib.Path, form: str, inputs: dict[str, Any]) -> bytes:
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready, made = path.with_suffix(".ready.onnx"), path.with_suffix(".quantised.onnx")
    quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    if form == "dynamic int8":
        quantization.quantize_dynamic(str(ready), str(made),
                                      weight_type=quantization.QuantType.QInt8)
        return made.read_bytes()

    class Once(quantization.CalibrationDataReader):
        left = [inputs]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    quantization.quantize_static(str(ready), str(made), Once(),
                                 quant_format=quantization.QuantFormat.QDQ,
                                 activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8)
    return made.read_bytes()


def make(structure: str, form: str, folder: pathlib.Path) -> tuple[bytes, dict[str, Any]]:
    """A model's bytes and inputs for it."""
    torch.manual_seed(1)
    kind, makers = STRUCTURES[structure]
    model, inputs = kind(), {name: maker() for name, maker in makers.items()}
    if form == "fp16":
        model = model.half()
        inputs = {name: each.half() if each.is_floating_point() else each
                  for name, each in inputs.items()}
    arrays: dict[str, np.ndarray[Any, Any]] = {k: v.numpy() for k, v in inputs.items()}
    model_bytes = _export(model, inputs)
    if form in ("f32", "fp16"):
        return model_bytes, arrays
    path = folder / f"{structure}.onnx"
    onnx.save(onnx.load_from_string(model_bytes), path)
    return _quantised(path, form, arrays), arrays
