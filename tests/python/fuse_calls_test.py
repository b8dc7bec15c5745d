"""What fused functions take and return, and what they read beside tensors: as the plain function,
or an error."""
import builtins
import collections
import cProfile
import enum
import functools
import math
import operator
import pickle
import unittest
from typing import Annotated
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch.fx.immutable_collections import immutable_dict

import attacca

X, W = torch.randn(4, 8), torch.randn(8, 8)
Pair = collections.namedtuple("Pair", "sum product")


class Act(enum.Enum):
    GELU = 1
    RELU = 2


@attacca.fuse
def doubled(x):
    return x * 2


class Block:
    """Methods that read constants of several kinds."""

    def __init__(self, act=Act.GELU, scale=2.0):
        self.act, self.scale, self.config, self.seen = act, scale, {"alpha": 2.0}, []
        self.tag = b"a"

    def activated(self, x):
        table = {Act.GELU: F.gelu, Act.RELU: F.relu}
        chosen = table[self.act](x) * (2 if self.act in (Act.RELU,) else 3)
        return chosen + (1 if self.act == Act.GELU else 5) * (7 if self.tag == b"a" else 8)

    def scaled(self, x):
        return x * self.scale

    __call__ = scaled
    fused = attacca.fuse(activated)


def wrapped_by(call):
    """A decorator of functools.wraps; ``call`` takes the function and the arguments."""
    def decorate(function):
        @functools.wraps(function)
        def passed(*args, **kwargs):
            return call(function, *args, **kwargs)

        @functools.wraps(function)
        def named(x, y, s=3.0):
            return call(function, x, y, s=s)
        return passed, named
    return decorate


