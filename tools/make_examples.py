#!/usr/bin/env python3
"""Writes examples/*.onnx: blocks of real models as exporters write them. Large weights are graph
inputs.

Usage: make_examples.py [DIRECTORY]. Needs tools/requirements.txt; the same bytes every time.
"""
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class Block:
    """A graph under construction; every method returns the name of the value it adds."""

    def __init__(self, name: str, dtype: int = TensorProto.FLOAT):
        self.name, self.dtype = name, dtype
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    def input(self, name: str, shape: Sequence["int | str"], dtype: "int | None" = None) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype or self.dtype, shape))
        return name

    def output(self, name: str, shape: Sequence["int | str"], dtype: "int | None" = None) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, dtype or self.dtype, shape))

    def constant(self, name: str, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def scalar(self, name: str, value: float) -> str:
        self.constants.append(helper.make_tensor(name, self.dtype, [], [value]))
        return name

    def node(self, op: str, *inputs: str, out: "str | None" = None, **attributes: Any) -> str:
        out = out or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"/{self.name}/{out}",
                                           **attributes))
        return out

    def model(self) -> ModelProto:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, producer_name="attacca", ir_version=IR_VERSION,
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        checker.check_model(model)
        return model


def linear(b: Block, x: str, weight: str) -> str:
    """torch.nn.Linear: the weight is stored (out, in)."""
    return b.node("MatMul", x, b.node("Transpose", weight, perm=[1, 0]))


def llama3_8b_mlp() -> ModelProto:
    """silu(x Wg^T) * (x Wu^T) Wd^T, with SiLU as torch exports it."""
    hidden, inner = 4096, 14336
    b = Block("llama3_8b_mlp", TensorProto.BFLOAT16)
    x = b.input("x", ["M", hidden])
    gate = linear(b, x, b.input("w_gate", [inner, hidden]))
    up = linear(b, x, b.input("w_up", [inner, hidden]))
    h = b.node("Mul", b.node("Mul", gate, b.node("Sigmoid", gate)), up)
    b.nodes.append(helper.make_node(
        "MatMul", [h, b.node("Transpose", b.input("w_down", [hidden, inner]), perm=[1, 0])], ["y"]))
    b.output("y", ["M", hidden])
    return b.model()


def bert_mlp() -> ModelProto:
    """MiniLM's feed-forward block: GELU decomposed as x * 0.5 * (1 + erf(x / sqrt(2)))."""
    batch, sequence, hidden, inner = 1, 128, 384, 1536
    b = Block("bert_mlp")
    x = b.input("x", [batch, sequence, hidden])
    w_in, b_in = b.input("w_in", [hidden, inner]), b.input("b_in", [inner])
    w_out, b_out = b.input("w_out", [inner, hidden]), b.input("b_out", [hidden])
    h = b.node("Add", b_in, b.node("MatMul", x, w_in))
    erf = b.node("Erf", b.node("Div", h, b.scalar("sqrt2", 2.0 ** 0.5)))
    h = b.node("Mul", b.node("Mul", h, b.node("Add", erf, b.scalar("one", 1.0))),
               b.scalar("half", 0.5))
    y = b.node("Add", b_out, b.node("MatMul", h, w_out))
    b.node("Add", y, x, out="y")
    b.output("y", [batch, sequence, hidden])
    return b.model()


