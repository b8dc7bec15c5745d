"""The public functions of products that are one with a collective. Dynamo traces them."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist

from ... import _arguments
from ..._arguments import DType, Mode, Tuning
from ..._compile import options
from ..._errors import Error
from ..._frameworks import SUPPORTED, Torch
from ..._matmul import check_free, graph_of, input_name, result_dtype, roles, with_operands
from ..._trace.epilogue import operand_role
from .._ops.calls import check_local, constant, count_of, traced
from .._ops.epilogues import outside_if_varying
from .._ops.text_argument import written
from . import ops
from .ranks import ranks_of

Way = Literal["measured", "whole", "direct", "pieces", "awaiting", "pulled"]
Weights = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
Epilogue = str | Callable[..., Any]
_DTYPES = Torch.names()
_WAYS: tuple[str, ...] = get_args(Way)


@outside_if_varying
def all_gather_matmul(a: torch.Tensor, b: Weights, /, epilogue: Epilogue = "acc", *,
                      group: Any = None, out_dtype: DType | None = None, mode: Mode = "fp32",
                      tuning: Tuning = "known", tuning_seconds: float = 0,
                      exchange: Way = "measured", **operands: torch.Tensor) -> torch.Tensor:
    """Computes ``epilogue(all_gather(a) @ b)``: rows that other ranks hold are multiplied as they
    arrive, where that is faster.

    On GPUs of one host that read each other's memory, the first call with so many rows times each
    way, and all ranks take the fastest. Elsewhere the group's all_gather runs first. All ranks call
    it with tensors of the same shapes, and all or none of them while capturing a CUDA graph.

    Args:
        a: The rank's rows, ``[M / ranks, K]``; with more axes, the first is the gathered one.
        b: A tensor ``[K, N]``, row-major or transposed such as ``weight.T``; or two of them, for
            the epilogue of a gate such as "silu(acc0) * acc1".
        epilogue: As for :func:`attacca.matmul`, with one result; of a gate, the text form.
        group: A process group, or a device mesh of one axis. None: all ranks.
        out_dtype: As for :func:`attacca.matmul`.
        mode: As for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`, rank by rank.
        tuning_seconds: As for :func:`attacca.compile`.
        exchange: The way; the same on all ranks. "whole": the group's collective and one product of
            all rows, as the unfused path has them. "direct": one product of all rows, which are
            read over PyTorch's symmetric memory. "pieces": over symmetric memory, a rank's rows at
            a time, while others are multiplied. "awaiting": likewise, by one kernel that waits for
            each rank's rows; a rank without such a kernel for its tensors waits itself, and takes a
            rank's rows at a time. "measured": the fastest of them (docs/tensor-parallel.md).
        **operands: The epilogue's operands by name; ``full`` and ``col`` have all M rows.

    Returns:
        A tensor ``[M, N]``; with more axes in a, ``[ranks * a.shape[0], ..., N]``.

    Raises:
        Error: As :func:`attacca.matmul`.
    """
    weights = _checked(a, b, operands)
    _check_epilogue(all_gather_matmul, epilogue, "epilogue")
    chosen = _options(mode, tuning, tuning_seconds, exchange, False)
    text = _text(epilogue, a.dtype, weights[0].shape[1], operands, "epilogue")
    ranks = _ranks(group)
    lead = [ranks * a.shape[0], *a.shape[1:-1]]
    inputs, graph = _product(a, weights, text, out_dtype, operands, "", lead)
    out: torch.Tensor = ops.all_gather_matmul(inputs, graph, chosen, ranks, _name(group))
    return out.view(*lead, out.shape[-1])


@outside_if_varying
def matmul_reduce_scatter(a: torch.Tensor, b: Weights, /, epilogue: Epilogue = "acc",
                          after: Epilogue = "acc", *, group: Any = None,
                          out_dtype: DType | None = None, mode: Mode = "fp32",
                          tuning: Tuning = "known", tuning_seconds: float = 0,
                          exchange: Way = "measured", exact_sum: bool = False,
                          **operands: torch.Tensor) -> torch.Tensor:
    """Computes ``after(reduce_scatter(epilogue(a @ b)))``: sums over the ranks, of which each gets
    as many rows.

    The way is chosen as :func:`all_gather_matmul` says. "pieces" copies what the ranks compute of
    each other's rows while more is multiplied, and adds in the kernel of the own rows' product.
    "pulled" adds there, too, but the kernel reads the others' parts where they are. "direct",
    "pieces" and "pulled" add the ranks' parts in their order, in f32, where ``after`` is computed;
    "whole" adds as the group's backend does, in ``out_dtype``.

    Args:
        a: The rank's columns of all rows, ``[M, K]``; with more axes, the first is the scattered
            one. The ranks' number must divide it.
        b: As for :func:`all_gather_matmul`: the rank's rows ``[K, N]``.
        epilogue: What each rank computes of its product before the sum.
        after: What is computed of the sum, ``acc``, in either form; its operands ``full`` and
            ``col`` have the rank's rows.
        group: As for :func:`all_gather_matmul`.
        out_dtype: The dtype of the result and of what is sent.
        mode: As for :func:`all_gather_matmul`.
        tuning: As for :func:`all_gather_matmul`.
        tuning_seconds: As for :func:`all_gather_matmul`.
        exchange: As for :func:`all_gather_matmul`, with "pulled" and without "awaiting".
        exact_sum: Whether "whole", too, adds the ranks' parts in their order, in f32, and rounds
            once, behind ``after``, so that results are the same from run to run.
        **operands: The operands of both epilogues by name.

    Returns:
        A tensor ``[M / ranks, N]``; with more axes in a, ``[a.shape[0] / ranks, ..., N]``.

    Raises:
        Error: As :func:`attacca.matmul`; the rows cannot be cut into equal parts.
    """
    weights = _checked(a, b, operands)
    _check_epilogue(matmul_reduce_scatter, epilogue, "epilogue")
    _check_epilogue(matmul_reduce_scatter, after, "after")
    ranks = _ranks(group)
    if a.shape[0] % ranks:
        raise Error(f"{a.shape[0]} rows cannot be cut into {ranks} equal parts", "a",
                    "pad the rows, or use matmul_all_reduce")
    chosen = _options(mode, tuning, tuning_seconds, exchange, exact_sum)
    lead = [a.shape[0] // ranks, *a.shape[1:-1]]
    arguments = _reduced(a, weights, epilogue, after, out_dtype, operands, ranks, lead)
    out: torch.Tensor = ops.matmul_reduce_scatter(*arguments, chosen, ranks, _name(group))
    return out.view(*lead, out.shape[-1])


@outside_if_varying
def matmul_all_reduce(a: torch.Tensor, b: Weights, /, epilogue: Epilogue = "acc",
                      after: Epilogue = "acc", *, group: Any = None,
                      out_dtype: DType | None = None, mode: Mode = "fp32",
                      tuning: Tuning = "known", tuning_seconds: float = 0,
                      exchange: Way = "measured", exact_sum: bool = False,
                      **operands: torch.Tensor) -> torch.Tensor:
    """Computes ``after(all_reduce(epilogue(a @ b)))``: as :func:`matmul_reduce_scatter`, and then
    each rank gets all rows. The results of all ranks are equal bit for bit.

    Args:
        a: The rank's columns of all rows, ``[M, K]`` or ``[..., K]``. If the ranks' number does not
            divide M, every rank adds all rows.
        b: As for :func:`matmul_reduce_scatter`.
        epilogue: As for :func:`matmul_reduce_scatter`.
        after: As for :func:`matmul_reduce_scatter`, but its operands ``full`` and ``col`` have all
            M rows.
        group: As for :func:`all_gather_matmul`.
        out_dtype: As for :func:`matmul_reduce_scatter`.
        mode: As for :func:`all_gather_matmul`.
        tuning: As for :func:`all_gather_matmul`.
        tuning_seconds: As for :func:`all_gather_matmul`.
        exchange: As for :func:`matmul_reduce_scatter`.
        exact_sum: As for :func:`matmul_reduce_scatter`.
        **operands: The operands of both epilogues by name; equal on all ranks where ``after`` reads
            them.

    Returns:
        A tensor ``[M, N]``, or ``[..., N]``.

    Raises:
        Error: As :func:`attacca.matmul`.
    """
    weights = _checked(a, b, operands)
    _check_epilogue(matmul_all_reduce, epilogue, "epilogue")
    _check_epilogue(matmul_all_reduce, after, "after")
    chosen = _options(mode, tuning, tuning_seconds, exchange, exact_sum)
    ranks, lead = _ranks(group), [*a.shape[:-1]]
    arguments = _reduced(a, weights, epilogue, after, out_dtype, operands, ranks, lead)
    out: torch.Tensor = ops.matmul_all_reduce(*arguments, chosen, ranks, _name(group))
    return out.view(*a.shape[:-1], out.shape[-1])


def _reduced(a: torch.Tensor, weights: list[torch.Tensor], epilogue: Epilogue, after: Epilogue,
             out_dtype: Any, operands: dict[str, torch.Tensor], ranks: int,
             lead: list[int]) -> tuple[list[torch.Tensor], int, str, str, str]:
    """The first arguments of the ops that reduce; ``lead``: the leading extents of the result."""
    columns = weights[0].shape[1]
    text = _text(epilogue, a.dtype, columns, operands, "epilogue")
    after = _text(after, a.dtype, columns, operands, "after")
    inputs, graph = _product(a, weights, text, out_dtype, operands, after, [*a.shape[:-1]])
    names = _names(after).split()
    for name in names:
        if name not in operands:
            raise Error(f"operand {name} is missing", name, f"give {name}=")
    _check_shapes(after, "after", operands, lead, columns)
    dtypes = tuple([operands[name].dtype for name in names])
    tail, behind = [_tail(after, count, _out_dtype(a.dtype, out_dtype), " ".join(names), dtypes)
                    for count in (ranks, 0)]
    others = [_flat(operands[name]) for name in names]
    return [*inputs, *others], len(inputs), graph, tail, behind


def _product(a: torch.Tensor, weights: list[torch.Tensor], text: str, out_dtype: Any,
             operands: dict[str, torch.Tensor], after: str,
             lead: list[int]) -> tuple[list[torch.Tensor], str]:
    """The inputs and the graph of the product and its epilogue.

    Args:
        a: The left operand.
        weights: The right ones.
        text: The epilogue.
        out_dtype: The result's dtype.
        operands: The operands by name.
        after: What follows, which may name operands, too.
        lead: The product's leading extents.

    Raises:
        Error: Shapes, dtypes or names do not fit.
    """
    layout = "two" if len(weights) == 2 else "kn" if weights[0].stride(1) == 1 else "nk"
    given = {name: tensor for name, tensor in operands.items()
             if name in _names(text).split() or name not in _names(after).split()}
    dtypes = tuple([tensor.dtype for tensor in given.values()])
    order, graph = _graph(a.dtype, layout, text, " ".join(given), dtypes,
                          _out_dtype(a.dtype, out_dtype)).split("\n", 1)
    _check_shapes(text, "epilogue", operands, lead, weights[0].shape[1])
    by_name = {input_name(name): _flat(tensor) for name, tensor in given.items()}
    by_name["a"] = _flat(a)
    for name, weight in zip(("b", "b1"), weights):
        by_name[name] = weight if layout == "kn" else weight.t()
    return [by_name[name] for name in order.split()], graph


def _check_shapes(text: str, where: str, operands: dict[str, torch.Tensor], lead: list[int],
                  columns: int) -> None:
    """Checks the shapes of an epilogue's operands.

    Args:
        text: The epilogue, all of whose operands are given.
        where: What it is to the caller.
        operands: The operands by name.
        lead: The leading extents of what it is computed of, which an operand may have as they are
            or as one.
        columns: The columns.

    Raises:
        Error: A shape is not that of the operand's role.
    """
    rows = 1
    for extent in lead:
        rows = rows * extent
    by_role = {"scalar": [], "row": [columns], "col": [*lead, 1], "full": [*lead, columns]}
    merged = {"col": [rows, 1], "full": [rows, columns]}
    for name, role in zip(_names(text).split(), _roles(text).split()):
        shape, wanted = [*operands[name].shape], by_role[role]
        if shape != wanted and shape != merged.get(role, wanted):
            raise Error(f"operand {name} has shape {tuple(shape)}, which does not fit "
                        f"{role}({name}) in {where}", name,
                        f"give {where} an operand of shape {tuple(wanted)}")


def _flat(operand: torch.Tensor) -> torch.Tensor:
    """An operand with its leading axes as rows."""
    return operand.flatten(0, -2) if operand.dim() > 2 else operand


def _checked(a: Any, b: Any, operands: dict[str, Any]) -> list[torch.Tensor]:
    """The weights.

    Raises:
        Error: Not all are tensors, or their shapes, dtypes or devices do not fit.
    """
    weights = list(b) if isinstance(b, (list, tuple)) else [b]
    for where, tensor in [("a", a), *[("b", each) for each in weights], *operands.items()]:
        if not isinstance(tensor, torch.Tensor):
            raise Error(f"{where} is {_arguments.shown(tensor)}", where, "give a torch tensor")
        check_local(tensor, where)
        if tensor.device != a.device:
            raise Error(f"a is on {a.device} and {where} on {tensor.device}", where,
                        "move one to the other's device")
    if len(weights) not in (1, 2):
        raise Error(f"{len(weights)} weights", "b", "give one, or two for a gate")
    if a.dim() < 2:
        raise Error(f"a has shape {tuple(a.shape)}", "a", "give [M, K]")
    for each in weights:
        if each.dim() != 2 or each.shape[0] != a.shape[-1] or each.shape != weights[0].shape:
            raise Error(f"a has shape {tuple(a.shape)} and b {tuple(each.shape)}", "b",
                        "give [M, K] and [K, N], and the two weights of a gate one shape")
        if each.dtype != a.dtype:
            raise Error(f"a is {a.dtype} and b {each.dtype}", "b", "give both one dtype")
    return weights


def _text(epilogue: Epilogue, dtype: torch.dtype, columns: int, operands: dict[str, torch.Tensor],
          where: str) -> str:
    """The text form of an epilogue.

    Raises:
        Error: It has several results.
    """
    if not isinstance(epilogue, str):
        kinds = [operand_role(name, tensor.shape, columns) for name, tensor in operands.items()]
        dtypes = (dtype, *[tensor.dtype for tensor in operands.values()])
        epilogue = traced(epilogue, " ".join(operands), " ".join(kinds), dtypes)
    if count_of(epilogue) != "1":
        raise Error("several results", where, "give one")
    return epilogue


# ---- What Dynamo runs while it traces


@constant
def _check_epilogue(function: Callable[..., Any], epilogue: Any, where: str) -> str:
    """Raises:
        Error: It is neither text nor a Python function, or an operand has the name of one of
            ``function``'s parameters.
    """
    if callable(epilogue):
        _arguments.function(epilogue, where)
    else:
        _arguments.text(epilogue, where)
    check_free(function, epilogue)
    return where


@constant
def _ranks(group: Any) -> int:
    count: int = _process_group(group).size()
    return count


@constant
def _name(group: Any) -> str:
    """The name of a group in torch."""
    name: str = _process_group(group).group_name
    return name


def _process_group(group: Any) -> Any:
    """Raises:
        Error: It is none, or a group of other processes.
    """
    group = dist.group.WORLD if group is None else group
    if hasattr(group, "get_group"):
        if group.ndim != 1:
            raise Error(f"group is a mesh of {group.ndim} axes", "group",
                        "give one of its axes, such as mesh[\"tp\"]")
        outside = group.get_coordinate() is None
        group = dist.GroupMember.NON_GROUP_MEMBER if outside else group.get_group()
    ranks_of(group)
    return group


@constant
def _options(mode: Any, tuning: Any, tuning_seconds: Any, exchange: Any, exact_sum: Any) -> str:
    exchange = _arguments.choice(exchange, _WAYS, "exchange")
    exact_sum = _arguments.flag(exact_sum, "exact_sum")
    checked = options("cpu", mode, tuning, tuning_seconds, 0)
    return ops.Options(checked.mode, checked.tuning, checked.tuning_seconds, exchange,
                       exact_sum).text()


@constant
def _names(epilogue: str) -> str:
    """The names of an epilogue's operands."""
    return " ".join(roles(epilogue))


@constant
def _roles(epilogue: str) -> str:
    """The roles of an epilogue's operands, in the order of their names."""
    return " ".join(roles(epilogue).values())


@constant
def _out_dtype(dtype: torch.dtype, out_dtype: Any) -> str:
    return result_dtype(out_dtype, None, _dtype_name(dtype, "a"))


def _dtype_name(dtype: torch.dtype, where: str) -> str:
    """Attacca's name of a dtype.

    Raises:
        Error: It has none.
    """
    if dtype not in _DTYPES:
        raise Error(f"dtype {dtype} is not supported", where, f"convert it to one of {SUPPORTED}")
    return _DTYPES[dtype]


@constant
def _graph(dtype: torch.dtype, layout: str, epilogue: str, names: str,
           dtypes: tuple[torch.dtype, ...], out_dtype: str) -> str:
    """The names of the inputs in order, a newline, and the graph as an op's argument."""
    operands = tuple([(name, _dtype_name(each, name))
                      for name, each in zip(names.split(), dtypes)])
    graph, order = graph_of(_DTYPES[dtype], layout, epilogue, operands, out_dtype)
    return " ".join(order) + "\n" + written(graph)


_SUM = re.compile(r'(?<![".\w])acc(?!["\w])')  # in the text of what follows it
_SHAPES = {"row": "[N]", "col": "[M, 1]", "full": "[M, N]", "scalar": "[]"}
_SUMMED_IN = {"f16": "f32", "bf16": "f32", "f8e4m3": "f32", "f8e5m2": "f32"}


@constant
def _tail(after: str, ranks: int, dtype: str, names: str, dtypes: tuple[torch.dtype, ...]) -> str:
    """The graph of the ranks' sum and what is computed of it, as an op's argument. With 0 ranks,
    the sum is the input; the argument is empty if nothing is computed of it. All names are
    quoted."""
    if ranks == 0 and after.strip() == "acc":
        return ""
    types = [f'"part{rank}": {dtype}[M, N]' for rank in range(max(ranks, 1))]
    by_name, declared = dict(zip(names.split(), dtypes)), roles(after)
    types += [f'"operand.{name}": {_dtype_name(each, name)}{_SHAPES[declared[name]]}'
              for name, each in by_name.items()]
    wide = _SUMMED_IN.get(dtype, dtype)
    total = " + ".join(f'cast("part{rank}", {wide})' for rank in range(max(ranks, 1)))
    value = _SUM.sub('"acc"', with_operands(after, lambda role, name, named: f'"operand.{name}"'))
    return written(f'graph tail({", ".join(types)}) {{ "acc" = {total}; '
                   f'return "out" = cast({value}, {dtype}) }}')
