"""Every composed function: each name, as a function and as a method, with its arguments, in every
dtype, traced by attacca.fuse, gives the value, dtype and shape of torch or NumPy."""
import math
import re
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import attacca
from attacca._functions.table import BY_ATEN, BY_NUMPY
from attacca._trace import composed
from functions_test import (
    COARSE,
    DTYPES,
    FLOATS,
    NUMPY_DTYPES,
    SIGNLESS,
    Case,
    In,
    Outcome,
    batches,
    method_of,
    shapes_for,
    through_fuse,
)

SHAPES = [(), (6,), (4, 6), (2, 3, 4), (2, 3, 4, 2)]
INF = math.inf


class Quarters(In):
    """A tensor of multiples of 1/4, or of small integers: sums of their products are exact."""

    def __init__(self, dtype, shape, turn=0):
        super().__init__(dtype, shape, turn)
        self.name = "q" + self.name

    def torch(self):
        generator = torch.Generator().manual_seed(self.turn)
        low = 0 if self.dtype in ("u8", "bool") else -6
        values = torch.randint(low, 7, self.shape, generator=generator)
        return (values / 4 if self.dtype in FLOATS else values).to(DTYPES[self.dtype])


class Indices(In):
    """Indices of an axis of four elements."""

    def __init__(self, dtype, shape):
        super().__init__(dtype, shape)
        self.name = "i" + self.name

    def torch(self):
        return torch.arange(math.prod(self.shape)).remainder(4).to(DTYPES[self.dtype]).reshape(
            self.shape)


# Each with its operands' shapes.
EQUATIONS = [("mk,kn->mn", (4, 6), (6, 3)), ("mk,nk", (4, 6), (3, 6)),
             ("km,kn->nm", (6, 4), (6, 3)),
             ("bmk,bkn->bmn", (2, 4, 6), (2, 6, 3)), ("bsd,dhk->bshk", (2, 3, 4), (4, 2, 5)),
             ("bshk,hkd->bsd", (2, 3, 2, 5), (2, 5, 4)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4),
                                                          (2, 2, 5, 4)),
             ("...k,kn->...n", (2, 3, 4), (4, 5)), ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
             ("i,j->ij", (3,), (4,)), ("i,i", (4,), (4,)), ("ij,ij->ij", (3, 4), (3, 4)),
             ("ij,j->i", (3, 4), (4,)), ("ij,kj->", (3, 4), (2, 4)), ("abc,acd->bd", (2, 3, 4),
                                                                      (2, 4, 5)),
             ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij->ji", (3, 4)), ("ij->j", (3, 4)),
             ("ij", (3, 4)), ("ba", (3, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
             ("i,ij,j->", (3,), (3, 4), (4,)), ("a b , b c -> c a", (2, 3), (3, 4)),
             ("abij,cdjk->abcdik", (2, 1, 3, 4), (1, 2, 4, 2)), ("...,...->...", (3, 4), (4,)),
             ("i...,i->...", (3, 2, 4), (3,)), ("ij,jk", (2, 3), (4, 5)),
             ("ij,jk->iz", (2, 3), (3, 4)),
             ("ii->i", (3, 3)), ("ij,jk->ik", (2, 3))]
TENSORDOTS = [((4, 6), (6, 3), 1), ((2, 3, 4), (3, 4, 5), 2), ((3,), (4,), 0),
              ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])), ((2, 3, 4), (5, 4), ([-1], [1])),
              ((4, 6), (4, 6), 2), ((2, 3), (4, 5), 1)]
VECTORS = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)), ((3, 4), (4, 2)), ((2, 3, 4), (4, 5)),
           ((2, 3, 4), (5, 4, 2)), ((), (3,)), ((3, 4), (3, 4)), ((5, 4), (3, 4)), ((2, 5, 4),
                                                                               (3, 4))]


def matrices(*shapes, dtype):
    return [Quarters(dtype, s, i + 1) for i, s in enumerate(shapes)]


