"""Reads tensors of every framework as an address and a layout, and uses the framework's allocator
and stream.

Each framework is a class with the functions of :class:`Framework`; :func:`of` returns the class for
a tensor. No framework is imported here: that there is a tensor of it shows that it was imported.
The exception is numpy, in which results are returned if no other framework is known.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from . import _core, _dispatch
from ._arguments import LONG_NAMES, SHORT_NAMES
from ._errors import Error

# dtype: DLPack's (code, bits).
_DLPACK = {
    "f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "f8e4m3": (10, 8),
    "f8e5m2": (12, 8), "s8": (0, 8), "u8": (1, 8), "s32": (0, 32), "s64": (0, 64), "bool": (6, 8),
}
_FROM_DLPACK = {code: name for name, code in _DLPACK.items()}

SUPPORTED = ", ".join(LONG_NAMES.values())
BYTES = {name: bits // 8 for name, (_, bits) in _DLPACK.items()}


class View(NamedTuple):
    """A tensor's memory. ``strides`` in elements; ``device`` is "cpu" or "cuda:0"."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    owner: Any


class Allocation(NamedTuple):
    """How a tensor is made: by ``function(*layout, dtype)``, or, if ``device`` is not None,
    ``function(*layout, dtype=dtype, device=device)``. ``layout`` is its shape, and its strides if
    the function takes them."""

    function: Callable[..., Any]
    layout: tuple[tuple[int, ...], ...]
    dtype: Any
    device: Any


class Framework(Protocol):
    """The functions of a framework's class."""

    @staticmethod
    def view(tensor: Any, where: str, writable: bool = False) -> View:
        """A tensor's memory and layout.

        Args:
            tensor: The tensor.
            where: Its name in error messages.
            writable: Whether it will be written.

        Raises:
            Error: The tensor cannot be used; it is read-only and ``writable`` is set.
        """

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, like: View) -> Any:
        """A new tensor on the device of ``like``, and of its type where the framework has
        several."""

    @staticmethod
    def wrote(tensor: Any) -> None:
        """Tells the framework that a tensor's elements were changed."""

    @staticmethod
    def allocation(shape: Sequence[int], dtype: str, like: View) -> Allocation | None:
        """How :meth:`empty` makes a tensor, for :class:`_core.CallCache`; None: that cache does not
        know the framework, and calls with its tensors are not added to it."""

    @staticmethod
    def current_stream() -> Callable[[int], int]:
        """A function that gives the current stream of the GPU with a number.

        Raises:
            Error: The framework has no GPUs.
        """

    @staticmethod
    def workspace(size: int, device: str) -> tuple[int, Any]:
        """The address of ``size`` bytes of new memory on a GPU, and the object that owns them."""


class _Host:
    """A framework whose tensors are on the CPU."""

    @staticmethod
    def current_stream() -> Callable[[int], int]:
        raise Error("the plan is on a GPU and has no input there", "out",
                    "give out=, a tensor on the GPU")

    @staticmethod
    def workspace(size: int, device: str) -> tuple[int, Any]:
        raise AssertionError("a launch without a stream")


class _Unaware:
    """A framework that does not record which tensors change."""

    @staticmethod
    def wrote(tensor: Any) -> None:
        pass


class _Unknown(_Unaware):
    """A framework whose tensors :class:`_core.CallCache` does not read."""

    @staticmethod
    def allocation(shape: Sequence[int], dtype: str, like: View) -> Allocation | None:
        return None


