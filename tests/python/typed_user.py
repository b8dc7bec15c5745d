"""What a user may write, as type checkers see it; types_test.py runs mypy --strict on this file."""
import os
import pathlib
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

import attacca
import attacca.torch
from attacca import Decision, Error, Explanation, Fused, Instance, Plan, Tensor, Tuned

Array = npt.NDArray[np.float32]


def use(x: Array, w: Array, bias: Array) -> Array:
    y: Array = attacca.matmul(x, w.T, "silu(acc + row(bias))", bias=bias)
    attacca.matmul(x, w.T, "acc, acc * 2", out=[y, np.empty_like(y)], out_dtype=np.float32)
    attacca.matmul(x, w.T, lambda acc: acc * 2, out_dtype="bf16", mode="eager", tuning="measure")
    for dtype in (torch.bfloat16, np.dtype("float32"), np.float32, ml_dtypes.bfloat16):
        attacca.matmul(x, w.T, out_dtype=dtype, threads=2, tuning_seconds=0.5)
    return y


@attacca.fuse
def gated(x: Annotated[Array, "f32[M, 64]"], gate: Annotated[Array, "f32[128, 64]"]) -> Any:
    return x @ gate.T


@attacca.fuse(mode="eager", tuning="measure", tuning_seconds=1)
def eager(x: Annotated[torch.Tensor, "[M, K]"]) -> Any:
    return x * 2


def compiled(path: pathlib.Path, program: torch.export.ExportedProgram, w: Array) -> None:
    plan: Plan = attacca.compile("graph", device=torch.device("cuda:0"), mode="fp32",
                                 constants={"w": w})
    attacca.compile(path)
    attacca.compile(b"model", device="cpu", threads=1)
    exported: attacca.torch.Program = attacca.compile(program, mode="eager")
    exported(w)
    instance: Instance = plan.prepare(M=np.int64(3), N=4)
    decisions: tuple[Decision, ...] = instance.decisions
    inputs: tuple[Tensor, ...] = plan.inputs
    size: int = instance.workspace_bytes
    result = plan(w, x=w, out=[w])
    plan.save(os.fspath(path))
    loaded: Plan = attacca.load(path, device="cpu")
    explanation: Explanation = attacca.explain(plan)
    data: dict[str, Any] = attacca.explain("graph", device="cuda", mode="eager").data
    tuned: list[Tuned] = attacca.tune("graph", device="cuda", M=[1, 16], N=np.int32(4),
                                      progress=False)
    text: str = gated.text(w, w) + attacca.__version__ + str(explanation) + loaded.device
    print(decisions, inputs, size, result, data, tuned, text, gated(w, w), eager.plan(w).symbols)


def with_torch(model: torch.nn.Module) -> None:
    attacca.torch.enable(policy="always", compare=False, tuning_seconds=2.0)
    attacca.torch.disable()
    report: attacca.torch.Report = attacca.torch.report()
    for graph in report.graphs:
        calls: list[int] = [fused.calls for fused in graph.fused]
        reasons: list[str] = [left.reason for left in graph.left]
        print(calls, reasons)


def quantised(weights: npt.NDArray[np.float32], linear: torch.nn.Linear) -> torch.nn.Module:
    packed: attacca.Packed = attacca.pack(weights, bits=4, group=128, scale_dtype="bf16")
    text: str = attacca.Packed.of(packed.data).text("w", torch.bfloat16)
    layer = attacca.torch.QuantizedLinear.from_linear(linear, 8, None, symmetric=False)
    weight: torch.Tensor = layer.dequantized(torch.float64)
    print(text, packed.group, weight)
    return layer


def failed(error: Error) -> tuple[str, str, str]:
    return error.what, error.where, error.fix


reveal_type(attacca.compile("graph"))
reveal_type(gated)
reveal_type(eager)
reveal_type(attacca.__version__)
# What mypy must find, each at its line: the code of its error stands at the line's end.
attacca.compile("graph", mode="fp31")  # EXPECT call-overload
attacca.compile("graph", device=3)  # EXPECT call-overload
attacca.compile(3)  # EXPECT call-overload
attacca.matmul(1, 2, tuning="fast")  # EXPECT arg-type
attacca.matmul(1, 2, out_dtype="f33")  # EXPECT arg-type
attacca.matmul(1, 2, threads="all")  # EXPECT arg-type
attacca.fuse(mod="eager")  # EXPECT call-overload
attacca.torch.enable(polcy="always")  # EXPECT call-arg
attacca.torch.enable(policy="sometimes")  # EXPECT arg-type
attacca.torch.report().graph  # EXPECT attr-defined
