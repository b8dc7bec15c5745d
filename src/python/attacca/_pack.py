"""``attacca.pack``: quantised weights as the one tensor that a graph's ``unpack`` reads."""
from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal, NamedTuple

from . import _arguments, _core, _frameworks
from ._arguments import DType
from ._compile import compile_plan
from ._errors import Error
from ._frameworks import BYTES, View
from ._plan import Plan

Bits = Literal[4, 8]
_FLOATS, _CODES = ("f64", "f32", "f16", "bf16"), ("s8", "u8", "f8e4m3")
_SCALES = ("f32", "f16", "bf16", "u8")
# Formats of memoryview, by bytes.
_UNSIGNED: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Packed(NamedTuple):
    """Packed weights, and how they are quantised; :func:`attacca.pack` returns it.

    Attributes:
        data: The packed tensor, of bytes, ``[bytes]``. It contains all that the other attributes
            say.
        shape: The weights' shape, ``(N, K)``.
        weights: The dtype of the codes, "s8", "u8" or "f8e4m3".
        bits: The bits of a code, 4 or 8.
        group: The number of values of k that share a scale; None: one scale a row.
        scales: The dtype of the scales, "f32", "f16", "bf16" or "u8".
        zeros: Whether there are zero points.
        rows: Of floats that :func:`pack` gave scales of "u8": what each row is still to be
            multiplied by, float32 ``[N]``; else None.
    """

    data: Any
    shape: tuple[int, int]
    weights: str
    bits: int
    group: int | None
    scales: str
    zeros: bool
    rows: Any = None

    def text(self, name: str, dtype: DType | None = None) -> str:
        """The expression with which a graph in the text form unpacks the weights, to ``[N, K]``.

        Args:
            name: The input that is given :attr:`data`; its type is ``u8[bytes]``.
            dtype: The dtype to which the weights are rounded: that of the activations, for kernels
                that multiply by packed weights. None: f32; s8 for scales of "u8", whose weights
                are whole numbers.

        Raises:
            Error: The name is not a text, or the dtype is unknown.
        """
        if dtype is None:
            dtype = "s8" if self.scales == "u8" else "f32"
        keywords = [f"weights={self.weights}"]
        keywords += [f"bits={self.bits}"] if self.bits != 8 else []
        keywords += [f"group={self.group}"] if self.group is not None else []
        keywords += [f"scales={self.scales}"] + (["zeros=true"] if self.zeros else [])
        return (f"unpack({_named(_arguments.text(name, 'name'))}, [{self.shape[0]}, "
                f"{self.shape[1]}], "
                f"{', '.join(keywords)}, dtype={_arguments.dtype(dtype, 'dtype')})")

    def __eq__(self, other: object) -> bool:
        """Whether both are described alike and have the same bytes. Those on a GPU are copied to
        the CPU for that. Tensors whose bytes cannot be read, such as those on torch's meta device,
        are equal to themselves alone."""
        return (isinstance(other, Packed) and self[1:7] == other[1:7]
                and _are_equal(self.data, other.data) and _are_equal(self.rows, other.rows))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[1:7])

    @classmethod
    def of(cls, data: Any) -> Packed:
        """Describes a packed tensor, all of which is verified.

        Args:
            data: The tensor, ``uint8[bytes]``, contiguous and on the CPU.

        Raises:
            Error: It is not a packed tensor, is damaged or truncated, or is of another version.
        """
        view = _on_cpu(data, "data")
        if view.dtype != "u8" or len(view.shape) != 1 or view.strides != (1,) and view.shape[0] > 1:
            raise Error(f"data is {view.dtype} of shape {view.shape}", "data",
                        "give the contiguous bytes of a packed tensor")
        n, k, weights, bits, zeros, group, scales = _core.describe_weights(view.address,
                                                                           view.shape[0])
        return cls(data, (n, k), weights, bits, group or None, scales, zeros)


class Quantized(NamedTuple):
    """Weights as codes, one in each byte, with scales and optional zero points."""

    codes: Any  # s8, u8 or f8e4m3 [N, K]
    scales: Any  # [N, groups]
    zeros: Any = None  # of the codes' dtype [N, groups]


