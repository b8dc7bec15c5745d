"""Users' Triton kernels in FX graphs, as the text form's ``kernel`` (docs/user-kernels.md).

Dynamo represents ``kernel[grid](...)`` as a node that copies the tensors which the kernel writes,
and returns the copies. If the kernel writes one tensor, which is uninitialised before, a stand-in
replaces the result while regions are searched for. Stand-ins that no region covers are removed
again. A kernel without an elementwise op behind it is left alone before anything is compiled.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ..._functions.table import Refused
from .importer import Importer
from .sizes import dim_text

_WRAPPER = "triton_kernel_wrapper_functional"
_UNINITIALISED = {"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.empty_permuted",
                  "aten.new_empty",
                  "aten.new_empty_strided"}
_TRITON = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "s8": "i8", "u8": "u8",
           "s32": "i32",
           "s64": "i64", "bool": "i1", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}
_ALIGNED = [["tt.divisibility", 16]]
TEXT, ORIGINALS = "attacca_text", "attacca_originals"  # keys of a stand-in's meta
_OPERANDS = "attacca_operands"
_ALIGNMENT = 16  # bytes, which Triton's kernels are compiled for
# Views besides those of which ATen's schema says so.
_VIEWS = {"aten._unsafe_view", "aten.reshape"}


class Configured(NamedTuple):
    """A kernel as one of its configurations launches it."""

    text: str  # the call in the text form
    operands: list[torch.fx.Node]


# Which of a kernel's configurations is fused; the node is the kernel's result.
Choose = Callable[[Sequence[Configured], torch.fx.Node], int]


def first(configurations: Sequence[Configured], result: torch.fx.Node) -> int:
    """Chooses without measuring."""
    return 0


def user_kernel(*operands: Any) -> Any:
    """The target of stand-ins for kernels' results; never called."""
    raise AssertionError("a stand-in was left in a graph")


def as_it_lies(tensor: Any) -> Any:
    """The target of nodes in place of a kernel's operands that are not row-major: the regions take
    them as inputs with these strides. :func:`restore` removes them."""
    return tensor


def is_stand_in(node: torch.fx.Node) -> bool:
    """Whether a node is a stand-in; its meta has its text and the nodes that it replaces."""
    return node.op == "call_function" and node.target is user_kernel


class Unused(NamedTuple):
    """A kernel that is left unchanged, and why."""

    node: str
    reason: str


def stand_in(graph: torch.fx.Graph,
             choose: Choose = first) -> tuple[list[torch.fx.Node], list[Unused]]:
    """Replaces the result of each kernel that may get an epilogue by a stand-in.

    Args:
        graph: The graph.
        choose: Which configuration of a kernel that Triton tunes is taken.

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
            made.append(_stand_in_for(graph, importer, node, choose))
        except Refused as reason:
            unused.append(Unused(node.name, str(reason)))
    return made, unused


def restore(graph: torch.fx.Graph, stand_ins: Sequence[torch.fx.Node]) -> None:
    """Removes the stand-ins that are left, and the nodes they replaced that are no longer used."""
    operands = {node for standing in stand_ins for node in standing.meta[_OPERANDS]
                if node.target is as_it_lies}
    for node in reversed(stand_ins):
        originals = node.meta[ORIGINALS]
        if not node._erased:
            node.replace_all_uses_with(originals[-1])
            graph.erase_node(node)
        for original in reversed(originals):
            if not original.users:
                graph.erase_node(original)
    for operand in operands:
        operand.replace_all_uses_with(operand.args[0])
        graph.erase_node(operand)


def _stand_in_for(graph: torch.fx.Graph, importer: Importer, node: torch.fx.Node,
                  choose: Choose) -> torch.fx.Node:
    buffer, name = _output(importer, node)
    parts = [user for user in node.users if user.args[1] == name]
    if len(parts) != 1 or len(node.users) != 1:
        raise Refused("its result is read in several parts, or not at all")
    part = parts[0]
    if not _has_tail(importer, part):
        raise Refused("no elementwise op reads its result")
    configurations = _configurations(importer, node, name, part)
    text, operands = configurations[choose(configurations, part)]
    with graph.inserting_before(node):
        operands = [_as_it_lies(graph, node, operand) for operand in operands]
    with graph.inserting_after(part):
        standing = graph.call_function(user_kernel, tuple(operands))
    for configured, operand in zip(configurations[0].operands, operands):
        text = text.replace(f'"{configured.name}"', f'"{operand.name}"', 1)
    standing.meta = {**part.meta, TEXT: text, ORIGINALS: [buffer, node, part], _OPERANDS: operands}
    part.replace_all_uses_with(standing)
    return standing


def _has_tail(importer: Importer, result: torch.fx.Node) -> bool:
    """Whether an elementwise op reads it, perhaps through views."""
    pending = list(result.users)
    while pending:
        node = pending.pop()
        if node.op != "call_function":
            continue
        name = importer.op(node)
        if name in _VIEWS or getattr(node.target, "is_view", False):
            pending += node.users
        elif name == "prims.convert_element_type" or \
                torch.Tag.pointwise in getattr(node.target, "tags", ()):
            return True
    return False


def _as_it_lies(graph: torch.fx.Graph, kernel: torch.fx.Node,
                operand: torch.fx.Node) -> torch.fx.Node:
    """The operand, or a node in its place if it is not row-major."""
    if operand.meta["val"].is_contiguous():
        return operand
    node = graph.call_function(as_it_lies, (operand,))
    node.meta = dict(operand.meta)
    kernel.replace_input_with(operand, node)
    return node


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


def _configurations(importer: Importer, node: torch.fx.Node, output: str,
                    part: torch.fx.Node) -> list[Configured]:
    """The kernel in each of its configurations that Triton compiles; at least one."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    launch: dict[str, Any] = node.kwargs
    kernel: Any = kernel_side_table.get_kernel(launch["kernel_idx"])
    given = {**launch["kwargs"], **kernel_side_table.get_constant_args(launch["constant_args_idx"])}
    if launch["tma_descriptor_metadata"]:
        raise Refused("it takes tensor descriptors")
    versions = list(_versions(kernel, given))
    grids = launch["grid"]
    if len(grids) not in (1, len(versions)):
        raise Refused("it has several grids")
    made: list[Configured] = []
    refused: Refused | None = None
    for i, (function, arguments) in enumerate(versions):
        grid = grids[i if len(grids) > 1 else 0]
        try:
            made.append(_configured(importer, function, arguments, grid, output, part))
        except Refused as reason:  # such as a tile that needs more shared memory than there is
            refused = refused or reason
    if not made:
        raise refused or Refused("it has no configuration")
    return made


