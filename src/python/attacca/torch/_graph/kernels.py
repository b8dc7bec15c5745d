"""Users' Triton kernels in FX graphs, as the text form's ``kernel`` (docs/user-kernels.md).

Dynamo represents ``kernel[grid](...)`` as a node that copies the tensors which the kernel writes,
and returns the copies. If the kernel writes one tensor, which is uninitialised before, a stand-in
replaces the result while regions are searched for. Stand-ins that no region covers are removed
again.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._functions.table import Refused
from .importer import Importer, dim_text

_WRAPPER = "triton_kernel_wrapper_functional"
_UNINITIALISED = {"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.empty_permuted",
                  "aten.new_empty",
                  "aten.new_empty_strided"}
_TRITON = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "s8": "i8", "u8": "u8",
           "s32": "i32",
           "s64": "i64", "bool": "i1", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}
_ALIGNED = [["tt.divisibility", 16]]
TEXT, ORIGINALS = "attacca_text", "attacca_originals"  # keys of a stand-in's meta


def user_kernel(*operands: Any) -> Any:
    """The target of stand-ins for kernels' results; never called."""
    raise AssertionError("a stand-in was left in a graph")


def is_stand_in(node: torch.fx.Node) -> bool:
    """Whether a node is a stand-in; its meta has its text and the nodes that it replaces."""
    return node.op == "call_function" and node.target is user_kernel


class Unused(NamedTuple):
    """A kernel that is left unchanged, and why."""

    node: str
    reason: str


def stand_in(graph: torch.fx.Graph) -> tuple[list[torch.fx.Node], list[Unused]]:
    """Replaces the result of each kernel that may get an epilogue by a stand-in.

    Returns:
        The stand-ins, and the kernels that are left unchanged.
    """
    made: list[torch.fx.Node] = []
    unused: list[Unused] = []
    importer = Importer()
    for node in list(graph.nodes):
        if node.op != "call_function" or Importer.op(node) != _WRAPPER:
            continue
        try:
            made.append(_stand_in_for(graph, importer, node))
        except Refused as reason:
            unused.append(Unused(node.name, str(reason)))
    return made, unused


def restore(graph: torch.fx.Graph, stand_ins: Sequence[torch.fx.Node]) -> None:
    """Removes the stand-ins that are left, and the nodes they replaced that are no longer used."""
    for node in reversed(stand_ins):
        originals = node.meta[ORIGINALS]
        if not node._erased:
            node.replace_all_uses_with(originals[-1])
            graph.erase_node(node)
        for original in reversed(originals):
            if not original.users:
                graph.erase_node(original)


def _stand_in_for(graph: torch.fx.Graph, importer: Importer, node: torch.fx.Node) -> torch.fx.Node:
    buffer, name = _output(importer, node)
    parts = [user for user in node.users if user.args[1] == name]
    if len(parts) != 1 or len(node.users) != 1:
        raise Refused("its result is read in several parts, or not at all")
    part = parts[0]
    text, operands = _text(importer, node, name, part)
    with graph.inserting_after(part):
        standing = graph.call_function(user_kernel, tuple(operands))
    standing.meta = {**part.meta, TEXT: text, ORIGINALS: [buffer, node, part]}
    part.replace_all_uses_with(standing)
    return standing


def _output(importer: Importer, node: torch.fx.Node) -> tuple[torch.fx.Node, str]:
    """The tensor that the kernel writes, and the parameter's name."""
    launch: dict[str, Any] = node.kwargs
    written = launch["tensors_to_clone"]
    if len(written) != 1:
        raise Refused(f"it writes {len(written)} tensors, or unknown ones")
    name: str = written[0]
    buffer: torch.fx.Node = launch["kwargs"][name]
    if buffer.op != "call_function" or importer.op(buffer) not in _UNINITIALISED:
        how = importer.op(buffer) if buffer.op == "call_function" else "an input"
        raise Refused(
            f"what it writes to starts as {how}, not uninitialised: the kernel may read it")
    if len(buffer.users) != 1:
        raise Refused("what it writes to is used elsewhere")
    return buffer, name


# ---- The call as text


def _text(importer: Importer, node: torch.fx.Node, output: str,
          part: torch.fx.Node) -> tuple[str, list[torch.fx.Node]]:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    launch: dict[str, Any] = node.kwargs
    kernel: Any = kernel_side_table.get_kernel(launch["kernel_idx"])
    given = {**launch["kwargs"], **kernel_side_table.get_constant_args(launch["constant_args_idx"])}
    kernel, given = _only_one(kernel, given)
    if launch["tma_descriptor_metadata"]:
        raise Refused("it takes tensor descriptors")
    if len(launch["grid"]) != 1:
        raise Refused("it has several grids")
    call = _Call(importer, kernel, output, part)
    for i, name in enumerate(kernel.arg_names):
        if name not in given:
            raise Refused(f"its argument {name} is unknown")
        call.add(i, name, given.pop(name))
    path, compiled, parameters = _compiled(kernel, call, given)
    metadata = compiled.metadata
    # scratch memory, which it does not use
    passed = call.passed + ["s64(0)"] * (len(parameters) - len(call.passed))
    grid = ", ".join(_grid_text(size) for size in launch["grid"][0])
    return (f'kernel("{path}", {", ".join(passed)}, entry="{metadata.name}", grid=[{grid}], '
            f"block=[{32 * metadata.num_warps}], shared={metadata.shared})"), call.operands