def _no_dtype(given: Any, where: str) -> Error:
    return Error(f"dtype {given} is not supported", where, f"convert it to one of {SUPPORTED}")


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _strides(array: Any, where: str) -> tuple[int, ...]:
    """The strides in elements of an array that has them in bytes."""
    size, strides = array.itemsize, []
    for extent, stride in zip(array.shape, array.strides):
        if stride % size and extent > 1:
            raise Error(
                f"strides of {array.strides} bytes are not multiples of an element's {size} bytes",
                where,
                        "copy it, as with numpy.ascontiguousarray")
        if stride < 0 and extent > 1:
            raise Error(f"a negative stride, of {stride} bytes", where,
                        "copy it, as with numpy.ascontiguousarray")
        strides.append(stride // size)
    return tuple(strides)


class Numpy(_Host, _Unaware):
    """numpy.ndarray, on the CPU; ml_dtypes provides bfloat16 and float8."""

    @staticmethod
    def view(tensor: Any, where: str, writable: bool = False) -> View:
        dtype = SHORT_NAMES.get(tensor.dtype.name)
        if dtype is None or not tensor.dtype.isnative:
            raise _no_dtype(tensor.dtype, where)
        if hasattr(tensor, "mask"):
            raise Error("a masked array, whose mask is not read", where,
                        "call .filled(value), or pass .data")
        address, read_only = tensor.__array_interface__["data"]
        if writable and read_only:
            raise Error("the array is read-only", where, "give one that can be written")
        return View(address, tensor.shape, _strides(tensor, where), dtype, "cpu", tensor)

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, like: View) -> Any:
        try:
            import numpy
        except ImportError:
            raise Error("numpy, in which results are returned, is not installed", "out",
                        "install it, or give out=, a writable buffer") from None
        name = LONG_NAMES[dtype]
        if not hasattr(numpy, name):
            try:
                import ml_dtypes
            except ImportError:
                raise Error(f"numpy has no {name}", "out",
                            "install ml_dtypes, or give out=") from None
            return numpy.empty(shape, getattr(ml_dtypes, name))
        return numpy.empty(shape, numpy.dtype(name))

    @staticmethod
    def allocation(shape: Sequence[int], dtype: str, like: View) -> Allocation | None:
        numpy = sys.modules["numpy"]
        name = LONG_NAMES[dtype]
        if not hasattr(numpy, name):
            return None
        _core.know_numpy(numpy.ndarray)
        return Allocation(numpy.empty, (tuple(shape),), numpy.dtype(name), None)


class Torch:
    """torch.Tensor on the CPU or a CUDA device."""

    _dtypes: dict[Any, str] = {}
    _known = False  # to _core

    @classmethod
    def names(cls) -> dict[Any, str]:
        """Attacca's names of torch's dtypes."""
        if not cls._dtypes:
            torch = sys.modules["torch"]
            cls._dtypes = {getattr(torch, t): name for name, t in LONG_NAMES.items()
                           if hasattr(torch, t)}
        return cls._dtypes

    @staticmethod
    def view(tensor: Any, where: str, writable: bool = False) -> View:
        torch = sys.modules["torch"]
        dtype = Torch.names().get(tensor.dtype)
        if dtype is None:
            raise _no_dtype(tensor.dtype, where)
        if tensor.is_nested:
            raise Error("a nested tensor", where, "give a tensor of one shape: .to_padded_tensor()")
        if tensor.layout is not torch.strided:
            raise Error(f"a tensor of layout {tensor.layout}", where, "call .to_dense()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise Error("the tensor requires a gradient, which Attacca does not compute", where,
                        "call .detach(), or run under torch.no_grad()")
        if tensor.is_neg():  # as the imaginary part of a conjugate is
            raise Error("a lazily negated tensor", where, "call .resolve_neg()")
        device = tensor.device
        if device.type == "cpu":
            name = "cpu"
        elif device.type == "cuda":
            name = f"cuda:{device.index}"
        else:
            raise Error(f"a tensor on device {device}", where,
                        "move it to the CPU or a CUDA device")
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            address = _dispatch.without_memory(tensor, where)
        return View(address, tuple(tensor.shape), tensor.stride(), dtype, name, tensor)

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, like: View) -> Any:
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, LONG_NAMES[dtype]),
                           device=like.device)

    @staticmethod
    def wrote(tensor: Any) -> None:
        # Without it a derivative would be computed from what was saved and then overwritten.
        sys.modules["torch"].autograd.graph.increment_version(tensor)

    @staticmethod
    def allocation(shape: Sequence[int], dtype: str, like: View) -> Allocation | None:
        torch = sys.modules["torch"]
        if not Torch._known:
            Torch._known = _core.know_torch(
                torch.Tensor, torch.nn.Parameter, torch.Tensor.__dlpack_c_exchange_api__,
                torch.is_grad_enabled, torch.autograd.graph.increment_version,
                _dispatch.watches(torch))
        # Its arguments are read in half the time that torch.empty's take.
        return Allocation(torch.empty_strided, (tuple(shape), dense_strides(shape)),
                          getattr(torch, LONG_NAMES[dtype]), torch.device(like.device))

    @staticmethod
    def current_stream() -> Callable[[int], int]:
        current: Callable[[int], int] = sys.modules["torch"]._C._cuda_getCurrentRawStream
        return current

    @staticmethod
    def workspace(size: int, device: str) -> tuple[int, Any]:
        torch = sys.modules["torch"]
        memory = torch.empty(size, dtype=torch.uint8, device=device)
        return memory.data_ptr(), memory