def product_cases(xp, dtype):
    """(name, function, arguments, keywords)"""
    for equation, *shapes in EQUATIONS:
        yield "einsum", xp.einsum, [equation, *matrices(*shapes, dtype=dtype)], {}
    if xp is np:
        yield "einsum", xp.einsum, ["ij,jk,kl", *matrices((2, 3), (3, 4), (4, 2), dtype=dtype)], {
            "optimize": True}
    name = "dims" if xp is torch else "axes"
    for a, b, dims in TENSORDOTS:
        yield "tensordot", xp.tensordot, matrices(a, b, dtype=dtype), {name: dims}
    for a, b in VECTORS:
        for each in ["dot", "vdot", "inner", "outer"] + ["mv", "ger"] * (xp is torch) + [
                "matvec", "vecmat"] * (xp is np):
            yield each, getattr(xp, each), matrices(a, b, dtype=dtype), {}
        vecdot = (torch.linalg if xp is torch else np).vecdot
        yield ("linalg_" if xp is torch else "") + "vecdot", vecdot, matrices(a, b, dtype=dtype), {}
    for shapes in [((2, 3), (3, 4)), ((5, 2), (2, 6), (6, 3)), ((4,), (4, 2), (2, 3), (3,)),
                   ((2, 3), (3, 2), (2, 4), (4, 1)), ((3,), (3,)), ((2, 3), (2, 3))]:
        yield ("linalg_" if xp is torch else "") + "multi_dot", xp.linalg.multi_dot, [
            matrices(*shapes, dtype=dtype)], {}


def torch_product_cases(dtype):
    yield from product_cases(torch, dtype)
    scalars = [{}, {"beta": 0, "alpha": 2}, {"beta": 0.5, "alpha": 1.5}]
    for keywords in scalars:
        yield "addmv", torch.addmv, matrices((3,), (3, 4), (4,), dtype=dtype), keywords
        yield "addmv", torch.addmv, matrices((), (3, 4), (4,), dtype=dtype), keywords
        yield "addr", torch.addr, matrices((3, 4), (3,), (4,), dtype=dtype), keywords
        yield "addbmm", torch.addbmm, matrices((3, 5), (2, 3, 4), (2, 4, 5), dtype=dtype), keywords
    yield "addmv", torch.addmv, matrices((3,), (3, 5), (4,), dtype=dtype), {}
    for shapes in [((5, 2), (5, 3), (4, 2, 3)), ((2, 5, 2), (2, 5, 3), (4, 2, 3), (4,)),
                   ((2,), (3,), (4, 2, 3)), ((5, 2), (4, 3), (4, 2, 3))]:
        yield "bilinear", F.bilinear, matrices(*shapes, dtype=dtype), {}
    yield "chain_matmul", torch.chain_matmul, matrices((2, 3), (3, 4), (4, 1), dtype=dtype), {}
    yield "linalg_vecdot", torch.linalg.vecdot, matrices((3, 4), (3, 4), dtype=dtype), {"dim": 0}


def of_one(name, dtype, shape, /, *arguments, module=torch, inputs=(In, Quarters), **keywords):
    """A call of the module's function, and of the method of that name, if there is one."""
    owner = torch.Tensor if module in (torch, F, torch.linalg) else np.ndarray
    for kind in inputs:
        x = kind(dtype, shape, 1)
        if hasattr(module, name):
            own = ("linalg_" if module is torch.linalg else "") + name
            yield own, getattr(module, name), [x, *arguments], keywords
        if module in (torch, np) and hasattr(owner, name):
            yield name, method_of(name), [x, *arguments], keywords


def axes_of(shape):
    return [{}] + [{"dim": d} for d in range(-len(shape), len(shape))] + [
        {"dim": 0, "keepdim": True}, {"dim": (0, -1)} if len(shape) > 1 else {"dim": (0,)},
        {"dim": 7}]


def by_axis(keywords):
    return {{"dim": "axis", "keepdim": "keepdims"}[n]: v for n, v in keywords.items()}


