"""Attacca: a matrix product and what follows it as one kernel.

    import attacca
    y = attacca.matmul(x, w.T, "silu(acc + row(bias)) * full(res)", bias=bias, res=res)

Tensors may be of NumPy, PyTorch, CuPy or any library that supports DLPack. Nothing is copied, and
GPU work goes to the framework's current stream. Bad input raises :class:`Error`. ``attacca.torch``
is the backend for ``torch.compile``.
"""
from . import _core
from ._compile import compile, explain, load
from ._errors import Error
from ._explain import Explanation
from ._grouped import grouped_matmul
from ._layout import Tensor
from ._matmul import matmul
from ._pack import Packed, pack
from ._plan import Decision, Instance, Plan
from ._problems import Tuned
from ._trace.fused import Fused, FusedMethod, fuse
from ._tune import export_choices, import_choices, tune

# torch.compile calls these without tracing them.
for _function in (Fused.plan, FusedMethod.__call__, FusedMethod.plan, compile, explain,
                  export_choices, fuse, import_choices, load, pack, tune):
    # An assignment would not pass mypy, to which functions have no such attribute.
    setattr(_function, "_torchdynamo_disable", True)  # noqa: B010

__version__ = _core.version()

__all__ = ["Decision", "Error", "Explanation", "Fused", "FusedMethod", "Instance", "Packed", "Plan",
           "Tensor", "Tuned", "compile", "explain", "export_choices", "fuse", "grouped_matmul",
           "import_choices", "load", "matmul", "pack", "tune"]
