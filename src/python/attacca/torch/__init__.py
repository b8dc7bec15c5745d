"""``torch.compile`` with fused regions; needs PyTorch.

    import attacca.torch
    model = torch.compile(model, backend="attacca")
    ...
    print(attacca.torch.report())

Each region, a matrix product and what follows it, becomes one call of the custom op
``attacca::region``. All other ops go to Inductor unchanged, and so do training graphs, and products
that Inductor overlaps with collectives (``torch._inductor.config._micro_pipeline_tp``).

On a GPU, up to eight products of the same rows with alike epilogues, such as a transformer's query,
key and value, become one call if its plan computes them by one launch. The results' views, and what
else is computed from a product that is stored anyway, are left to Inductor. Such a call is kept if
it is faster than calls of each region and than Inductor's code for all of them, whose products are
launched one by one; otherwise each region is decided by itself. It is not compared with some of its
regions fused and others left. Policy "always" keeps it if one launch computes all. There are no
such calls with ``batch_invariant``, nor without a comparison with Inductor.

A function under ``torch.compile`` or ``torch.export`` may call :func:`attacca.matmul`, plans and
fused functions. These calls become the custom ops ``attacca::matmul`` and ``attacca::plan``. A
fused function is compiled again for each new size, except for sizes that its annotations name by
symbols.

A process that loads an exported or AOTInductor-compiled program with any of these ops must import
this module first, or, for ``attacca::region`` alone, load ``libattacca_torch.so`` (docs/deploy.md).
"""
try:
    import torch as _torch  # noqa: F401
except ImportError:
    from .._errors import MissingModule as _MissingModule

    raise _MissingModule("PyTorch is not installed", "attacca.torch", "pip install torch") from None

from .. import _dispatch as _dispatcher, _together
from .._cluster import models as _cluster_models
from ._backend import Pass, backend, disable, enable, register
from ._models import regions_of as _regions_of
from ._ops import calls as _calls, scaled_groups as _scaled_groups
from ._ops.mxfp4 import mxfp4
from ._options import Options
from ._parallel.functions import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from ._parallel.ranks import ranks_of as _ranks_of
from ._program import Program
from ._quantized import QuantizedLinear
from ._report import NotFusedWarning, report, reset
from ._report_view import Fused, GraphReport, Left, Measuring, Report

_dispatcher.register(_calls)
_together.register_ranks(_ranks_of)
_cluster_models.register_regions(_regions_of)
_scaled_groups.install()
register()

__all__ = ["Fused", "GraphReport", "Left", "Measuring",
           "NotFusedWarning", "Options", "Pass", "Program", "QuantizedLinear",
           "Report", "all_gather_matmul", "backend",
           "disable", "enable", "matmul_all_reduce", "matmul_reduce_scatter", "mxfp4", "register",
           "report", "reset"]