def statistic_cases(dtype, shape):
    for each in axes_of(shape):
        for name in ("var", "std", "var_mean", "std_mean"):
            # torch's mean beside a variance is NaN where infinities are
            kinds = [Quarters] if name.endswith("_mean") else [In, Quarters]
            yield from of_one(name, dtype, shape, inputs=kinds, **each)
            for more in ({"correction": 0}, {"correction": 2}, {"correction": 99},
                         {"unbiased": False}):
                yield from of_one(name, dtype, shape, inputs=[Quarters], **each, **more)
        for name in ("any", "all", "count_nonzero"):
            yield from of_one(name, dtype, shape, **each)
        for p in (2, 1, INF, -INF, 0, 3, 0.5):
            yield from of_one("vector_norm", dtype, shape, p, module=torch.linalg, **each)
            yield from of_one("norm", dtype, shape, p, inputs=[Quarters], **each)
        for p in (None, 2, 1, INF, "fro", "nuc"):
            yield from of_one("norm", dtype, shape, p, module=torch.linalg, inputs=[Quarters],
                              **each)
        yield from of_one("norm", dtype, shape, **each)
    if len(shape) > 1:
        for keywords in ({}, {"dim": 0}, {"dim": -1, "p": 1}, {"dim": (0, 1)}, {"eps": 2.5}):
            yield from of_one("normalize", dtype, shape, module=F, **keywords)
        for keywords in ({}, {"dim": 0}, {"dim": -1, "eps": 4.0}):
            yield from of_one("cosine_similarity", dtype, shape, Quarters(dtype, shape, 3),
                              module=F, **keywords)
        yield from of_one("cosine_similarity", dtype, shape, Quarters(dtype, shape[-1:], 3),
                          module=F)
    yield from norm_cases(dtype, shape)


def norm_cases(dtype, shape):
    channels = shape[1] if len(shape) > 1 else 1
    w, b, mean = (Quarters(dtype, (channels,), i) for i in (2, 3, 4))
    positive = Indices(dtype, (channels,))
    for groups in (1, channels, 2):
        yield from of_one("group_norm", dtype, shape, groups, module=F)
        yield from of_one("group_norm", dtype, shape, groups, w, b, 0.5, module=F)
    yield from of_one("instance_norm", dtype, shape, module=F)
    yield from of_one("instance_norm", dtype, shape, module=F, weight=w, bias=b)
    yield from of_one("instance_norm", dtype, shape, mean, positive, use_input_stats=False,
                      module=F)
    yield from of_one("batch_norm", dtype, shape, mean, positive, module=F)
    yield from of_one("batch_norm", dtype, shape, mean, positive, w, b, eps=0.25, module=F)


def numpy_statistic_cases(dtype, shape):
    for each in map(by_axis, axes_of(shape)):
        for name in ("var", "std"):
            yield from of_one(name, dtype, shape, module=np, **each)
            yield from of_one(name, dtype, shape, module=np, inputs=[Quarters], ddof=1, **each)
        for name in ("any", "all", "count_nonzero"):
            yield from of_one(name, dtype, shape, module=np, **each)
        for p in (None, 2, 1, INF, -INF, 0, 3, "fro", "nuc"):
            for _, function, args, keywords in of_one("norm", dtype, shape, p, module=np.linalg,
                                                      inputs=[Quarters], **each):
                yield "norm", function, args, keywords