def _versions(kernel: Any, given: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The function with the arguments and options, such as ``num_warps``, of each configuration."""
    configs = [None]
    if type(kernel).__name__ == "Autotuner":
        if kernel.reset_to_zero or kernel.restore_value or \
                any(config.pre_hook is not None for config in kernel.configs):
            raise Refused("it has a hook that runs before its launch")
        configs, kernel = kernel.configs, kernel.fn
    if type(kernel).__name__ != "JITFunction":
        raise Refused(f"it is a {type(kernel).__name__}")
    for config in configs:
        yield kernel, {**given, **(config.all_kwargs() if config is not None else {})}


def _configured(importer: Importer, kernel: Any, given: dict[str, Any], grid: Sequence[Any],
                output: str, part: torch.fx.Node) -> Configured:
    call = _Call(importer, kernel, output, part)
    for i, name in enumerate(kernel.arg_names):
        if name not in given:
            raise Refused(f"its argument {name} is unknown")
        call.add(i, name, given.pop(name))
    path, compiled, parameters = _compiled(kernel, call, given)
    metadata = compiled.metadata
    # scratch memory, which it does not use
    passed = call.passed + ["s64(0)"] * (len(parameters) - len(call.passed))
    blocks = ", ".join(_grid_text(size) for size in grid)
    return Configured(
        f'kernel("{path}", {", ".join(passed)}, entry="{metadata.name}", grid=[{blocks}], '
        f"block=[{32 * metadata.num_warps}], shared={metadata.shared})", call.operands)


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
        if name == self.output:
            if not value.is_contiguous():
                raise Refused(f"its output {name} is not row-major")
            self.passed.append(self.importer.type_text(self.part))
        else:
            _check_strides(name, value)
            self.passed.append(f'"{node.name}"')
            self.operands.append(node)


def _check_strides(name: str, value: torch.Tensor) -> None:
    """A region's input is passed as it lies if its strides are numbers."""
    if value.is_contiguous():
        return
    if not all(isinstance(stride, int) for stride in value.stride()):
        raise Refused(f"the strides of its argument {name} are unknown")
    if 0 in value.stride():
        raise Refused(f"its argument {name} is broadcast")
    offset = value.storage_offset()
    if not isinstance(offset, int) or offset * value.element_size() % _ALIGNMENT:
        raise Refused(f"its argument {name} begins at an address that is not aligned to "
                      f"{_ALIGNMENT} bytes")


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