def pack(weights: Any, scales: Any = None, zeros: Any = None, *, bits: Bits = 8,
         group: int | None = None, symmetric: bool = True,
         scale_dtype: DType | None = None) -> Packed:
    """Packs weights for products with packed weights (docs/packed-weights.md).

    Weights that are floats are quantised: each group's scale is chosen so that its largest weight
    is its largest code, and weights are rounded to the nearest code. Weights that are quantised
    already are given as codes with their scales. Weight ``[n, k]`` is ``(code - zero point) *
    scale``.

    Args:
        weights: Weights ``[N, K]``, as ``torch.nn.Linear`` has them: float32, float16, bfloat16 or
            float64. With ``scales``: codes of int8 or uint8, each in a byte, also those of 4 bits;
            or weights of float8_e4m3fn. Tensors on the CPU, with any strides.
        scales: For codes, their scales ``[N, groups]``, or ``[N]`` for one group, of float32,
            float16 or bfloat16.
        zeros: For codes of int8 or uint8, their zero points, of the codes' dtype and the scales'
            shape. None: 0.
        bits: The bits of a code, 8 or 4. With 4, codes are -8 to 7 (int8) or 0 to 15 (uint8), and
            K is even.
        group: The number of values of k that share a scale: 64, 128 or a larger power of two. The
            last group of a row may be shorter. None: one scale a row.
        symmetric: For floats: True: int8 codes without zero points. False: uint8 codes with zero
            points, for weights whose smallest and largest values differ in magnitude.
        scale_dtype: The dtype of the packed scales, to which they are rounded. None: that of
            ``scales``, or of the weights if they have 16 bits, else float32. Kernels take float32
            and the dtype of the activations. uint8, with 4 bits and groups of 128 or more: the
            packed weights are whole numbers of int8, for products with activations of int8; for
            floats, results are multiplied by :attr:`Packed.rows`.

    Returns:
        A :class:`Packed`, whose ``data`` is a tensor of the weights' framework on the CPU; it may
        be moved to a GPU.

    Raises:
        Error: A shape or dtype is none of these; codes or zero points are outside of ``bits``; no
            packed tensor has such groups; weights or scales are not finite, or too large for
            ``scale_dtype``; a tensor is not on the CPU.
    """
    if scales is None and zeros is not None:
        raise Error("zeros without scales", "zeros", "give the codes' scales")
    if scales is None:
        symmetric = _arguments.flag(symmetric, "symmetric")
        if scale_dtype is not None and _arguments.dtype(scale_dtype, "scale_dtype") == "u8":
            return _pack_whole(weights, bits, group, symmetric)
        made = quantize(weights, bits, group, symmetric, scale_dtype)
        return pack_codes(made, bits, group)
    if not _arguments.flag(symmetric, "symmetric"):
        raise Error("symmetric=False of codes, which have zero points of their own", "symmetric",
                    "leave it out")
    given = Quantized(weights, scales, zeros)
    return pack_codes(given, bits, group, scale_dtype)


def quantize(weights: Any, bits: int, group: int | None, symmetric: bool,
             scale_dtype: Any) -> Quantized:
    """Rounds floats ``[N, K]`` to codes, as :func:`pack`; a group may have any size.

    Raises:
        Error: As :func:`pack`.
    """
    view = _on_cpu(weights, "weights")
    _check_matrix(view, _FLOATS, "weights", "give floats; codes are given with their scales")
    check_bits(bits)
    dtype = _scale_dtype(scale_dtype, view.dtype if view.dtype in ("f16", "bf16") else "f32")
    n, k = view.shape
    text = _quantizing(view.dtype, n, k, _group(group, k), bits,
                       _arguments.flag(symmetric, "symmetric"), dtype)
    *made, top = _plan(text)(weights)
    if not math.isfinite(float(top)):
        wider = "" if dtype == "f32" else ", or give scale_dtype=\"f32\""
        raise Error("the weights are not finite, or their range or a scale is too large for "
                    + dtype, "weights", "fix the weights" + wider)
    return Quantized(*made)