def shape_cases(xp, dtype, shape):
    """What torch and numpy spell alike, but for the names of arguments."""
    one = of_one if xp is torch else lambda *a, **k: of_one(*a, module=np, **k)
    rank = len(shape)
    x, y, z = In(dtype, shape, 1), In(dtype, shape, 4), In("f32", shape, 2)
    for axis in range(-rank - 1, rank + 2):
        yield "stack", xp.stack, [[x, y, z], axis], {}
    for name in ("hstack", "vstack") + ("row_stack",) * (xp is torch):
        yield name, getattr(xp, name), [[x, y, z]], {}
        yield name, getattr(xp, name), [[x, In(dtype, (3, *shape), 2)]], {}
    for counts in (2, (2, 1), (1, 3, 2), (0,), (2,) * (rank + 1)):
        counts = (counts,) if isinstance(counts, int) and xp is torch else counts
        yield from one("tile", dtype, shape, counts)
    for size in ((3, *shape), shape, (*shape, 2), (2, 3)):
        yield "broadcast_to", xp.broadcast_to, [x, size], {}
    for source, destination in ((0, -1), (-1, 0), ((0, 1), (1, 0)), ((0, -1), (-1, 0)), (5, 0)):
        yield from one("moveaxis", dtype, shape, source, destination)
    for axes in (0, (0,), (0, -1), (-1,), 5) + (None,) * (xp is np):
        axes = (axes,) if isinstance(axes, int) and xp is torch else axes
        yield from one("flip", dtype, shape, axes)
    yield from one("fliplr", dtype, shape)
    yield from one("flipud", dtype, shape)
    for arguments in ((1,), (-2,), (1, 0), (7, -1), ((1, -1), (0, -1)), (1, (0, -1)), (1, 5)):
        yield from one("roll", dtype, shape, *arguments)
    for diagonal in (0, 1, -1, 9):
        yield from one("tril", dtype, shape, diagonal)
        yield from one("triu", dtype, shape, diagonal)
    for value in (0, 2.5, -1, True, math.nan):
        yield from one("full_like", dtype, shape, value)
    for dtypes in ({}, {"dtype": xp.float64}, {"dtype": xp.int32}):
        yield from one("zeros_like", dtype, shape, **dtypes)
        yield from one("ones_like", dtype, shape, **dtypes)
        yield from one("full_like", dtype, shape, 3, **dtypes)


def torch_shape_cases(dtype, shape):
    yield from shape_cases(torch, dtype, shape)
    rank, like = len(shape), In(dtype, shape, 4)
    for counts in ((2,) * rank, (2, *(1,) * rank), (0,) * rank, (3,)):
        yield from of_one("repeat", dtype, shape, *counts)
    for arguments in ((2,), (2, 0), (3, -1), (0, 0), (2, 7)):
        yield from of_one("repeat_interleave", dtype, shape, *arguments)
    yield from of_one("expand_as", dtype, shape, In("f32", (3, *shape), 2))
    yield from of_one("expand_as", dtype, shape, In("f32", (3,), 2))
    for name in ("view_as", "reshape_as"):
        yield from of_one(name, dtype, shape, In("s32", (math.prod(shape),), 2))
    for other in DTYPES:
        yield from of_one("type_as", dtype, shape, In(other, (2,), 1), inputs=[Quarters])
    for source, destination in ((0, -1), ((0, 1), (1, 0))):
        yield from of_one("movedim", dtype, shape, source, destination)
    for arguments in ((0, 0, 1), (-1, 1, 2), (0, -1, 1), (0, 1, 9)):
        yield from of_one("narrow", dtype, shape, *arguments)
    for index in (Indices("s64", (5,)), Indices("s32", (2,)), Indices("s64", ()),
                  Indices("u8", (2,)), Indices("f32", (2,)), Indices("s64", (2, 3))):
        yield from of_one("index_select", dtype, (4, *shape), 0, index)
        yield "embedding", F.embedding, [index, In(dtype, (4, 3), 1)], {"padding_idx": 1}
    yield from of_one("index_select", dtype, (*shape, 4), -1, Indices("s64", (3,)))
    yield "embedding", F.embedding, [Indices("s64", (2, 3)), In(dtype, (4, 3), 1)], {}
    for name, arguments in (("new_zeros", ((2, 3),)), ("new_ones", ((2,),)),
                            ("new_full", ((2, 3), 1))):
        yield from of_one(name, dtype, shape, *arguments)
        yield from of_one(name, dtype, shape, *arguments, dtype=torch.float64)
    for widths in ((1, 2), (0, 1, 2, 0), (-1, 1), (0, -2), (0, 0), (1, 1) * 3, (1,)):
        for more in ({}, {"value": 2.0}, {"mode": "reflect"}):
            yield "pad", F.pad, [like, widths], more
    yield "constant_pad_nd", torch.constant_pad_nd, [like, (1, 2), 3], {}