class Calls(unittest.TestCase):
    def compare(self, got, want):
        """Results of the same structure and values."""
        self.assertIs(type(got), type(want))
        if isinstance(want, dict):
            self.assertEqual(list(got), list(want))
            got, want = list(got.values()), list(want.values())
        if isinstance(want, (tuple, list)):
            self.assertEqual(len(got), len(want))
            for one, other in zip(got, want):
                self.compare(one, other)
        elif isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want)
        elif isinstance(want, np.ndarray):
            np.testing.assert_allclose(got, want, rtol=1e-6, strict=True)
        else:
            self.assertEqual(got, want)

    def check(self, function, *given, **named):
        """Calls the plain function and the fused one twice."""
        fused = attacca.fuse(function)
        want = function(*given, **named)
        for _ in range(2):
            self.compare(fused(*given, **named), want)

    def test_what_is_returned(self):
        for function in [lambda x: (x * 2,), lambda x: [x * 2], lambda x: [x, x + 1],
                         lambda x: {"y": x * 2, "z": (x, None)}, lambda x: Pair(x + 1, x * x),
                         lambda x: (x * 2, [x, {"k": x - 1}], 3, "text"),
                         lambda x: torch.max(x, 1), lambda x: (x.max(0).values, x.max(0)[1])]:
            self.check(function, X)
        for value in (None, (), {}, [None], 3, (1, 2)):
            with self.assertRaisesRegex(attacca.Error, "the function (must )?return"):
                attacca.fuse(lambda x, value=value: value)(X)
        out = torch.empty(4, 8)
        self.assertIs(attacca.fuse(lambda x: {"y": x * 2})(X, out=out), out)
        torch.testing.assert_close(out, X * 2)

    def test_parts_are_a_list_of_numpy_and_a_tuple_of_torch(self):
        for function in [lambda x: np.split(x, 2), lambda x: np.array_split(x, 3, axis=1),
                         lambda x: [*np.split(x, [1, 3]), x]]:
            self.check(function, X.numpy())
        for function in [lambda x: x.split(2), lambda x: torch.tensor_split(x, 3, dim=1)]:
            self.check(function, X)

    def test_extremes_of_nothing_are_refused(self):
        empty = X[:0]
        for x, function in [(empty, lambda x: x.max()), (empty, lambda x: x.amin(0)),
                            (empty, lambda x: x.amax((0, 1))), (empty.numpy(), lambda x: x.min()),
                            (empty.numpy(), lambda x: np.max(x, axis=0))]:
            with self.assertRaises((RuntimeError, IndexError, ValueError)):
                function(x)
            with self.assertRaisesRegex(attacca.Error, "extreme of an axis without elements"):
                attacca.fuse(function)(x)
        self.check(lambda x: x.amax(1), empty)
        self.check(lambda x: x.max(1), empty.numpy())

    def test_what_is_given(self):
        def positional(x, w, /, *, scale=1.0):
            return x @ w * scale

        def several(*xs, **named):
            return sum(xs) + named.get("b", 0) + len(named)

        def nested(layers, x):
            for w, b in layers:
                x = torch.relu(x @ w + b)
            return x

        def named(x, v0, v1, out, self=1):
            t = x * v0
            return t + v1, t * out * self

        self.check(positional, X, W, scale=2.0)
        self.check(several, X, X + 1)
        self.check(several, X, b=W[:4])
        self.check(several, X, 2.0, a=None)
        self.check(nested, [(W, W[0]), (W + 1, W[1])], X)
        self.check(nested, ((W, 1.0),), X)
        self.check(named, X, X + 1, X - 1, out=X * 3)
        self.check(lambda x, config: x * config["scale"] + config["w"], X,
                   {"scale": 2.0, "w": W[0]})
        self.check(lambda x, dtype: x.to(dtype), X, torch.bfloat16)
        self.check(lambda x, act: F.gelu(x) if act is Act.GELU else F.relu(x), X, Act.RELU)
        fused = attacca.fuse(lambda x, act, k: x * (2 if act is Act.GELU else 3) + k[0])
        for act, k in ((Act.GELU, [1]), (Act.RELU, [1]), (Act.RELU, [2]), (Act.RELU, (2,))):
            torch.testing.assert_close(fused(X, act, k), X * (2 if act is Act.GELU else 3) + k[0])
        with self.assertRaisesRegex(attacca.Error, "slice is not a tensor, at part"):
            attacca.fuse(lambda x, part: x[part])(X, slice(1, 2))
        contains_itself = [X]
        contains_itself.append(contains_itself)
        with self.assertRaisesRegex(attacca.Error, "contains itself"):
            attacca.fuse(lambda xs: xs[0])(contains_itself)

    def test_what_methods_read(self):
        for act in Act:
            block = Block(act)
            torch.testing.assert_close(block.fused(X), block.activated(X))
        block = Block()
        block.tag = b"b"
        torch.testing.assert_close(block.fused(X), block.activated(X))
        for read in (lambda self, x: x * self.config.get("alpha"),
                     lambda self, x: x * self.config["alpha"],
                     lambda self, x: self.seen.append(x) or x,
                     lambda self, x: x * (self.config == {"alpha": 2.0}),
                     lambda self, x: x * len(f"{self.config}"),
                     lambda self, x: x * (self.config in ({},))):
            with self.assertRaisesRegex(attacca.Error, r"self.*while tracing"):
                attacca.fuse(read).__get__(block)(X)
        self.assertEqual(block.seen, [])

    def test_generators_of_random_numbers_are_refused(self):
        noisy = attacca.fuse(lambda x, rng: x + rng.normal())
        block = Block()
        read = attacca.fuse(lambda self, x: x + self.rng.normal()).__get__(block)

        class Derived(np.random.Generator):
            pass
        for rng in (np.random.default_rng(0), np.random.RandomState(0), torch.Generator(),
                    Derived(np.random.PCG64(0))):
            block.rng = rng
            for call in (lambda: noisy(X, rng), lambda: noisy(X, rng=rng), lambda: read(X)):
                with self.assertRaisesRegex(attacca.Error, "rng is a generator.*outside"):
                    call()

    def test_sets_of_equal_numbers_are_other_constants(self):
        bools = X > 0  # the dtype of a product with a constant is that of the constant
        for x, values, function in ((bools, (2, 2.0), operator.mul),
                                    (bools, (1, True), operator.mul),
                                    (X, (0.0, -0.0), operator.truediv)):
            scaled = attacca.fuse(lambda x, by, function=function: function(x, next(iter(by))))
            for value in values:
                made, expected = scaled(x, frozenset({value})), function(x, value)
                self.assertEqual(made.dtype, expected.dtype)
                torch.testing.assert_close(made, expected, equal_nan=True)

    def test_dtypes_and_functions_are_constants(self):
        x = X.numpy()
        for dtype in (np.dtype("f8"), np.dtype("i4")):
            self.check(lambda x, dtype: x.astype(dtype), x, dtype)
        for dtype in (torch.float64, torch.int32):
            self.check(lambda x, dtype: x.to(dtype), X, dtype)
        self.check(lambda x, function: function(x), x, np.exp)
        self.check(lambda x, scale: x * scale, x, np.float32(2))

    def test_bound_methods_and_objects_are_read_again(self):
        block = Block()
        method, called = attacca.fuse(block.scaled), attacca.fuse(block)
        for scale in (2.0, 5.0, 2.0):
            block.scale = scale
            torch.testing.assert_close(method(X), X * scale)
            torch.testing.assert_close(called(X), X * scale)

    def test_the_class_of_a_tensor(self):
        def scaled(x, s):
            return x * s if isinstance(s, torch.Tensor) else x * 100

        def by_torch(x, s):
            return x * s if torch.is_tensor(s) else x * 100

        def by_numpy(x, s):
            return x * s if isinstance(s, np.ndarray) and not isinstance(s, (tuple, float)) \
                else x * 100

        for s in (X + 1, 3.0):
            self.check(scaled, X, s)
            self.check(by_torch, X, s)
        for s in (X.numpy() + 1, 3.0):
            self.check(by_numpy, X.numpy(), s)
        # Code in C must not take a stand-in for a tensor.
        for make in (torch.tensor, torch.as_tensor, lambda x: torch.zeros(4, 8).copy_(x)):
            with self.assertRaises((attacca.Error, TypeError, RuntimeError)):
                attacca.fuse(lambda x, make=make: make(x))(X)
        with self.assertRaisesRegex(attacca.Error, "tensor's class"):
            attacca.fuse(scaled)(X, X.numpy())

    def test_state_of_torch(self):
        fused, third = attacca.fuse(lambda x, w: torch.relu(x @ w)), attacca.fuse(lambda x: x / 3)
        with torch.autocast("cpu", dtype=torch.bfloat16), \
                self.assertRaisesRegex(attacca.Error, "autocast"):
            fused(X, W)
        torch.testing.assert_close(fused(X, W), torch.relu(X @ W))
        with torch.autocast("cpu", dtype=torch.bfloat16), \
                self.assertRaisesRegex(attacca.Error, "autocast"):
            fused(X, W)
        numbers = torch.arange(3)
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                torch.testing.assert_close(third(numbers), numbers / 3)
            finally:
                torch.set_default_dtype(torch.float32)

    def test_numpy_scalars_beside_tensors_of_torch(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.float64):
            x = torch.arange(1, 7).reshape(2, 3).to(dtype)
            for scalar in (np.float64(2), np.float32(0.5), np.int64(3)):
                for function in [lambda x, s=scalar: s * x, lambda x, s=scalar: x * s,
                                 lambda x, s=scalar: s - x, lambda x, s=scalar: s / x,
                                 lambda x, s=scalar: s < x, lambda x, s=scalar: s == x,
                                 lambda x, s=scalar: s >= x, lambda x, s=scalar: x ** s]:
                    self.check(function, x)
        self.check(lambda q, k: (1 / np.sqrt(8) * q) @ k.T, X, W)

    def test_shapes(self):
        self.check(lambda x: x.reshape(x.shape + (1,)) / x.shape.numel(), X)
        self.check(lambda x: x * len((1,) + x.shape) * {(4, 8): 2}[x.shape], X)
        self.check(lambda x: x * (2 if 8 in x.shape else 3) * x.shape.index(8), X)
        T = "f32[M, 8]"

        def summed(x: T): return x / (x.shape + (1,))[0]
        def repeated(x: T): return x / (x.shape * 2)[2]
        def member(x: T): return x * (4 in x.shape)
        def compared(x: T): return x * (x.shape < (5,))
        def counted(x: T): return x * x.shape.count(4)
        def numbered(x: T): return x * x.shape.numel()
        def hashed(x: T): return x * {(4, 8): 2}.get(x.shape, 3)
        for function in (summed, repeated, member, compared, counted, numbered, hashed):
            with self.assertRaisesRegex(attacca.Error, "the size M"):
                attacca.fuse(function)(X)
        def last(x: T): return x * (x.shape + (1,))[1] * (x.shape * 2)[3]
        self.check(last, X)

    def test_writing_is_refused(self):
        def subtract(x):
            x -= 1
            return x

        def divide(x):
            x //= 2
            return x

        def wrap(x):
            x %= 3
            return x
        for function in (subtract, divide, wrap):
            for x in (torch.tensor([5.0, 7.0]), np.array([5.0, 7.0])):
                with self.assertRaisesRegex(attacca.Error, "operator i"):
                    attacca.fuse(function)(x)
                self.assertEqual(x.tolist(), [5.0, 7.0])

    def test_what_needs_elements_is_refused(self):
        def delete(x):
            del x[0]

        def name(x):
            x.label = "hidden"

        def forget(x):
            del x.label
        for reason, function in [
                ("writes to", delete), ("sets label", name), ("deletes label", forget),
                ("reads a tensor's value", lambda x: f"{x:.2f}"), ("operator round", round),
                ("operator trunc", math.trunc), ("operator reversed", lambda x: reversed(x)),
                ("length of a tensor without axes.*stack", torch.as_tensor),
                ("without axes.*stack", lambda x: torch.tensor([x.sum(), x.sum()])),
                ("without a dtype", lambda x: x.type())]:
            with self.subTest(reason), self.assertRaisesRegex(attacca.Error, reason):
                attacca.fuse(lambda x, function: function(x))(X, function)
        read = attacca.fuse(lambda self, x: x * type(self).scale).__get__(Block())
        with self.assertRaisesRegex(attacca.Error, r"reads type\(self\).scale.*read self.scale"):
            read(X)
        with self.assertRaisesRegex(attacca.Error, "epilogue: too many positional.*accumulator"):
            attacca.matmul(X, W, lambda: 1)

    def test_classes_with_operators_of_their_own(self):
        class Logged(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return super().__torch_function__(function, types, args, kwargs)

        class Plain(torch.Tensor):
            pass

        squared = attacca.fuse(lambda x: x * x)
        with self.assertRaisesRegex(attacca.Error, "a matrix"):
            squared(np.matrix([[1.0, 2.0], [3.0, 4.0]]))
        with self.assertRaisesRegex(attacca.Error, "a Logged"):
            squared(X.as_subclass(Logged))
        for x in (torch.nn.Parameter(X, requires_grad=False), X.as_subclass(Plain)):
            torch.testing.assert_close(squared(x), X * X)

    def test_repeated_calls_are_not_bound_again(self):
        def scaled(x, w, factor=2.0):
            return torch.relu(x @ w) * factor

        fused = attacca.fuse(scaled)
        for x, w in ((X, W), (X.double(), W.double()), (X.T.contiguous().T, W)):
            self.compare(fused(x, w), scaled(x, w))
        unbound = mock.patch("attacca._trace.fused.bind", side_effect=AssertionError("bound"))
        with unbound:
            for x, w in ((X + 1, W), (X.double(), W.double()), (X.T.contiguous().T, W - 1)):
                self.compare(fused(x, w), scaled(x, w))
            out = torch.empty(4, 8)
            for call in (lambda: fused(X, W, 2.0), lambda: fused(X, w=W), lambda: fused(X[:2], W),
                         lambda: fused(X, W, out=out), lambda: fused(X.numpy(), W.numpy())):
                with self.assertRaisesRegex(AssertionError, "bound"):
                    call()
        self.assertIs(fused(X, W, out=out), out)
        with unbound:
            self.assertIs(fused(X + 1, W, out=out), out)
        self.compare(out, scaled(X + 1, W))
        with self.assertRaisesRegex(attacca.Error, "gradient"):
            fused(X.clone().requires_grad_(), W)
        # What returns another structure, or depends on a constant, is never taken from the cache.
        other = attacca.fuse(lambda x, k=1.0: (x * k,))
        for k in (1.0, 2.0, 1.0):
            self.compare(other(X, k), (X * k,))
            self.compare(other(X), (X * 1.0,))

    def test_an_out_is_not_taken_for_an_argument(self):
        def product(x, w, residual=None):
            return x @ w if residual is None else x @ w + residual
        fused, out, residual = attacca.fuse(product), torch.empty(4, 8), torch.randn(4, 8)
        for _ in range(2):
            self.assertIs(fused(X, W, out=out), out)
            self.compare(out, product(X, W))
            self.compare(fused(X, W, residual), product(X, W, residual))
        self.assertIs(fused(X, W, residual, out=out), out)
        self.compare(out, product(X, W, residual))
        outs = [torch.empty(4, 8), torch.empty(4, 8)]
        summed = attacca.fuse(lambda x, *more: (x * 2, sum(more, x)))
        for _ in range(2):
            summed(X, out=outs)
            self.compare(outs[1], X)
            self.compare(summed(X, *outs)[1], X + outs[0] + outs[1])

    def test_defaults_that_change_are_read_again(self):
        factors = [2.0]

        def scaled(x, factors=factors):
            return x * factors[0]
        fused = attacca.fuse(scaled)
        self.compare(fused(X), X * 2)
        factors[0] = 7.0
        self.compare(fused(X), X * 7)

    def test_keys_of_dicts(self):
        for keys in ((0, "0"), (True, "True"), ("a", "a b"), ("", "\n"), ('"', "\\"), ("ä", "a]"),
                     (-1, "-1"), ("a.b", "#1"), ("a" * 300, "a\0")):
            self.check(lambda d, first, second: d[first] @ d[second], dict(zip(keys, (X, W))),
                       *keys[:2])
        self.check(lambda d: d["a"]["b"] @ d["a][b"], {"a": {"b": X}, "a][b": W})

    def test_kinds_of_dicts(self):
        def product(d):
            return collections.OrderedDict(y=d["x"] @ d["w"], d=type(d) is dict)
        parts, fused = {"x": X, "w": W}, attacca.fuse(lambda d: d["x"] @ d["w"])
        for given in (parts, collections.OrderedDict(parts)):
            self.check(product, given)
        self.compare(fused(immutable_dict(parts)), X @ W)
        for function in (lambda x, w: fused({"x": x, "w": w}),
                         lambda x, w: fused(collections.OrderedDict(x=x, w=w))):
            self.compare(torch.compile(function, backend="eager")(X, W), X @ W)
        for given in (collections.defaultdict(int, parts), collections.Counter(x=1)):
            with self.assertRaisesRegex(attacca.Error, r"subclass of dict, at d: give dict\(x\)"):
                fused(given)

    def test_wrappers(self):
        def scaled(x: Annotated[torch.Tensor, "f32[M, 8]"], w, s=1.0):
            return x @ w * s

        def halved(function, *args, **kwargs):
            return function(*args, **{"s": 0.5, **kwargs})

        def exchanged(function, w, x, **kwargs):
            return function(x, w, **kwargs)

        def injected(function, x, y, s=None):
            return function(x, y, 2.0)
        passed, named = wrapped_by(halved)(scaled)
        for function in (passed, named, *wrapped_by(injected)(scaled)):
            self.check(function, X, W)
            self.check(function, X, W, s=2.0)
        self.check(passed, X, w=W)
        self.check(passed, w=W, x=X)
        self.check(named, X, y=W)
        for function in wrapped_by(exchanged)(lambda x, y, s=1.0: x @ y * s):
            self.check(function, W, X)
        # The names and annotations of what passes all its arguments on.
        plan = attacca.fuse(passed).plan(X, W)
        self.assertEqual(([each.name for each in plan.inputs], plan.symbols), (["x", "w"], ("M",)))
        with self.assertRaisesRegex(attacca.Error, "multiple values for x"):
            attacca.fuse(passed)(X, W, x=X)
        epilogue, _ = wrapped_by(halved)(lambda acc, bias, s=1.0: acc * s + bias)
        torch.testing.assert_close(attacca.matmul(X, W, epilogue, bias=W[0]), X @ W * 0.5 + W[0])

    def test_wrappers_of_methods(self):
        def after_self(method):
            @functools.wraps(method)
            def passed(self, *args, **kwargs):
                return method(self, *args, **kwargs)
            return passed

        def epilogue(self, acc, bias, s=1.0):
            return acc * self.scale * s + bias

        def called(method, *args, **kwargs):
            return method(*args, **kwargs)

        class Scaled:
            scale = 2.0
            passed = wrapped_by(called)(epilogue)[0]
            passed_after_self = after_self(epilogue)
            plain = epilogue
        scaled = Scaled()
        for method in (scaled.plain, scaled.passed, scaled.passed_after_self):
            got = attacca.matmul(X, W, method, bias=W[0])
            torch.testing.assert_close(got, method(X @ W, W[0]))
            self.check(method, X, W[0, :8])
            self.check(method, X, bias=W[0], s=3.0)

    def test_methods_called_through_their_class(self):
        class Biased(Block):
            @attacca.fuse
            def fused(self, x):
                return Block.fused(self, x) + 1
        block = Block()
        torch.testing.assert_close(Block.fused(block, X), block.activated(X))
        torch.testing.assert_close(Block.fused(block, x=X), block.activated(X))
        torch.testing.assert_close(Biased.fused(Biased(), X), block.activated(X) + 1)
        self.assertEqual(Block.fused.text(block, X), block.fused.text(X))
        self.assertEqual(Block.fused.text(self=block, x=X), block.fused.text(X))
        torch.testing.assert_close(Block.fused(x=X, self=block), block.activated(X))
        torch.testing.assert_close(Block.fused.plan(x=X, self=block)(X), block.activated(X))
        torch.testing.assert_close(Block.fused.plan(block, X)(X), block.activated(X))

    def test_methods_without_tensors_called_through_their_class(self):
        class Scaled:
            scale = 3

            @attacca.fuse
            def factor(self, more=1):
                return self.scale + more

            @attacca.fuse
            def fused(self, x):
                return x * Scaled.factor(self) + Scaled.factor(self=self, more=2) + self.factor()
        torch.testing.assert_close(Scaled().fused(X), X * 4 + 9)

    def test_classes_that_are_dtypes(self):
        for dtype in (np.float16, np.float64, np.int32, float, int, bool):
            self.check(lambda x, dtype: x.astype(dtype), X.numpy(), dtype)
        fused = attacca.fuse(lambda x, dtype: x.astype(dtype))
        for dtype in (np.float16, np.float64, np.float16):
            self.compare(fused(X.numpy(), dtype), X.numpy().astype(dtype))
        for other in (torch.Tensor, Block, str):
            with self.assertRaisesRegex(attacca.Error, "the class .* is not a tensor, at dtype"):
                fused(X.numpy(), other)

    def test_tensors_that_are_no_arguments(self):
        for function in (lambda x: torch.cat([x, W]), lambda x: torch.addr(x, W[0], x[0]),
                         lambda x: F.bilinear(x, x, W[None]), lambda x: torch.einsum("ij,jk", x, W),
                         lambda x: x @ W, lambda x: F.linear(x, bias=W[0], weight=x)):
            with self.assertRaisesRegex(attacca.Error, "^a Tensor inside the function.{,80}$"):
                attacca.fuse(function)(W)
        with self.assertRaisesRegex(attacca.Error, "^a ndarray inside the function.{,80}$"):
            attacca.fuse(lambda x: np.concatenate((x, X.numpy())))(W.numpy())

    def test_methods_with_wrappers(self):
        def tripled(function):
            @functools.wraps(function)
            def inner(self, *args, **kwargs):
                return function(self, *args, s=3.0, **kwargs)
            return inner

        class Scaled:
            factor = 2.0

            def plain(self, x, w, s=1.0):
                return x @ w * (s * self.factor)
            passed = wrapped_by(lambda function, *args: function(*args, s=3.0))(plain)[0]
            inner = tripled(plain)
        for function in (Scaled.passed, Scaled.inner):
            method = attacca.fuse(function).__get__(Scaled())
            torch.testing.assert_close(method(X, W), X @ W * 6)
            self.assertEqual([each.name for each in method.plan(X, W).inputs], ["x", "w"])

    def test_one_tensor_given_twice(self):
        def both(x, y):
            return x * 2 if x is y else x * 3 + y
        fused = attacca.fuse(both)
        for x, y in ((X, X), (X, X.clone()), (X + 1, X), (X.clone(), X), (X, X)):
            self.compare(fused(x, y), both(x, y))
        alike = attacca.fuse(lambda xs, y: xs[0] + 1 if xs[1] is y else xs[0])
        other = X + 3
        self.compare(alike([X, other], other), X + 1)
        self.compare(alike([X, other], X), X)

    def test_what_a_tensor_is_asked_for(self):
        def asked(x):
            count = x.numel() + x.nelement() + x.shape.numel()
            return x * count if x.is_floating_point() else x + 1
        for x in (X, X.bfloat16(), torch.arange(6).view(2, 3)):
            self.check(asked, x)

    def test_attributes_that_tensors_may_have(self):
        for x in (X, X.numpy()):
            for name in ("alpha", "unsqueeze", "mean"):
                self.check(lambda x, name: x * (2 if hasattr(x, name) else 3), x, name)
            self.check(lambda x: x * getattr(x, "alpha", 2), x)
            with self.assertRaisesRegex(attacca.Error, "sofmax is no attribute.*mean softmax"):
                attacca.fuse(lambda x: x.sofmax(-1))(x)
        with self.assertRaisesRegex(attacca.Error, "requires_grad is not known"):
            attacca.fuse(lambda x: x if hasattr(x, "requires_grad") else x * 2)(X)

    def test_attributes_that_tensors_have_of_their_own(self):
        class Array(np.ndarray):
            alpha = 3.0

        def plain(x):
            return x * getattr(x, "alpha", 2.0)

        def with_alpha(x):
            x.alpha = 3.0
            return x
        fused = attacca.fuse(plain)
        own = [with_alpha(X + 1), with_alpha(torch.nn.Parameter(X, requires_grad=False)),
               X.numpy().view(Array)]
        for x in own:
            for function in (fused, attacca.fuse(plain)):
                self.compare(function(X), X * 2)
                self.compare(function(X.numpy()), X.numpy() * 2)
                with self.assertRaisesRegex(attacca.Error, "alpha is not known"):
                    function(x)
                self.compare(function(X), X * 2)
            with self.assertRaisesRegex(attacca.Error, "alpha is not known"):
                attacca.fuse(lambda x: x * (3 if hasattr(x, "alpha") else 2))(x)

    def test_attributes_that_tensors_of_self_have_of_their_own(self):
        class Scaled:
            def __init__(self, w):
                self.w = w

            @attacca.fuse
            def asked_first(self, x):
                return (2 if hasattr(x, "alpha") else 3) * x * self.w

            @attacca.fuse
            def asked(self, x):
                return x * getattr(self.w, "alpha", 2.0)
        w = torch.nn.Parameter(X, requires_grad=False)
        scaled = Scaled(w)
        for _ in range(2):
            self.compare(scaled.asked_first(X), 3 * X * w)
            self.compare(scaled.asked(X), X * 2)
        w.alpha = 3.0
        for method in (scaled.asked_first, scaled.asked, lambda x: Scaled(w).asked(x)):
            with self.assertRaisesRegex(attacca.Error, "alpha is not known"):
                method(X)
        self.compare(Scaled(w.clone()).asked(X), X * 2)

    def test_ways_to_ask_for_a_class(self):
        @functools.singledispatch
        def dispatched(x):
            return x * 3

        @dispatched.register(torch.Tensor)
        def _(x):
            return x * 5

        def matched(x):
            match x:
                case torch.Tensor():
                    return x * 2
            return x * 3
        for function in (lambda x: x * 2 if x.__class__ is torch.Tensor else x, matched,
                         lambda x: dispatched(x),
                         lambda x: x * 2 if all(map(isinstance, [x], [torch.Tensor])) else x):
            self.check(function, X)
        self.assertIs(isinstance, builtins.isinstance)

    def test_while_a_profiler_runs(self):
        profile = cProfile.Profile()
        fused = attacca.fuse(lambda x: x * 2 if isinstance(x, torch.Tensor) else x)
        profile.enable()
        try:
            self.compare(fused(X), X * 2)
            math.isqrt(4)
        finally:
            profile.disable()
        self.assertTrue(any("isqrt" in str(entry.code) for entry in profile.getstats()))

    def test_fused_functions_call_each_other(self):
        @attacca.fuse
        def norm(x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

        def layer(x, w):
            return torch.relu(norm(x) @ w), doubled(x)
        self.check(layer, X, W)
        first = attacca.fuse(lambda parts: parts[0] @ parts[1]["w"])
        scaled = attacca.fuse(Block().scaled)
        self.check(lambda x, w: first([x @ w, {"w": w}]), X, W)
        self.check(lambda x, w: first(parts=(x, {"w": w})) * scaled(x=x @ w), X, W)
        self.check(lambda x, w: Block().fused(x @ w), X, W)
        with self.assertRaisesRegex(attacca.Error, "computes at once"):
            attacca.fuse(lambda x, w: attacca.matmul(x, w, "relu(acc)"))(X, W)

    def test_pickled_by_name(self):
        self.assertIs(pickle.loads(pickle.dumps(doubled)), doubled)

    def test_annotations(self):
        alias = Annotated[torch.Tensor, "f32[M, 8]"]
        def plain(x: alias): return x * 2
        def optional(x: alias | None = None): return x * 2
        def text(x: "f32[M, 8]"): return x * 2
        for function in (plain, optional, text):
            self.assertEqual(attacca.fuse(function).plan(X).symbols, ("M",), function)
        def wrong(x: "float32[M, 8]"): return x
        def unknown(x: Annotated[torch.Tensor, "f99[M, 8]"]): return x
        for function in (wrong, unknown):
            with self.assertRaisesRegex(attacca.Error, "dtype is unknown"):
                attacca.fuse(function)
        def other(x: "list[int]", y: "Missing[int]"): return x
        attacca.fuse(other)

    def test_under_torch_compile(self):
        for function in (lambda x: (doubled(x),), lambda x: attacca.fuse(lambda y: (y * 2,))(x),
                         lambda x: [doubled(x)]):
            self.compare(torch.compile(function, backend="aot_eager")(X), function(X))

    def test_under_symbolic_trace(self):
        for function in (lambda x: doubled(x), lambda x: attacca.matmul(x, W),
                         lambda x: attacca.fuse(sum)([x, x])):
            with self.assertRaisesRegex(attacca.Error, "torch.fx.wrap"):
                torch.fx.symbolic_trace(function)

    def test_modules_are_for_torch_compile(self):
        with self.assertRaisesRegex(attacca.Error, "torch.compile"):
            attacca.fuse(torch.nn.Linear(8, 8))


if __name__ == "__main__":
    unittest.main()