def pack_codes(given: Quantized, bits: int, group: int | None,
               scale_dtype: Any = None) -> Packed:
    """Packs codes, as :func:`pack`.

    Raises:
        Error: As :func:`pack`.
    """
    codes, scales = _on_cpu(given.codes, "weights"), _on_cpu(given.scales, "scales")
    zeros = None if given.zeros is None else _on_cpu(given.zeros, "zeros")
    _check_matrix(codes, _CODES, "weights", "give floats alone, or codes with their scales")
    check_bits(bits)
    n, k = codes.shape
    width = _group(group, k)
    groups = -(-k // width)
    if bits == 4 and k % 2:
        raise Error(f"codes of 4 bits with K={k}", "weights", "K must be even")
    for name, view in (("scales", scales), ("zeros", zeros)):
        if view is not None and view.shape != (n, groups) and not (groups == 1
                                                                   and view.shape == (n,)):
            raise Error(f"{name} has shape {view.shape}, {(n, groups)} is wanted", name,
                        f"one for each row and each group of {width} values of k")
    if scales.dtype not in _SCALES:
        raise Error(f"scales of {scales.dtype}", "scales", f"convert them to one of {_SCALES}")
    if zeros is not None and zeros.dtype != codes.dtype:
        raise Error(f"zeros of {zeros.dtype} for codes of {codes.dtype}", "zeros",
                    "convert them to the codes' dtype")
    dtype = _scale_dtype(scale_dtype, scales.dtype)
    text = _arranging(codes, scales, zeros, groups, bits, dtype)
    *made, least_scale, largest_scale, stored = _plan(text)(*[each for each in given
                                                              if each is not None])
    _check_scales(float(least_scale), float(largest_scale), float(stored), dtype)
    ranged = [("weights", "codes")] + ([("zeros", "zero points")] if zeros is not None else [])
    for where, what in reversed(ranged if bits == 4 else []):
        high, low = int(made.pop()), int(made.pop())
        least = -8 if codes.dtype == "s8" else 0
        if low < least or high > least + 15:
            raise Error(f"{what} from {low} to {high}", where,
                        f"those of 4 bits are {least} to {least + 15}; give bits=8")
    views = [_frameworks.of(tensor).view(tensor, "weights") for tensor in made]
    data = _core.pack_weights(n, k, codes.dtype, bits, zeros is not None, group or 0, dtype,
                              views[0].address, views[1].address,
                              views[2].address if zeros is not None else 0)
    result = _frameworks.of(given.codes).empty((len(data),), "u8", codes)
    ctypes.memmove(_frameworks.of(result).view(result, "packed").address, data, len(data))
    return Packed(result, (n, k), codes.dtype, bits, group, dtype, zeros is not None)


def _pack_whole(weights: Any, bits: int, group: int | None, symmetric: bool) -> Packed:
    view = _on_cpu(weights, "weights")
    _check_matrix(view, _FLOATS, "weights", "give floats; codes are given with their scales")
    if bits != 4 or not symmetric:
        raise Error("scales of u8 for floats with 8 bits or zero points", "scale_dtype",
                    "give bits=4, and leave out symmetric")
    n, k = view.shape
    codes, scales, rows, top = _plan(_quantizing_whole(view.dtype, n, k, _group(group, k)))(weights)
    if not math.isfinite(float(top)):
        raise Error("the weights are not finite", "weights", "fix the weights")
    return pack_codes(Quantized(codes, scales), bits, group)._replace(rows=rows)


# ---- Arguments


def _on_cpu(tensor: Any, where: str) -> View:
    view = _frameworks.of(tensor).view(tensor, where)
    if view.device != "cpu":
        raise Error(f"{where} is on {view.device}", where,
                    "move it to the CPU; the packed tensor may go to a GPU")
    return view


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two tensors of one axis, either of which may be None, have the same bytes."""
    if one is other:
        return True
    if one is None or other is None:
        return False
    first, second = _readable(one), _readable(other)
    return (first is not None and second is not None
            and _elements(first) == _elements(second))


def _readable(tensor: Any) -> View | None:
    """The memory of a tensor; that of one on a GPU is copied to the CPU. None: it has none that can
    be read."""
    try:
        view = _frameworks.of(tensor).view(tensor, "packed")
        if view.device == "cpu":
            return view
        return _on_cpu(tensor.cpu() if hasattr(tensor, "cpu") else tensor.get(), "packed")
    except Error:
        return None


def _elements(view: View) -> memoryview:
    """The elements of a tensor of one axis, read as unsigned integers, while the view exists."""
    (count,), (stride,), size = view.shape, view.strides, BYTES[view.dtype]
    if count == 0:
        return memoryview(b"")
    if stride == 0:  # one element, which all are
        return memoryview(ctypes.string_at(view.address, size) * count).cast(_UNSIGNED[size])
    memory = (ctypes.c_char * (((count - 1) * stride + 1) * size)).from_address(view.address)
    return memoryview(memory).cast("B").cast(_UNSIGNED[size])[::stride]


def _check_matrix(view: View, dtypes: tuple[str, ...], where: str, fix: str) -> None:
    if view.dtype not in dtypes:
        raise Error(f"{where} of {view.dtype}", where, fix)
    if len(view.shape) != 2 or 0 in view.shape:
        raise Error(f"{where} has shape {view.shape}", where, "give [N, K]")


def _check_scales(least: float, largest: float, stored: float, dtype: str) -> None:
    """Checks the smallest and the largest scale, and the largest one as it is stored."""
    if not (math.isfinite(least) and math.isfinite(largest)):
        raise Error("a scale is not finite", "scales", "fix the scales")
    if dtype == "u8" and (round(least) < 0 or round(largest) > 255):
        raise Error(f"scales from {least} to {largest}", "scales",
                    "those of u8 are whole numbers up to 255")
    if not math.isfinite(stored):
        raise Error(f"a scale of {max(abs(least), abs(largest))} is too large for {dtype}",
                    "scales", "give scale_dtype=\"f32\"")


def check_bits(bits: Any) -> None:
    """Refuses numbers of bits that no code has."""
    if not isinstance(bits, Integral) or bits not in (4, 8):
        raise Error(f"bits is {_arguments.shown(bits)}", "bits", "give 4 or 8")


def _group(group: Any, k: int) -> int:
    """The number of values of k that share a scale."""
    if group is None:
        return k
    size = _arguments.size(group, "group")
    if size == 0:
        raise Error("group is 0", "group", "give None for one scale a row")
    return size


def _scale_dtype(given: Any, default: str) -> str:
    dtype = default if given is None else _arguments.dtype(given, "scale_dtype")
    if dtype not in _SCALES:
        raise Error(f"scales of {dtype}", "scale_dtype", f"one of {', '.join(_SCALES)}")
    return dtype


# ---- The graphs that compute


# Names that the text form takes without quotes (docs/text-format.md).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED = frozenset(("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "s64", "s32", "s8", "u8",
                       "bool", "return", "true", "false", "inf", "nan"))


def _named(name: str) -> str:
    """A name as the text form has it."""
    if _NAME.fullmatch(name) and name not in _RESERVED:
        return name
    escaped = re.sub(r'["\\\\]', r"\\\g<0>", name)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", escaped) + '"'


@lru_cache(maxsize=64)
def _plan(text: str) -> Plan:
    return compile_plan(text, "cpu", "fp32", "known", 0, 0, None)


def _pieces(k: int, group: int) -> Iterator[tuple[int, int, int]]:
    """Where groups of one size begin in a row, their number, and their size."""
    whole = k // group
    if whole:
        yield 0, whole, group
    if k % group:
        yield whole * group, 1, k % group


# The distance of the smallest numbers of a dtype: quotients of f32 are exact enough.
_SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-133}


def _quantizing(floats: str, n: int, k: int, group: int, bits: int, symmetric: bool,
                dtype: str) -> str:
    """A graph of weights: their codes, scales, zero points if there are any, and the largest
    scale."""
    most = 2**(bits - 1) - 1 if symmetric else 2**bits - 1
    lines, made = [], ["codes", "scales"] + ([] if symmetric else ["zeros"])
    pieces = list(_pieces(k, group))
    for i, (begin, count, size) in enumerate(pieces):
        lines.append(f"x{i} = reshape(cast(w[:, {begin}:{begin + count * size}], f32), "
                     f"[{n}, {count}, {size}])")
        if symmetric:
            lines.append(f"range{i} = amax(x{i}, axes=[2], keepdims=true)")
        else:
            lines += [f"low{i} = min(reduce_min(x{i}, axes=[2], keepdims=true), 0)",
                      f"range{i} = max(reduce_max(x{i}, axes=[2], keepdims=true), 0) - low{i}"]
        # The codes are those of the scale as it is stored. One of 0 is of zeros alone: where the
        # nearest number is so far below that codes end before the weights, it is the next one.
        lines += [f"near{i} = cast(range{i} / {most}, {dtype})",
                  f"scale{i} = where(cast(near{i}, f32) * {most + 0.5} < range{i}, "
                  f"cast(range{i} / {most} + {_SMALLEST.get(dtype, 0.0)!r}, {dtype}), near{i})",
                  f"step{i} = where(scale{i} == 0, 1, cast(scale{i}, f32))"]
        if symmetric:
            code = f"clamp(round(x{i} / step{i}), min={-most - 1}, max={most})"
        else:
            lines.append(f"zero{i} = clamp(round(-low{i} / step{i}), min=0, max={most})")
            lines.append(f"zeros{i} = reshape(cast(zero{i}, u8), [{n}, {count}])")
            code = f"clamp(round(x{i} / step{i}) + zero{i}, min=0, max={most})"
        lines += [f"codes{i} = reshape(cast({code}, {'s8' if symmetric else 'u8'}), "
                  f"[{n}, {count * size}])",
                  f"scales{i} = reshape(scale{i}, [{n}, {count}])"]
    for name in made:
        parts = ", ".join(f"{name}{i}" for i in range(len(pieces)))
        lines.append(f"{name} = concat({parts}, axis=1)" if len(pieces) > 1
                     else f"{name} = {parts}")
    lines.append(f"return {', '.join(made)}, amax(cast(scales, f32))")
    return f"graph quantize(w: {floats}[{n}, {k}]) {{ {'; '.join(lines)} }}"


def _quantizing_whole(floats: str, n: int, k: int, group: int) -> str:
    """A graph of weights: their codes of 4 bits, scales of u8, the rows' factors and the largest of
    these. A row is rounded to whole numbers up to 119, which is 7, the largest code, times 17."""
    lines = ["x = cast(w, f32)", "row = amax(x, axes=[1], keepdims=true) / 119",
             "whole = round(x / where(row == 0, 1, row))"]
    pieces = list(_pieces(k, group))
    for i, (begin, count, size) in enumerate(pieces):
        lines += [f"x{i} = reshape(whole[:, {begin}:{begin + count * size}], "
                  f"[{n}, {count}, {size}])",
                  f"step{i} = max(ceil(amax(x{i}, axes=[2], keepdims=true) / 7), 1)",
                  f"codes{i} = reshape(cast(round(x{i} / step{i}), s8), [{n}, {count * size}])",
                  f"scales{i} = reshape(cast(step{i}, u8), [{n}, {count}])"]
    for name in ("codes", "scales"):
        parts = ", ".join(f"{name}{i}" for i in range(len(pieces)))
        lines.append(f"{name} = concat({parts}, axis=1)" if len(pieces) > 1
                     else f"{name} = {parts}")
    lines.append(f"return codes, scales, reshape(row, [{n}]), amax(row)")
    return f"graph quantize(w: {floats}[{n}, {k}]) {{ {'; '.join(lines)} }}"


def _arranging(codes: View, scales: View, zeros: View | None, groups: int, bits: int,
               dtype: str) -> str:
    """A graph of codes, scales and zero points: the codes as bytes row by row, the scales in
    their dtype, the zero points; of 4 bits also the smallest and the largest code and zero point;
    the smallest and the largest scale, and the largest magnitude of one as it is stored."""
    n, k = codes.shape
    given = [("codes", codes), ("scales", scales)] + ([("zeros", zeros)] if zeros else [])
    inputs = ", ".join(f"{name}: {view.dtype}[{', '.join(map(str, view.shape))}]"
                       for name, view in given)
    lines = [f"wide = reshape(cast(codes, s32), [{n}, {k // 2}, 2])",
             "field = where(wide < 0, wide + 16, wide)",
             f"bytes = reshape(cast(field[:, :, 0:1] + field[:, :, 1:2] * 16, u8), [{n}, {k // 2}])"
             ] if bits == 4 else []
    exact = dtype != "u8" or scales.dtype == "u8"
    lines += ["numbers = cast(scales, f32)",
              f"stored = cast({'scales' if exact else 'round(numbers)'}, {dtype})"]
    results = ["bytes" if bits == 4 else "codes", f"reshape(stored, [{n}, {groups}])"]
    results += [f"reshape(zeros, [{n}, {groups}])"] if zeros else []
    results += ["reduce_min(wide)", "reduce_max(wide)"] if bits == 4 else []
    results += ["reduce_min(cast(zeros, s32))", "reduce_max(cast(zeros, s32))"] \
        if bits == 4 and zeros else []
    results += ["reduce_min(numbers)", "reduce_max(numbers)", "amax(cast(stored, f32))"]
    lines.append(f"return {', '.join(results)}")
    return f"graph arrange({inputs}) {{ {'; '.join(lines)} }}"
