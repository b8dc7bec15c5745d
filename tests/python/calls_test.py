"""Calls that repeat an earlier one are launched without checking their arguments again.

Each test makes a call, then one that differs in a single property: it must give its own result, or
the error that it would give as a first call.
"""
import gc
import os
import threading
import unittest

import numpy as np
import torch

import attacca

TEXT = "graph g(a: f32[M, K], b: f32[K, N], bias: f32[N]) { return relu(a @ b + bias) }"
EPILOGUE = "relu(acc + row(bias))"


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def want(a, b, bias):
    a, b, bias = (np.asarray(each, np.float64) for each in (a, b, bias))
    return np.maximum(a @ b + bias, 0)


class Calls(unittest.TestCase):
    def setUp(self):
        self.plan = attacca.compile(TEXT)

    def ways(self):
        """A plan, a plan by name, and matmul."""
        yield "plan", self.plan
        yield "named", lambda a, b, bias, **out: self.plan(a, bias=bias, b=b, **out)
        yield "matmul", lambda a, b, bias, **out: attacca.matmul(a, b, EPILOGUE, bias=bias, **out)

    def check(self, call, *given, **out):
        got = call(*given, **out)
        np.testing.assert_allclose(np.asarray(got), want(*given), rtol=1e-5, atol=1e-5)
        return got

    def each(self, change, convert=lambda array: array):
        """Calls twice with the same tensors, so that the second is launched from the cache, then
        with what ``change`` makes of them, then with the first again."""
        for name, call in self.ways():
            with self.subTest(name):
                given = [convert(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
                self.check(call, *given)
                self.check(call, *given)
                changed = change(*given)
                self.check(call, *changed)
                self.check(call, *changed)
                self.check(call, *given)

    def test_a_repeated_call_is_launched_from_the_cache(self):
        given = numbers(4, 16), numbers(16, 16), numbers(16)
        self.plan(*given)
        self.assertEqual(len(self.plan._engine.cache), 1)
        for out in (None, numbers(4, 16)):
            expected = self.plan(*given, out=out)
            got = self.plan._engine.cache.run(given, out)
            self.assertIsNotNone(got)
            np.testing.assert_array_equal(got, expected)
        self.assertIsNone(self.plan._engine.cache.run((numbers(5, 16), *given[1:]), None))

    def test_an_out_is_no_input(self):
        given, out = (numbers(4, 16), numbers(16, 16), numbers(16)), numbers(4, 16)
        self.plan(*given, out=out)
        with self.assertRaisesRegex(attacca.Error, "4 inputs"):
            self.plan(*given, out)
        self.plan(*given)
        with self.assertRaisesRegex(attacca.Error, "missing"):
            self.plan(*given[:2], out=given[2])

    def test_other_strides_of_the_same_shape(self):
        self.each(lambda a, b, bias: (a, np.ascontiguousarray(b.T).T, bias))
        self.each(lambda a, b, bias: (a, b.t().contiguous().t(), bias), torch.from_numpy)

    def test_padded_rows(self):
        def padded(a, b, bias):
            wide = np.full((4, 20), np.nan, np.float32)
            wide[:, 2:18] = a
            return wide[:, 2:18], b, bias
        self.each(padded)
        self.each(lambda a, b, bias: (torch.from_numpy(padded(np.asarray(a), b, bias)[0]), b, bias),
                  torch.from_numpy)

    def test_other_sizes(self):
        self.each(lambda a, b, bias: (numbers(7, 16), b, bias))
        self.each(lambda a, b, bias: (numbers(4, 8), numbers(8, 24), numbers(24)))

    def test_a_tensor_resized_in_place(self):
        a, b, bias = (torch.from_numpy(x) for x in (numbers(4, 16), numbers(16, 16), numbers(16)))
        for name, call in self.ways():
            with self.subTest(name):
                a = torch.from_numpy(numbers(4, 16))
                self.check(call, a, b, bias)
                self.check(call, a, b, bias)
                a.resize_(2, 16)
                self.assertEqual(self.check(call, a, b, bias).shape, (2, 16))
                a.set_(torch.from_numpy(numbers(16, 6, seed=1))).t_()
                self.assertEqual(self.check(call, a, b, bias).shape, (6, 16))

    def test_ids_used_again(self):
        seen = set()
        for rows in [3, 5] * 50:
            a = numbers(rows, 16, seed=rows)
            seen.add(id(a))
            self.assertEqual(self.check(self.plan, a, numbers(16, 16), numbers(16)).shape[0], rows)
            del a
            gc.collect(0)
        self.assertLess(len(seen), 100)

    def test_another_dtype_of_the_same_size(self):
        given = numbers(4, 16), numbers(16, 16), numbers(16)
        for name, call in self.ways():
            for convert, dtype in ((np.asarray, np.int32), (torch.from_numpy, torch.int32)):
                with self.subTest(name, dtype=dtype):
                    a, b, bias = (convert(each) for each in given)
                    self.check(call, a, b, bias)
                    self.check(call, a, b, bias)
                    with self.assertRaisesRegex(attacca.Error, "s32"):
                        call(a.view(dtype), b, bias)
        half = torch.ones(4, 16, dtype=torch.float16)
        for dtype in (torch.float16, torch.bfloat16):
            for _ in range(2):
                got = attacca.matmul(half.to(dtype), torch.ones(16, 16, dtype=dtype))
                self.assertEqual((got.dtype, got[0, 0].item()), (dtype, 16))

    def test_bytes_in_another_order(self):
        a, b, bias = numbers(4, 16), numbers(16, 16), numbers(16)
        self.check(self.plan, a, b, bias)
        with self.assertRaisesRegex(attacca.Error, "dtype >f4"):
            self.plan(a.astype(">f4"), b, bias)

    def test_another_device_and_layout(self):
        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        for name, call in self.ways():
            with self.subTest(name):
                self.check(call, *given)
                with self.assertRaisesRegex(attacca.Error, "meta"):
                    call(given[0].to("meta"), *given[1:])
                with self.assertRaisesRegex(attacca.Error, "layout torch.sparse"):
                    call(given[0].to_sparse(), *given[1:])
                with self.assertRaisesRegex(attacca.Error, "masked"):
                    call(np.ma.masked_array(given[0]), *given[1:])

    def test_gradients(self):
        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        for name, call in self.ways():
            with self.subTest(name):
                self.check(call, *given)
                weight = torch.nn.Parameter(given[1])
                with torch.no_grad():
                    for _ in range(3):
                        self.check(call, given[0], weight, given[2])
                for _ in range(2):
                    with self.assertRaisesRegex(attacca.Error, "requires a gradient"):
                        call(given[0], weight, given[2])
                given[1].requires_grad_()
                with self.assertRaisesRegex(attacca.Error, "requires a gradient"):
                    call(*given)
                given[1].requires_grad_(False)

    def test_outs_count_as_changed(self):
        """Otherwise a derivative would be computed from what is no longer there."""
        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        for name, call in self.ways():
            for listed in (False, True):
                with self.subTest(name, listed=listed):
                    out, weight = torch.zeros(4, 16), torch.ones(4, 16, requires_grad=True)
                    for _ in range(3):  # the second is known
                        product = (out * weight).sum()
                        call(*given, out=[out] if listed else out)
                        with self.assertRaisesRegex(RuntimeError, "modified by an inplace"):
                            product.backward()
                    with torch.inference_mode():
                        call(*given, out=torch.empty(4, 16))

    def test_lazily_negated(self):
        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        self.check(self.plan, *given)
        with self.assertRaisesRegex(attacca.Error, "negated"):
            self.plan(torch._neg_view(given[0]), *given[1:])

    def test_torch_watches(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Seen(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.names = []

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self.names.append(str(func))
                return func(*args, **(kwargs or {}))

        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        for name, call in self.ways():
            with self.subTest(name):
                self.check(call, *given)
                self.check(call, *given)
                with Seen() as mode:
                    call(*given)
                self.assertIn("attacca.", " ".join(mode.names))
                mapped = torch.vmap(lambda a: call(a, *given[1:]))(torch.stack([given[0]] * 2))
                np.testing.assert_allclose(mapped[1], want(*given), rtol=1e-5, atol=1e-5)

    def test_out(self):
        given = numbers(4, 16), numbers(16, 16), numbers(16)
        for name, call in self.ways():
            for like in (np.empty, torch.empty):
                with self.subTest(name, like=like):
                    for _ in range(2):
                        dtype = (torch if like is torch.empty else np).float32
                        for out in (like((4, 16), dtype=dtype), np.empty((16, 4), np.float32).T,
                                    np.empty((4, 20), np.float32)[:, :16]):
                            self.assertIs(self.check(call, *given, out=out), out)
                    fixed = np.empty((4, 16), np.float32)
                    self.check(call, *given, out=fixed)
                    fixed.flags.writeable = False
                    with self.assertRaisesRegex(attacca.Error, "read-only"):
                        call(*given, out=fixed)
                    square = numbers(16, 16)
                    out = np.empty((16, 16), np.float32)
                    self.check(call, square, given[1], given[2], out=out)
                    with self.assertRaisesRegex(attacca.Error, "overlaps input a"):
                        call(square, given[1], given[2], out=square)

    def test_one_out_in_a_list(self):
        given = numbers(4, 16), numbers(16, 16), numbers(16)
        out = np.empty((4, 16), np.float32)
        for _ in range(2):
            got = self.plan(*given, out=[out])
            self.assertIs(type(got), tuple)
            self.assertIs(got[0], out)
            self.assertIs(attacca.matmul(given[0], given[1], out=[out]), out)

    def test_several_results(self):
        a, b = numbers(4, 16), numbers(16, 16)
        for _ in range(3):
            first, second = attacca.matmul(a, b, "acc, relu(acc)")
            np.testing.assert_allclose(first, a @ b, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(second, np.maximum(first, 0))

    def test_leading_axes(self):
        x, b = numbers(2, 3, 16), numbers(16, 16)
        for a in (x, x, x[:, :2], x[:, :2], x.reshape(6, 16), x):
            np.testing.assert_allclose(attacca.matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)

    def test_options_of_matmul(self):
        a, b = numbers(4, 16), numbers(16, 16)
        for _ in range(2):
            self.assertEqual(attacca.matmul(a, b).dtype, np.float32)
            self.assertEqual(attacca.matmul(a, b, out_dtype="f16").dtype, np.float16)
            self.assertEqual(attacca.matmul(a, b, out_dtype=np.float64).dtype, np.float64)
            np.testing.assert_array_equal(attacca.matmul(a, b, "acc * 0"), np.zeros((4, 16)))
            attacca.matmul(a, b, threads=1, tuning_seconds=1)
            for wrong in ({"threads": True}, {"tuning_seconds": True}, {"mode": ["fp32"]},
                          {"threads": "1"}):
                with self.assertRaises(attacca.Error):
                    attacca.matmul(a, b, **{"threads": 1, "tuning_seconds": 1, **wrong})

    def test_operands_by_name(self):
        """The order of operands in a call is not the order of the plan's inputs."""
        a, b, r = numbers(4, 16), numbers(16, 16), numbers(16, seed=1)
        s = numbers(16, seed=2)
        for _ in range(2):
            for operands in ({"r": r, "s": s}, {"s": s, "r": r}, {"r": s, "s": r}):
                np.testing.assert_allclose(
                    attacca.matmul(a, b, "acc * row(r) + row(s)", **operands),
                    a @ b * operands["r"] + operands["s"], rtol=1e-4, atol=1e-4)

    def test_the_cache_is_bounded(self):
        b, bias = numbers(16, 16), numbers(16)
        for rows in range(1, 300):
            self.plan(numbers(rows, 16), b, bias)
        self.assertLessEqual(len(self.plan._engine.cache), 256)
        self.check(self.plan, numbers(1, 16), b, bias)

    def test_threads(self):
        b, bias = numbers(16, 16), numbers(16)
        failures = []

        def work(seed):
            try:
                for i in range(200):
                    a = numbers(1 + (seed + i) % 7, 16, seed=seed)
                    for _, call in self.ways():
                        self.check(call, a, b, bias)
            except BaseException as error:  # noqa: BLE001  shown by the main thread
                failures.append(error)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_fork(self):
        given = numbers(4, 16), numbers(16, 16), numbers(16)
        for _, call in self.ways():
            self.check(call, *given)
        child = os.fork()
        if child == 0:
            try:
                for _, call in self.ways():
                    self.check(call, *given)
                    self.check(call, numbers(9, 16), *given[1:])
            except BaseException:  # noqa: BLE001  the child must not run the other tests
                os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Regions(unittest.TestCase):
    def test_a_region_called_with_other_layouts(self):
        import attacca.torch
        from attacca.torch._ops.lowering import _run
        from attacca.torch._ops.region import region

        given = [torch.from_numpy(each) for each in (numbers(4, 16), numbers(16, 16), numbers(16))]
        other = [given[0], given[1].t().contiguous().t(), given[2]]
        more = [torch.from_numpy(numbers(7, 16)), *given[1:]]
        for tensors in (given, given, other, other, more, given):
            result, = region(tensors, TEXT, "fp32", "known", 0.0)
            np.testing.assert_allclose(result, want(*tensors), rtol=1e-5, atol=1e-5)
            out = torch.empty(tensors[0].shape[0], 16)
            _run(*tensors, f"fp32 known 0.0 {TEXT}", out=out)
            np.testing.assert_array_equal(out, result)
        with self.assertRaisesRegex(attacca.Error, "s32"):
            _run(given[0].view(torch.int32), *given[1:], f"fp32 known 0.0 {TEXT}", out=out)


if __name__ == "__main__":
    unittest.main()