def numpy_shape_cases(dtype, shape):
    yield from shape_cases(np, dtype, shape)
    for arguments in ((2,), (2, 0), (3, -1), (0, 0), (2, 7)):
        yield from of_one("repeat", dtype, shape, *arguments, module=np)
    for width in (1, (2, 1), [(1, 0)] * len(shape), ((0, 2),), [(1, 2), (3,)], -1):
        yield "pad", np.pad, [In(dtype, shape, 1), width], {}
        yield "pad", np.pad, [In(dtype, shape, 1), width], {"constant_values": 3}
    yield "pad", np.pad, [In(dtype, shape, 1), 1, "edge"], {}
    for index in (Indices("s64", (2, 3)), Indices("s32", (5,))):
        yield from of_one("take", dtype, (4, *shape), index, module=np)
        yield from of_one("take", dtype, (4, *shape), index, 0, module=np)
        yield from of_one("take", dtype, (*shape, 4), index, -1, module=np)
        yield from of_one("take", dtype, (4,), Indices("u8", (2,)), module=np)


def along_axis_cases(xp, dtype, shape):
    """Places of extremes, elements by an index each, products and running sums."""
    module = {} if xp is torch else {"module": np}
    rank = len(shape)
    axes = axes_of(shape) if xp is torch else list(map(by_axis, axes_of(shape)))
    for each in axes:
        for name in ("argmax", "argmin"):
            yield from of_one(name, dtype, shape, **module, **each)
        yield from of_one("prod", dtype, shape, inputs=[Quarters], **module, **each)
        if len(each) == 1:
            for name in ("cumsum", "cumprod"):
                yield from of_one(name, dtype, shape, inputs=[Quarters], **module, **each)
            yield from of_one("diff", dtype, shape, **module, **each)
            yield from of_one("diff", dtype, shape, 2, **module, **each)
    for wanted in (xp.float64, xp.int32):
        axis = {"dim" if xp is torch else "axis": 0}
        for name in ("prod", "cumsum", "cumprod"):
            yield from of_one(name, dtype, shape, inputs=[Quarters], dtype=wanted, **module, **axis)
    along = "take_along_dim" if xp is torch else "take_along_axis"
    for kind in ("s64", "s32", "f32"):
        for axis in range(-rank - 1, rank + 2):
            front = axis % (rank + 1)
            whole, index = ([*shape[:front], n, *shape[front:]] for n in (4, 3))
            yield from of_one(along, dtype, whole, Indices(kind, index), axis, **module)
        yield from of_one(along, dtype, (4, *shape), Indices(kind, (7, *shape[:-1], 1)), 0,
                          **module)
        if xp is torch:
            yield from of_one(along, dtype, (4, *shape), Indices(kind, (2, 3)))
        else:
            yield from of_one(along, dtype, (4, *shape), Indices(kind, (3,)), None, **module)


def torch_along_axis_cases(dtype, shape):
    yield from along_axis_cases(torch, dtype, shape)
    for each in axes_of(shape)[1:]:
        for name in ("max", "min"):
            for _, function, args, keywords in of_one(name, dtype, shape, **each):
                yield f"{name}.dim", function, args, keywords
    yield "max.dim", torch.max, [In(dtype, (*shape, 4), 1), -1], {}
    for axis in range(-len(shape) - 1, len(shape) + 2):
        front = axis % (len(shape) + 1)
        whole = [*shape[:front], 4, *shape[front:]]
        for size in (whole, [2] * len(whole), [*shape[:front], 9, *shape[front:]]):
            yield from of_one("gather", dtype, whole, axis, Indices("s64", size))
    yield from of_one("gather", dtype, (), 0, Indices("s64", (1,)))
    yield from of_one("gather", dtype, (1,), 0, Indices("s64", ()))


