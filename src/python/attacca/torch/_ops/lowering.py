"""Regions in the code that Inductor generates: plain calls that write to memory which Inductor
plans.

PyTorch's dispatcher, through which a custom op goes, takes longer than many kernels. So generated
code calls ``extern_kernels.attacca_region``, as it calls ``extern_kernels.mm``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._errors import Error
from .region import (
    Loaded,
    as_torch_dtype,
    has_kernel,
    loaded,
    region,
    region_of_one_result,
    signature_of,
)

_NAME, _OF_SEVERAL_RESULTS = "attacca_region", "attacca_region_of_several_results"


_loaded: dict[tuple[str, int], Loaded] = {}
_loaded_of_several: dict[tuple[str, str, str, float, int], Loaded] = {}


def _run(*arguments: Any, out: torch.Tensor) -> None:
    """What generated code calls: the inputs, then the constant of :func:`_constant`.

    Raises:
        Error: As :class:`attacca.Plan`'s calls.
    """
    *inputs, constant = arguments
    key = (constant, out.get_device())
    called = _loaded.get(key)
    if called is None:
        mode, tuning, seconds, graph = constant.split(" ", 3)
        called = _loaded[key] = loaded(graph, mode, tuning, float(seconds), out.device)
    called.calls += 1
    if called.engine.cache.run(inputs, out, False) is None:
        _check_alignments(called, [*inputs, out])
        called.engine.call(inputs, {}, out)


def _run_several(inputs: Sequence[torch.Tensor], graph: str, mode: str, tuning: str,
                 seconds: float) -> list[torch.Tensor]:
    """What generated code calls for several results, with the custom op's arguments.

    Raises:
        Error: As :class:`attacca.Plan`'s calls.
    """
    key = (graph, mode, tuning, seconds, inputs[0].get_device())
    called = _loaded_of_several.get(key)
    if called is None:
        called = _loaded_of_several[key] = loaded(graph, mode, tuning, seconds, inputs[0].device)
    return called(inputs)


def _check_alignments(called: Loaded, tensors: Sequence[torch.Tensor]) -> None:
    if has_kernel(called.graph) and any(tensor.data_ptr() & 15 for tensor in tensors):
        raise Error("a tensor's address is not a multiple of 16, for which Triton compiled the "
                    "kernel", "inputs",
                    "call .clone(), or compile with options={\"kernels\": False}")


def _constant(graph: str, mode: str, tuning: str, seconds: float) -> str:
    return f"{mode} {tuning} {seconds} {graph}"


def _lower(inputs: Sequence[Any], graph: str, mode: str, tuning: str, tuning_seconds: float) -> Any:
    """Inductor's IR of a call: the custom op in generated C++, else a plain call."""
    from torch._inductor import ir
    from torch._inductor.lowering import fallback_handler
    from torch._inductor.virtualized import V

    signature = signature_of(graph, mode, inputs[0].get_device())
    outputs = signature.outputs
    node: Any = V.graph.current_node
    wanted = signature.declared_strides([given.meta["val"].shape for given in node.args[0]])
    laid_out = [ir.ExternKernel.require_contiguous(value) if strides is None else
                ir.ExternKernel.require_exact_strides(value, strides)
                for value, strides in zip(inputs, wanted)]
    is_python = not (V.graph.cpp_wrapper or V.graph.fx_wrapper)
    if len(outputs) != 1:
        made = fallback_handler(region, add_to_fallback_set=False)(laid_out, graph, mode, tuning,
                                                                   tuning_seconds)
        if is_python:
            called = made[0].data.data.inputs[0]  # from a tensor's storage to the call it is of
            called.python_kernel_name = f"extern_kernels.{_OF_SEVERAL_RESULTS}"
        return made
    if not is_python:
        call = fallback_handler(region_of_one_result, add_to_fallback_set=False)
        return [call(laid_out, graph, mode, tuning, tuning_seconds)]
    size = ir.convert_shape_to_inductor(node.meta["val"][0].shape)
    result = ir.FixedLayout(inputs[0].get_device(), as_torch_dtype(outputs[0].info.dtype), size,
                            ir.FlexibleLayout.contiguous_strides(size))
    return [ir.TensorBox.create(ir.ExternKernelOut(
        result, [ir.ExternKernel.realize_input(value) for value in laid_out],
        constant_args=[_constant(graph, mode, tuning, tuning_seconds)],
        python_kernel_name=f"extern_kernels.{_NAME}"))]


def install() -> None:
    """Registers the call with Inductor, and for code that it generated in an earlier process."""
    from torch._inductor.lowering import register_lowering
    from torch._inductor.select_algorithm import extern_kernels

    if not hasattr(extern_kernels, _NAME):
        setattr(extern_kernels, _NAME, _run)
        setattr(extern_kernels, _OF_SEVERAL_RESULTS, _run_several)
        register_lowering(region, type_promotion_kind=None)(_lower)


def generated_call(graph: str, mode: str,
                   tuning: str) -> Callable[[Sequence[torch.Tensor], torch.Tensor], None]:
    """What generated code does for a region of one result: a function of its inputs and of where to
    write."""
    constant = _constant(graph, mode, tuning, 0.0)
    return lambda inputs, out: _run(*inputs, constant, out=out)
