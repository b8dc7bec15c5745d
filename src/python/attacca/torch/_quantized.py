"""``attacca.torch.QuantizedLinear``: a linear layer with weights of 4 or 8 bits."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .. import _arguments
from .._arguments import LONG_NAMES, DType
from .._errors import Error
from .._frameworks import BYTES, Torch
from .._pack import Bits, Packed, Quantized, pack_codes, quantize
from ._layouts import from_awq, from_gptq, on_cpu
from ._ops.quantized import dequantized, quantized_linear

_BUFFERS = ("packed", "codes", "scales", "zeros", "order")
_SCALES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class QuantizedLinear(torch.nn.Module):
    """``torch.nn.Linear`` with weights of 4 or 8 bits.

    :meth:`from_linear`, :meth:`from_gptq` and :meth:`from_awq` make one with weights. A layer that
    is constructed takes its weights from a state_dict, which also says how they are quantised.

    It computes ``x @ w.T + bias`` with ``w = (code - zero point) * scale``, rounded to the dtype of
    x, and rounds the sum once. x may be float16, bfloat16 or float32, with any leading dimensions.
    With ``torch.compile(backend="attacca")`` what follows the product joins its kernel; other
    backends call the layer's own. It has no derivative.

    Weights in groups of 64 values of k, of a larger power of two or of a whole row are one packed
    tensor (docs/packed-weights.md), for which GPUs have kernels. Weights in other groups, such as
    32, are codes with a byte each, which a GPU converts before it multiplies. On the CPU each call
    converts the weights.

    Attributes:
        in_features: K.
        out_features: N.
        packed: The packed tensor; None for other groups.
        codes: The codes of other groups, int8 or uint8 ``[N, K]``.
        scales: Their scales ``[N, groups]``.
        zeros: Their zero points ``[N, groups]``; None: 0.
        order: The feature of x that each code of a row multiplies; None: in order.
        bias: ``[N]``, or None.
    """

    packed: torch.Tensor | None
    codes: torch.Tensor | None
    scales: torch.Tensor | None
    zeros: torch.Tensor | None
    order: torch.Tensor | None
    bias: torch.Tensor | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *,
                 device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        for name in _BUFFERS:
            self.register_buffer(name, None)
        self.packed = torch.empty(0, dtype=torch.uint8, device=device)
        self.register_buffer("bias", torch.zeros(out_features, device=device, dtype=dtype)
                             if bias else None)
        self._form, self._said = "", "no weights"
        self._order_buffers()

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, bits: Bits = 4, group: int | None = 128, *,
                    symmetric: bool = True) -> QuantizedLinear:
        """Quantises a layer, as :func:`attacca.pack`: weights are rounded to nearest.

        Args:
            linear: The layer; its weights are float16, bfloat16 or float32.
            bits: The bits of a code, 4 or 8.
            group: The number of values of k that share a scale, such as 32, 64 or 128; None: all.
            symmetric: False: codes have zero points.

        Returns:
            A layer on the same device. Scales have the dtype of the weights.

        Raises:
            Error: The weights cannot be quantised so, as :func:`attacca.pack` says; a group that
                is not packed does not divide K.
        """
        weight = on_cpu(getattr(linear, "weight", None), "linear.weight")
        made = quantize(weight, bits, group, symmetric, None)
        return cls._of(made, bits, group, linear.bias, linear.weight.device)

    @classmethod
    def from_gptq(cls, qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor,
                  g_idx: torch.Tensor | None = None, bias: torch.Tensor | None = None, *,
                  bits: Bits = 4, zero_offset: int = 1,
                  dtype: DType | None = None) -> QuantizedLinear:
        """Takes over weights in the layout of GPTQ's checkpoints.

        A code of ``bits`` bits of ``qweight`` is at ``[k // c, n]``, where ``c = 32 // bits``, from
        bit ``k % c * bits`` on; one of ``qzeros`` at ``[g, n // c]``, from bit ``n % c * bits`` on.
        Weight ``[n, k]`` is ``(code - zero - zero_offset) * scales[g, n]``, with ``g = g_idx[k]``.

        Args:
            qweight: int32 ``[K / c, N]``.
            qzeros: int32 ``[groups, N / c]``.
            scales: float16, bfloat16 or float32 ``[groups, N]``.
            g_idx: int32 ``[K]``, the group of each value of k, each of a group's size; None: groups
                are in order. Out of order ("act-order"), x's features are gathered first.
            bias: ``[N]``, or None.
            bits: The bits of a code, 4 or 8.
            zero_offset: What is added to a stored zero point: 1 in the format "gptq", 0 in
                "gptq_v2".
            dtype: The dtype to which scales and bias are converted; None: they stay as they are.

        Raises:
            Error: Shapes or dtypes do not fit together; groups differ in size; a zero point is
                outside of 8 bits.
        """
        made, group, order = from_gptq(qweight, qzeros, scales, g_idx, bits, zero_offset)
        return cls._of(made, bits, group, bias, qweight.device, order, dtype)

    @classmethod
    def from_awq(cls, qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor,
                 bias: torch.Tensor | None = None, *,
                 dtype: DType | None = None) -> QuantizedLinear:
        """Takes over weights of 4 bits in the layout of AWQ's checkpoints (version "gemm").

        The codes of columns ``8 i`` to ``8 i + 7`` are in the word ``[k, i]`` of ``qweight``: from
        its lowest bits on those of the columns 0, 2, 4, 6, 1, 3, 5, 7. ``qzeros`` has zero points
        in the same order. Weight ``[n, k]`` is ``(code - zero) * scales[k // group, n]``.

        Args:
            qweight: int32 ``[K, N / 8]``.
            qzeros: int32 ``[groups, N / 8]``.
            scales: float16, bfloat16 or float32 ``[groups, N]``; K / groups values of k share one.
            bias: ``[N]``, or None.
            dtype: The dtype to which scales and bias are converted; None: they stay as they are.

        Raises:
            Error: Shapes or dtypes do not fit together.
        """
        made, group = from_awq(qweight, qzeros, scales)
        return cls._of(made, 4, group, bias, qweight.device, None, dtype)

    @classmethod
    def _of(cls, made: Quantized, bits: int, group: int | None, bias: torch.Tensor | None,
            device: Any, order: torch.Tensor | None = None,
            dtype: DType | None = None) -> QuantizedLinear:
        """A layer of codes on the CPU."""
        n, k = made.codes.shape
        if bias is not None and tuple(on_cpu(bias, "bias").shape) != (n,):
            raise Error(f"bias has shape {tuple(bias.shape)}", "bias", f"give ({n},)")
        to = None if dtype is None else getattr(torch, LONG_NAMES[_arguments.dtype(dtype, "dtype")])
        if to is not None:
            made = made._replace(scales=made.scales.to(to))
        self = cls(k, n, bias=False, device=device)
        if group is None or group >= 64 and group & (group - 1) == 0:
            high = made.zeros is not None and bits == 4 and int(made.zeros.max()) > 15
            self.packed = pack_codes(made, 8 if high else bits, group).data.to(device)
        elif k % group:
            raise Error(f"groups of {group} for K={k}", "group",
                        "give a group that divides K, or 64, 128 or a larger power of two")
        else:
            self.packed = None
            self.codes, self.scales = made.codes.to(device), made.scales.to(device)
            self.zeros = None if made.zeros is None else made.zeros.to(device)
        self.order = None if order is None else order.to(device)
        self.bias = None if bias is None else bias.detach().clone().to(dtype=to)
        self._order_buffers()
        self._describe()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Computes the layer.

        Args:
            x: ``[..., K]``, float16, bfloat16, float32 or, on the CPU, float64.

        Returns:
            ``[..., N]``, of x's dtype.

        Raises:
            Error: x is no tensor, has another last dimension or dtype, is on another device or
                requires a gradient; the layer has no weights yet.
        """
        if not isinstance(x, torch.Tensor):
            raise Error(f"x is {_arguments.shown(x)}", "x", "give a torch.Tensor")
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise Error(f"x has shape {tuple(x.shape)}", "x",
                        f"its last dimension is {self.in_features}")
        if not self._form:
            raise Error("the layer has no weights", "self", "load a state_dict, or use from_linear")
        if self.order is not None:
            x = x.index_select(-1, self.order)
        rows = x.reshape(-1, self.in_features)
        y: torch.Tensor = quantized_linear(rows, self._weights(), self.bias, self._form,
                                           self.out_features)
        return y.view(*x.shape[:-1], self.out_features)

    def dequantized(self, dtype: DType = torch.float32) -> torch.Tensor:
        """The weights ``[N, K]``, in the order of x's features.

        Args:
            dtype: A float dtype, to which they are rounded.

        Raises:
            Error: The layer has no weights yet.
        """
        if not self._form:
            raise Error("the layer has no weights", "self", "load a state_dict, or use from_linear")
        weights = dequantized(self._weights(), self._form, _arguments.dtype(dtype, "dtype"))
        if self.order is None:
            return weights
        return torch.empty_like(weights).index_copy_(1, self.order, weights)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        said = self._said
        if self.scales is not None:  # whose dtype .half() changes
            said += f", scales={Torch.names()[self.scales.dtype]}"
        return (f"in_features={self.in_features}, out_features={self.out_features}, {said}, "
                f"bias={self.bias is not None}")

    def _weights(self) -> list[torch.Tensor]:
        return [each for each in (self.packed, self.codes, self.scales, self.zeros)
                if each is not None]

    def _order_buffers(self) -> None:
        """Moves buffers that are None behind the others, where torch.export expects them."""
        self._buffers = dict(sorted(self._buffers.items(), key=lambda buffer: buffer[1] is None))

    def _describe(self) -> None:
        """Reads from the weights how they are quantised.

        Raises:
            Error: They are not weights of such a layer.
        """
        self._form, self._said = _described({name: getattr(self, name) for name in _BUFFERS},
                                            (self.out_features, self.in_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: Any,
                              strict: bool, missing_keys: list[str], unexpected_keys: list[str],
                              error_msgs: list[str]) -> None:
        """Gives the buffers the state's shapes and dtypes, which say how weights are quantised,
        before they are filled. Of a state that is none of such a layer, nothing is loaded."""
        given = {name: state_dict.get(prefix + name) for name in _BUFFERS}
        if given["packed"] is not None or given["codes"] is not None:
            try:
                if not any(each is not None and each.is_meta for each in given.values()):
                    self._form, self._said = _described(given,
                                                        (self.out_features, self.in_features))
            except Error as error:
                error_msgs.append(f"{prefix}{error.where or 'packed'}: {error}")
                return
            device = self._weights()[0].device
            for name, tensor in given.items():
                setattr(self, name,
                        None if tensor is None else torch.empty_like(tensor, device=device))
            self._order_buffers()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)


def _described(given: Mapping[str, torch.Tensor | None], shape: tuple[int, int]) -> tuple[str, str]:
    """The form of the weights among a layer's buffers, and what ``print`` shows of them.

    Raises:
        Error: They are not weights of such a layer.
    """
    packed, codes, scales, zeros, order = (given[name] for name in _BUFFERS)
    if order is not None and not _is_permutation(order, shape[1]):
        raise Error("order does not name each feature once", "order",
                    f"give the numbers 0 to {shape[1] - 1} in some order, int32 or int64")
    if packed is None:
        return _plain_form(codes, scales, zeros, shape)
    if codes is not None or scales is not None or zeros is not None:
        raise Error("weights both packed and as codes", "packed", "give one of them")
    return _packed_form(packed, shape)


def _is_permutation(order: torch.Tensor, count: int) -> bool:
    return (order.dtype in (torch.int32, torch.int64) and tuple(order.shape) == (count,)
            and bool((order.sort().values.cpu() == torch.arange(count)).all()))


def _packed_form(data: torch.Tensor, shape: tuple[int, int]) -> tuple[str, str]:
    packed = Packed.of(data.detach().cpu())
    if packed.shape != shape:
        raise Error(f"packed weights of shape {packed.shape}", "packed", f"{shape} is wanted")
    said = f"bits={packed.bits}, group={packed.group}, zeros={packed.zeros}, scales={packed.scales}"
    return packed.text("w0").replace("dtype=f32", "dtype=xdtype"), said


def _plain_form(codes: torch.Tensor | None, scales: torch.Tensor | None,
                zeros: torch.Tensor | None, shape: tuple[int, int]) -> tuple[str, str]:
    if codes is None or tuple(codes.shape) != shape or codes.dtype not in (torch.int8, torch.uint8):
        raise Error("these are no codes" if codes is None else
                    f"codes of {codes.dtype} of shape {tuple(codes.shape)}", "codes",
                    f"give int8 or uint8 of shape {shape}")
    if scales is None:
        raise Error("codes without scales", "scales", "give their scales")
    n, k = shape
    groups = scales.shape[-1] if scales.dim() == 2 else 0
    if tuple(scales.shape) != (n, groups) or groups == 0 or k % groups \
            or scales.dtype not in _SCALES:
        raise Error(f"scales of {scales.dtype} of shape {tuple(scales.shape)}", "scales",
                    f"give floats ({n}, groups), with groups that divide {k}")
    if zeros is not None and (zeros.shape != scales.shape or zeros.dtype != codes.dtype):
        raise Error(f"zeros of {zeros.dtype} of shape {tuple(zeros.shape)}", "zeros",
                    f"give {codes.dtype} of the scales' shape")
    code = f"cast(reshape(w0, [{n}, {groups}, {k // groups}]), f32)"
    if zeros is not None:
        code = f"({code} - cast(reshape(w2, [{n}, {groups}, 1]), f32))"
    scaled = f"{code} * cast(reshape(w1, [{n}, {groups}, 1]), f32)"
    said = (f"bits={8 * BYTES[Torch.names()[codes.dtype]]}, group={k // groups}, "
            f"zeros={zeros is not None}")
    return f"cast(reshape({scaled}, [{n}, {k}]), xdtype)", said