def gpt_oss_expert() -> ModelProto:
    """One expert of GPT-OSS: gate and linear halves interleaved in one product, clamped SwiGLU."""
    hidden, inner = 2880, 2880
    b = Block("gpt_oss_expert", TensorProto.BFLOAT16)
    x = b.input("x", ["M", hidden])
    h = b.node("MatMul", x, b.input("w_gate_up", [hidden, 2 * inner]))
    h = b.node("Add", h, b.input("b_gate_up", [2 * inner]))

    def every_second(start: int, name: str) -> str:
        bounds = [b.constant(f"{name}_{part}", np.array([value], np.int64)) for part, value in
                  [("starts", start), ("ends", np.iinfo(np.int64).max), ("axes", -1), ("steps", 2)]]
        return b.node("Slice", h, *bounds)

    limit, minus = b.scalar("limit", 7.0), b.scalar("minus_limit", -7.0)
    gate = b.node("Clip", every_second(0, "gate"), "", limit)
    up = b.node("Clip", every_second(1, "up"), minus, limit)
    gated = b.node("Mul", gate, b.node("Sigmoid", b.node("Mul", gate, b.scalar("alpha", 1.702))))
    h = b.node("Mul", b.node("Add", up, b.scalar("one", 1.0)), gated)
    y = b.node("MatMul", h, b.input("w_down", [inner, hidden]))
    b.node("Add", y, b.input("b_down", [hidden]), out="y")
    b.output("y", ["M", hidden])
    return b.model()


def attention_output() -> ModelProto:
    """The projection after attention: Gemm with bias, then the residual."""
    hidden = 4096
    b = Block("attention_output", TensorProto.FLOAT16)
    attended = b.input("attended", ["M", hidden])
    y = b.node("Gemm", attended, b.input("w_o", [hidden, hidden]), b.input("b_o", [hidden]),
               transB=1)
    b.node("Add", y, b.input("residual", ["M", hidden]), out="y")
    b.output("y", ["M", hidden])
    return b.model()


def int8_weight(rng: np.random.Generator, rows: int, columns: int) -> tuple[Any, Any]:
    """Random weights quantised per column."""
    weight = rng.standard_normal((rows, columns)).astype(np.float32)
    scale = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale


def int8_linear() -> ModelProto:
    """Static quantisation: s8 x s8 -> s32, rescaled per column, bias, relu."""
    rows, columns = 256, 512
    rng = np.random.default_rng(8)
    weight, scale = int8_weight(rng, rows, columns)
    b = Block("int8_linear")
    x = b.input("x", ["M", rows])
    x_scale = b.constant("x_scale", np.array(0.03, np.float32))
    q = b.node("QuantizeLinear", x, x_scale, b.constant("x_zero", np.array(0, np.int8)))
    acc = b.node("MatMulInteger", q, b.constant("w", weight))
    real = b.node("Mul", b.node("Cast", acc, to=TensorProto.FLOAT),
                  b.constant("scale", (scale * np.float32(0.03)).astype(np.float32)))
    h = b.node("Add", real, b.constant("bias", rng.standard_normal(columns).astype(np.float32)))
    b.node("Relu", h, out="y")
    b.output("y", ["M", columns])
    return b.model()


def int8_linear_qdq() -> ModelProto:
    """The same layer as a quantiser writes it for fusing runtimes: QuantizeLinear,
    DequantizeLinear."""
    rows, columns = 256, 512
    rng = np.random.default_rng(8)
    weight, scale = int8_weight(rng, rows, columns)
    b = Block("int8_linear_qdq")
    x = b.input("x", ["M", rows])
    x_scale = b.constant("x_scale", np.array(0.03, np.float32))
    x_zero = b.constant("x_zero", np.array(0, np.int8))
    x = b.node("DequantizeLinear", b.node("QuantizeLinear", x, x_scale, x_zero), x_scale, x_zero)
    w = b.node("DequantizeLinear", b.constant("w", weight), b.constant("w_scale", scale), axis=1)
    bias = b.constant("bias", rng.standard_normal(columns).astype(np.float32))
    b.node("Relu", b.node("Add", b.node("MatMul", x, w), bias), out="y")
    b.output("y", ["M", columns])
    return b.model()


BLOCKS = [llama3_8b_mlp, bert_mlp, gpt_oss_expert, attention_output, int8_linear, int8_linear_qdq]


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "examples"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    directory.mkdir(exist_ok=True)
    for block in BLOCKS:
        path = directory / f"{block.__name__}.onnx"
        path.write_bytes(block().SerializeToString(deterministic=True))
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