def _only_one(kernel: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function and its arguments, if there is one configuration, such as ``num_warps``, to
    compile it with."""
    if type(kernel).__name__ == "Autotuner":
        if len(kernel.configs) != 1:
            raise Refused("it is tuned by Triton, which picks one of several kernels")
        config = kernel.configs[0]
        if config.pre_hook is not None or kernel.reset_to_zero or kernel.restore_value:
            raise Refused("it has a hook that runs before its launch")
        given, kernel = {**given, **config.all_kwargs()}, kernel.fn
    if type(kernel).__name__ != "JITFunction":
        raise Refused(f"it is a {type(kernel).__name__}")
    return kernel, given


class _Call:
    """The kernel's arguments, as Triton's compiler takes them and as the text form passes them."""

    def __init__(self, importer: Importer, kernel: Any, output: str, part: torch.fx.Node):
        self.importer, self.kernel, self.output, self.part = importer, kernel, output, part
        self.signature: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.attributes: dict[tuple[int], Any] = {}
        self.passed: list[str] = []
        self.operands: list[torch.fx.Node] = []

    def add(self, index: int, name: str, value: Any) -> None:
        parameter = self.kernel.params[index]
        if parameter.is_constexpr or value is None or isinstance(value, bool):
            self._constant(name, value)
        elif isinstance(value, torch.fx.Node):
            self._node(index, name, value)
        elif isinstance(value, int) and value == 1 and not parameter.do_not_specialize:
            self._constant(name, value)
        elif isinstance(value, int):
            kind = 32 if -2**31 <= value < 2**31 else 64
            self.signature[name] = f"i{kind}"
            if value % 16 == 0 and not parameter.do_not_specialize:
                self.attributes[index,] = _ALIGNED
            self.passed.append(f"s{kind}({value})")
        elif isinstance(value, float):
            self.signature[name] = "fp32"
            self.passed.append(f"f32({value!r})")
        else:
            raise Refused(f"its argument {name} is a {type(value).__name__}")

    def _constant(self, name: str, value: Any) -> None:
        if isinstance(value, torch.fx.Node):
            raise Refused(f"its constant {name} is computed")
        self.signature[name] = "constexpr"
        self.constants[name] = value

    def _node(self, index: int, name: str, node: torch.fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, (int, torch.SymInt)):
            self.signature[name] = "i32"
            self.passed.append(f"s32({dim_text(value)})")
            return
        if not isinstance(value, torch.Tensor):
            raise Refused(f"its argument {name} is not a tensor")
        dtype = self.importer.dtype(node)
        self.signature[name] = f"*{_TRITON[dtype]}"
        self.attributes[index,] = _ALIGNED
        kind = self.importer.type_text(node)
        if ";" in kind or not value.is_contiguous():
            raise Refused(f"its argument {name} is not row-major")
        if name == self.output:
            self.passed.append(self.importer.type_text(self.part))
        else:
            self.passed.append(f'"{node.name}"')
            self.operands.append(node)


def _compiled(kernel: Any, call: _Call, options: dict[str, Any]) -> tuple[str, Any, list[str]]:
    """The path of its PTX, what Triton's compiler returns, and the types of the PTX's
    parameters."""
    try:
        import triton
        from triton.compiler import ASTSource

        source = ASTSource(fn=kernel, signature=call.signature, constexprs=call.constants,
                           attrs=call.attributes)
        compiled = triton.compile(source, target=triton.runtime.driver.active.get_current_target(),
                                  options=options)
    except Exception as failure:  # noqa: BLE001  of any kind that Triton may raise
        raise Refused(
            f"Triton does not compile it alone: {' '.join(str(failure).split())[:200]}") from None
    metadata, ptx = compiled.metadata, compiled.asm.get("ptx", "")
    head = re.search(r"\.entry\s+" + re.escape(metadata.name) + r"\s*\(([^)]*)\)", ptx)
    if head is None:
        raise Refused("Triton compiles it to no PTX")
    parameters = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)", head[1])
    extra = parameters[len(call.passed):]
    if len(parameters) < len(call.passed) or any(kind not in ("u64", "b64") for kind in extra):
        raise Refused(f"its PTX takes {', '.join(parameters)}")
    for asked in ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid",
                  "launch_pdl"):
        if getattr(metadata, asked, 0):
            raise Refused(f"it needs {asked}")
    if getattr(metadata, "num_ctas", 1) != 1:
        raise Refused("it is launched in clusters")
    return _kept(ptx), compiled, parameters


def _kept(ptx: str) -> str:
    """The path of a file with the PTX, named after its hash, beside the code of Inductor that will
    name it."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    name = hashlib.sha256(ptx.encode()).hexdigest()
    path = pathlib.Path(cache_dir()) / "attacca" / f"{name}.ptx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(ptx)
        partial.replace(path)
    return str(path)


def _grid_text(size: Any) -> str:
    """A number of blocks: a dimension, or ``ceildiv`` of one."""
    if isinstance(size, torch.fx.Node):
        size = size.meta.get("val")
    if isinstance(size, int):
        return str(size)
    if not isinstance(size, torch.SymInt):
        raise Refused("its grid is unknown")
    import sympy
    from torch.utils._sympy.functions import CleanDiv, FloorDiv

    expression = size.node.shape_env.simplify(size.node.expr)
    if isinstance(expression, (FloorDiv, CleanDiv)):
        above, below = expression.args
        if below.is_Integer:
            return f"ceildiv({_expression_text(sympy.expand(above - (below - 1)))}, {below})"
    return dim_text(size)


def _expression_text(expression: Any) -> str:
    text = str(expression)
    if not re.fullmatch(r"[\w+*\- ]+", text) or "**" in text:
        raise Refused(f"its grid has {text}")
    return text
