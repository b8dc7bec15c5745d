"""Attacca: a matrix product and what follows it as one kernel.

    import attacca
    y = attacca.matmul(x, w.T, "silu(acc + row(bias)) * full(res)", bias=bias, res=res)

Tensors may be of numpy, torch, cupy or anything else that speaks DLPack; nothing is copied, and
work goes to the framework's current stream. ``attacca.torch`` has ``torch.compile``'s backend.
"""
from . import _core
from ._compile import compile, explain, load
from ._errors import Error
from ._explain import Explanation
from ._layout import Tensor
from ._matmul import matmul
from ._plan import Decision, Instance, Plan
from ._trace.fused import Fused, fuse
from ._tune import Tuned, tune

# torch.compile runs these as they are: what they do is nothing to trace.
for _function in (Fused.plan, compile, explain, fuse, load, tune):
    _function._torchdynamo_disable = True  # type: ignore[attr-defined]

__version__ = _core.version()

__all__ = ["Decision", "Error", "Explanation", "Fused", "Instance", "Plan", "Tensor", "Tuned", "compile",
           "explain", "fuse", "load", "matmul", "tune"]