# Sums that begin with 0 or with the first product: -0.0 differs.
SIGNLESS.update(composed.BY_TORCH, composed.BY_NUMPY)
COARSE.add("cosine_similarity")


REFUSED = re.compile(
    r"diagonal|'nuc'|ord=\S+ over 2 axes|is outside|mode='(reflect|edge)'"
    r"|product of dtype (s8|u8|bool)|operands of dtypes"
    r"|numpy \w+\(.*tensor with 0 axes|decide differently|dtype uint64")


def cases_of(found):
    return [Case(None, name, function, args, keywords) for name, function, args, keywords in found]


class Refusals(Outcome):
    """Also what is refused although the framework takes it, without what REFUSED allows."""

    def add(self, case, way, got, want, error):
        super().add(case, way, got, want, error)
        if error is not None and want is not None and not REFUSED.search(f"{way} {case}: {error}"):
            self.wrong.append(f"{way} {case}: refused: {error}")


class Composed(unittest.TestCase):
    def check(self, way, cases, convert, known, plain):
        outcome = Refusals()
        for batch in batches(cases):
            through_fuse(batch, outcome, way, convert)
        shown = "\n".join(outcome.wrong[:60])
        self.assertEqual(outcome.wrong, [], f"{len(outcome.wrong)} of {outcome.cases}\n{shown}")
        compared = {name for _, name in outcome.compared}
        self.assertEqual({name for name in known if name not in compared}, set())
        self.assertGreater(outcome.cases - outcome.refused, plain)

    def test_torch(self):
        cases = [case for dtype in DTYPES for case in torch_product_cases(dtype)]
        cases += [case for dtype in DTYPES for shape in shapes_for(dtype, SHAPES)
                  for case in torch_shape_cases(dtype, shape)]
        cases += [case for dtype in ("f32", "bf16", "f64", "s32", "bool")
                  for shape in shapes_for(dtype, SHAPES)
                  for case in statistic_cases(dtype, shape)]
        cases += [case for dtype in ("bf16", "f32", "f64", "u8", "s64", "bool")
                  for shape in shapes_for(dtype, SHAPES)
                  for case in torch_along_axis_cases(dtype, shape)]
        self.check("torch", cases_of(cases), lambda tensor: tensor, composed.BY_TORCH, 8000)

    def test_numpy(self):
        cases = [case for dtype in NUMPY_DTYPES for case in product_cases(np, dtype)]
        cases += [case for dtype in NUMPY_DTYPES for shape in shapes_for(dtype, SHAPES)
                  for case in numpy_shape_cases(dtype, shape)]
        cases += [case for dtype in ("f32", "f64", "s32", "bool")
                  for shape in shapes_for(dtype, SHAPES)
                  for case in numpy_statistic_cases(dtype, shape)]
        cases += [case for dtype in ("f32", "u8", "s64", "bool")
                  for shape in shapes_for(dtype, SHAPES)
                  for case in along_axis_cases(np, dtype, shape)]
        self.check("numpy", cases_of(cases), lambda tensor: tensor.numpy(), composed.BY_NUMPY, 3000)

    def test_no_function_has_two_rows(self):
        self.assertEqual(set(composed.BY_TORCH) & set(BY_ATEN), set())
        self.assertEqual(set(composed.BY_NUMPY) & set(BY_NUMPY), set())

    def test_symbolic_sizes(self):
        def heads(x: "[B, S, 8]", w: "[8, 2, 3]"):
            return torch.einsum("bsd,dhk->bhsk", x, w).relu()

        def rows(x: "[M, 8]", v: "[8]", b: "[M]"):
            return torch.addmv(b, x, v), torch.inner(x, v), torch.stack([b, b * 2], 1), \
                torch.var(x, -1), F.normalize(x, dim=-1), torch.zeros_like(x), x.flip(0)

        def shaped(x: "[M, 8]", row: "[1, 8]"):
            return row.expand_as(x) + 0, row.tile(2, 1).sum(0), torch.outer(x[:, 0], row[0]), \
                torch.einsum("mk,nk->mn", row, x), F.cosine_similarity(x, row), x.flatten() @ \
                x.reshape(-1)

        def extremes(x: "[M, 8]"):
            return *x.max(0), *x.min(0, keepdim=True), x.argmax(0), x.argmin(0, keepdim=True), \
                x[:, 1].argmax(), x.argmax(1)

        heads_of, rows_of, shaped_of, extremes_of = map(attacca.fuse,
                                                        (heads, rows, shaped, extremes))
        for size in (1, 3, 6):
            x, w = torch.randn(2, size, 8), torch.randn(8, 2, 3)
            torch.testing.assert_close(heads_of(x, w), heads(x, w))
            given = torch.randn(size, 8), torch.randn(8), torch.randn(size)
            torch.testing.assert_close(rows_of(*given), rows(*given))
            given = torch.randn(size, 8), torch.randn(1, 8)
            torch.testing.assert_close(shaped_of(*given), shaped(*given))
            x[0][-1, 1] = math.nan
            torch.testing.assert_close(extremes_of(x[0]), extremes(x[0]), equal_nan=True)

    def test_a_tensor_as_an_index(self):
        for convert in (lambda t: t, lambda t: t.numpy()):
            x, i = convert(torch.randn(4, 5, 6)), convert(torch.tensor([[3, 0], [1, -1]]))
            for index in (lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[..., i] * 2):
                got, want = attacca.fuse(index)(x, i), index(x, i)
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))

        def looked_up(table, i, w):
            return torch.relu(table[i] @ w)

        table, i, w = torch.randn(9, 8), torch.tensor([7, 7, 2]), torch.randn(8, 5)
        torch.testing.assert_close(attacca.fuse(looked_up)(table, i, w), looked_up(table, i, w))

    def test_what_is_refused_says_why(self):
        def repeated(x: "[M, 8]"):
            return x.repeat(2, 1)

        def place(x: "[M, 8]"):
            return x.argmax()

        def picked(x: "[M, 8]", i):
            return x.gather(0, i)

        def halves(x: "[M, 8]"):
            return x.chunk(2)

        def normalised(x, mean, variance):
            return F.batch_norm(x, mean, variance, training=True)

        x, row = torch.randn(3, 8), torch.ones(8)
        for reason, function, given in [
                ("symbolic", repeated, [x]), ("training", normalised, [x, row, row]),
                ("symbolic", place, [x]), ("symbolic", picked, [x, torch.zeros(1, 8).long()]),
                (r"2 equal parts, at line \d of halves.text", halves, [x.repeat(2, 1)]),
                ("diagonal", lambda x: torch.einsum("ii->i", x), [x[:, :3]]),
                ("equation", lambda x: torch.einsum("mk,kn", x), [x]),
                ("where", lambda x: x[x > 0], [x]),
                ("one axis", lambda x, i: x[0, i], [x, row.long()]),
                ("numpy and torch", lambda x, y: x.var() + y, [x, row.numpy()])]:
            with self.assertRaisesRegex(attacca.Error, reason):
                attacca.fuse(function)(*given)

    def test_products_by_other_names_are_fused(self):
        def check(function, *given):
            explained = attacca.fuse(function).explain(*given)
            self.assertEqual((len(explained.data["regions"]), explained.data["not_fused"]), (1, []),
                             str(explained))

        x, w, b = torch.randn(5, 8), torch.randn(8, 6), torch.randn(6)
        check(lambda x, w, b: torch.einsum("mk,kn->mn", x, w).add(b).relu(), x, w, b)
        check(lambda x, w, b: torch.einsum("mk,nk->mn", x, w).add(b).relu(), x,
              w.t().contiguous(), b)
        check(lambda x, w, b: torch.tensordot(x, w, 1).add(b).tanh(), x, w, b)
        check(lambda x, w, b: np.maximum(np.dot(x, w) + b, 0), *(t.numpy() for t in (x, w, b)))


if __name__ == "__main__":
    unittest.main()
