"""The peers in PyTorch: their operands, formulas and results."""

import math

import torch
import torch.nn.functional as F

import stopwatch
from cases import GATES


class Buffers:
    """Operand sets that together exceed twice the L2: N(0,1), weights N(0,1/K)."""

    def __init__(self, case):
        self.case = case
        m, n, k = case.m, case.n, case.k
        has_residual = case.epilogue == "bias_silu_mul"
        size = 2 * (m * k + n * k + n + m * n * (2 if has_residual else 1))
        self.count = stopwatch.sets_beyond_cache(size)
        torch.manual_seed(20260521)
        self.a = [normal(m, k) for _ in range(self.count)]
        self.w = [normal(n, k, scale=1 / math.sqrt(k)) for _ in range(self.count)]
        self.bias = [normal(n) for _ in range(self.count)]
        self.residual = [normal(m, n) for _ in range(self.count)] if has_residual else None
        self.out = [torch.empty(m, case.columns, device="cuda", dtype=torch.bfloat16)
                    for _ in range(self.count)]
        # What the product alone gives.
        self.product = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
                        for _ in range(self.count)] if case.columns != n else self.out

    def operands(self, i):
        """The arguments of a peer's function, from set i."""
        if self.case.epilogue in GATES:
            return self.a[i], self.w[i]
        some = (self.a[i], self.w[i], self.bias[i])
        return some + (self.residual[i],) if self.residual else some


def normal(*shape, scale=1.0):
    made = torch.empty(shape, device="cuda", dtype=torch.bfloat16).normal_()
    return made if scale == 1.0 else made.mul_(scale)


def bias_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def bias_silu_mul(x, w, b, residual):
    return F.silu(F.linear(x, w, b)) * residual


def swiglu_of(both):
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate) * up


def gpt_oss_of(both):
    gate, up = both[..., ::2].clamp(max=7.0), both[..., 1::2].clamp(min=-7.0, max=7.0)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1.0)


def swiglu(x, w):
    return swiglu_of(F.linear(x, w))


def gpt_oss(x, w):
    return gpt_oss_of(F.linear(x, w))


FORMULAS = {"bias_gelu": bias_gelu, "bias_silu_mul": bias_silu_mul, "swiglu": swiglu,
            "gpt_oss": gpt_oss}


def compiled(formula, mode):
    torch._dynamo.reset()
    return torch.compile(formula, mode=mode, dynamic=False, fullgraph=True)


def peer(name, case, buffers):
    """launch(i) -> output for one peer. Raises NotImplementedError if it cannot do the case."""
    formula = FORMULAS[case.epilogue]
    if name == "bare_us":
        return lambda i: torch.mm(buffers.a[i], buffers.w[i].t(), out=buffers.product[i])
    if name == "cublaslt_us":
        if case.epilogue != "bias_gelu":
            raise NotImplementedError("cuBLASLt has no SiLU epilogue")
        # cuBLASLt's GELU_BIAS epilogue: the tanh form.
        return lambda i: torch._addmm_activation(buffers.bias[i], buffers.a[i], buffers.w[i].t(),
                                                 use_gelu=True)
    if name == "inductor_us":
        formula = compiled(formula, "default")
    elif name == "max_autotune_us":
        formula = compiled(formula, "max-autotune-no-cudagraphs")
    return lambda i: formula(*buffers.operands(i))


def compare(got, want):
    """Raises if a result differs from the exact one by more than a few roundings to bf16."""
    worst = ((got.to(want.dtype) - want).abs() / (want.abs() + 1)).max().item()
    if not worst < 0.03:
        raise ArithmeticError(f"wrong result: off by {worst:.3g}")


def check(case, buffers, got):
    """Raises if the result of set 0 is not the product and epilogue (a few rows, in f32)."""
    rows = slice(0, min(case.m, 64))
    a, w, b = buffers.a[0][rows].float(), buffers.w[0].float(), buffers.bias[0].float()
    if case.epilogue == "bare":
        want = a @ w.t()
    elif case.epilogue in GATES:
        want = FORMULAS[case.epilogue](a, w)
    elif case.epilogue == "bias_gelu":
        want = bias_gelu(a, w, b)
    else:
        want = bias_silu_mul(a, w, b, buffers.residual[0][rows].float())
    compare(got[rows], want)


class TorchBench:
    """Measures for peers.py, whose DryBench replaces it where there is no GPU."""

    def __init__(self):
        import torch._inductor.select_algorithm as select
        select.PRINT_AUTOTUNE = False

    def facts(self):
        import triton
        properties = torch.cuda.get_device_properties(0)
        return {"device": properties.name, "torch": torch.__version__,
                "cuda": torch.version.cuda, "triton": triton.__version__}

    def buffers(self, case):
        return Buffers(case)

    def peer(self, name, case, buffers):
        launch = peer(name, case, buffers)
        return self.timed(launch, case if name != "bare_us" else case._replace(epilogue="bare"),
                          buffers)

    def timed(self, launch, case, buffers):
        """The contender ready to be timed; its result on set 0 was checked."""
        got = launch(0)
        torch.cuda.synchronize()
        check(case, buffers, got)
        return stopwatch.Timed(launch, buffers.count)

    def medians(self, contenders, rounds):
        return stopwatch.medians(contenders, rounds)

    def forget(self):
        torch._dynamo.reset()
        torch.cuda.empty_cache()