class Cupy(_Unknown):
    """cupy.ndarray, on the current stream."""

    @staticmethod
    def view(tensor: Any, where: str, writable: bool = False) -> View:
        dtype = SHORT_NAMES.get(tensor.dtype.name)
        if dtype is None:
            raise _no_dtype(tensor.dtype, where)
        return View(tensor.data.ptr, tensor.shape, _strides(tensor, where), dtype,
                    f"cuda:{tensor.device.id}",
                    tensor)

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, like: View) -> Any:
        cupy = sys.modules["cupy"]
        name = LONG_NAMES[dtype]
        if not hasattr(cupy, name):
            raise Error(f"cupy has no {name}", "out", "ask for another out_dtype")
        with cupy.cuda.Device(int(like.device[5:])):
            return cupy.empty(shape, name)

    @staticmethod
    def current_stream() -> Callable[[int], int]:
        cupy = sys.modules["cupy"]

        def current(device: int) -> int:
            with cupy.cuda.Device(device):
                return int(cupy.cuda.get_current_stream().ptr)
        return current

    @staticmethod
    def workspace(size: int, device: str) -> tuple[int, Any]:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(int(device[5:])):
            memory = cupy.cuda.alloc(size)
        return memory.ptr, memory


def _immutable(tensor: Any) -> bool:
    """Whether a tensor is known to be read-only, which many libraries do not say through
    DLPack."""
    if type(tensor).__module__.partition(".")[0] in ("jax", "jaxlib", "tensorflow"):
        return True
    if hasattr(tensor, "__array_namespace__") and not hasattr(tensor, "__setitem__"):
        return True
    try:
        return memoryview(tensor).readonly
    except (TypeError, ValueError, BufferError):
        return False


def _with_strides(tensor: Any) -> Any:
    """A memoryview of a buffer, whose own strides may be absent, as those of ctypes are; of what
    speaks DLPack, the object itself."""
    if hasattr(tensor, "__dlpack__"):
        return tensor
    try:
        return memoryview(tensor)
    except TypeError:
        return tensor


def _device_kind(tensor: Any, where: str) -> int:
    """DLPack's number of the kind of a tensor's device; 1: the CPU."""
    device = getattr(tensor, "__dlpack_device__", None)
    try:
        return 1 if device is None else int(device()[0])
    except Exception as error:  # of another library's code
        raise Error(f"{type(tensor).__name__} is not a tensor: its __dlpack_device__ fails", where,
                    "give one of numpy, torch or any library that supports DLPack") from error


class Dlpack(_Host, _Unknown):
    """Any other tensor with ``__dlpack__`` or the buffer protocol, on the CPU.

    Results are of the input's type if that follows the array API standard, and numpy arrays
    otherwise.
    """

    @staticmethod
    def view(tensor: Any, where: str, writable: bool = False) -> View:
        if isinstance(tensor, type):
            raise Error(f"the class {tensor.__name__} is not a tensor", where,
                        "give an object of it")
        if type(tensor).__module__ == "torch.fx.proxy":
            raise Error("a call that torch.fx.symbolic_trace traces", where,
                        "call it in a function given to torch.fx.wrap, or use torch.export")
        if _device_kind(tensor, where) != 1:
            raise Error(f"a {type(tensor).__name__} on a device whose current stream is unknown",
                        where, "pass torch.from_dlpack(x) or cupy.from_dlpack(x)")
        if writable and _immutable(tensor):
            raise Error(f"{type(tensor).__name__} cannot be written", where,
                        "give an array that can be, or leave out out=")
        try:
            view = (_core.writable_view if writable else _core.view)(_with_strides(tensor))
        except (TypeError, BufferError):
            readable = "a tensor" if not writable else "a writable tensor"
            raise Error(f"{type(tensor).__name__} is not {readable}", where,
                        "give one of numpy, torch or any library that supports DLPack") from None
        if any(stride < 0 and extent > 1 for extent, stride in zip(view.shape, view.strides)):
            raise Error("a negative stride", where, "copy it")
        code, bits, lanes = view.dtype
        dtype = _FROM_DLPACK.get((code, bits)) if lanes == 1 else None
        if dtype is None:
            raise _no_dtype(f"of DLPack code {code}, {bits} bits", where)
        return View(view.address, tuple(view.shape), tuple(view.strides), dtype, "cpu",
                    (view, tensor))

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, like: View) -> Any:
        array = Numpy.empty(shape, dtype, like)
        namespace = getattr(like.owner[1], "__array_namespace__", None)
        return array if namespace is None else namespace().from_dlpack(array)


def of(tensor: Any) -> Framework:
    """The framework of a tensor."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        return Numpy
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return Torch
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return Cupy
    return Dlpack


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of a framework, or speaks DLPack."""
    return of(value) is not Dlpack or hasattr(type(value), "__dlpack__")
