"""attacca.torch.QuantizedLinear against the dequantised weights in f64, and checkpoints' layouts
against their published formulas, written here with NumPy."""
import copy
import io
import unittest

import numpy as np
import torch

import attacca
import attacca.torch
from attacca.torch import QuantizedLinear

RANDOM = np.random.default_rng(3)
EPSILON = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def setUpModule():
    torch.manual_seed(5)
    torch.set_grad_enabled(False)


def close(case, got, x, weights, bias=None):
    """The result of a product whose weights are rounded to x's dtype, and which is rounded."""
    wide = x.double()
    wanted = wide @ weights.double().T
    room = wide.abs() @ weights.double().abs().T
    if bias is not None:
        wanted, room = wanted + bias.double(), room + bias.double().abs()
    case.assertEqual((got.dtype, got.shape), (x.dtype, wanted.shape))
    worst = ((got.double() - wanted).abs() - EPSILON[x.dtype] * room).max() if got.numel() else 0
    case.assertLessEqual(float(worst), 0)


class FromLinear(unittest.TestCase):
    def test_every_form_computes_with_the_dequantised_weights(self):
        for dtype in EPSILON:
            for bits in (4, 8):
                for group in (32, 64, 128, None):
                    for symmetric in (True, False):
                        linear = torch.nn.Linear(192, 50, bias=symmetric, dtype=dtype)
                        layer = QuantizedLinear.from_linear(linear, bits, group,
                                                            symmetric=symmetric)
                        weights = layer.dequantized(torch.float64)
                        step = 2 * linear.weight.abs().max() / (2**bits - 2)
                        with self.subTest(dtype=dtype, bits=bits, group=group, symmetric=symmetric):
                            error = (weights - linear.weight.double()).abs().max()
                            self.assertLess(float(error), 1.01 * float(step))
                            self.assertGreater(float(error), 0)
                            x = torch.randn(5, 192, dtype=dtype)
                            close(self, layer(x), x, weights, linear.bias)

    def test_any_leading_dimensions_and_strides(self):
        linear = torch.nn.Linear(64, 40)
        layer = QuantizedLinear.from_linear(linear, 8, 64)
        weights = layer.dequantized(torch.float64)
        for x in (torch.randn(64), torch.randn(2, 3, 4, 64), torch.randn(0, 64),
                  torch.randn(64, 7).T, torch.randn(9, 128)[::2, :64]):
            with self.subTest(shape=x.shape):
                close(self, layer(x), x, weights, linear.bias)
        self.assertIn("in_features=64, out_features=40, bits=8, group=64, zeros=False, scales=f32, "
                      "bias=True", repr(layer))

    def test_activations_of_another_dtype(self):
        layer = QuantizedLinear.from_linear(torch.nn.Linear(64, 40, dtype=torch.float16), 4, 64)
        x = torch.randn(3, 64, dtype=torch.bfloat16)
        close(self, layer(x), x, layer.dequantized(torch.float64), layer.bias)


def words(fields, bits):
    """Fields along the last axis as int32 words, the first one in the lowest bits."""
    count = 32 // bits
    grouped = fields.reshape(*fields.shape[:-1], -1, count).astype(np.uint64)
    whole = sum(grouped[..., i] << np.uint64(bits * i) for i in range(count))
    return torch.tensor(whole.astype(np.uint32).view(np.int32))


class Gptq(unittest.TestCase):
    def case(self, bits, group, offset, act_order=False, symmetric=False, k=192, n=40):
        """The layer, and W[k, n] = scales[g_idx[k], n] * (q[k, n] - (z[g_idx[k], n] + offset))."""
        groups = 1 if group is None else k // group
        q = RANDOM.integers(0, 2**bits, (k, n))
        z = RANDOM.integers(0, 2**bits - offset, (groups, n))
        if symmetric:
            z[:] = 2**(bits - 1) - offset
        scales = RANDOM.random((groups, n)).astype(np.float16)
        g_idx = np.arange(k) // (k // groups)
        if act_order:
            RANDOM.shuffle(g_idx)
        weights = np.empty((k, n))
        for row in range(k):
            weights[row] = scales[g_idx[row]].astype(np.float64) * (q[row]
                                                                    - (z[g_idx[row]] + offset))
        layer = QuantizedLinear.from_gptq(
            words(q.T, bits).T.contiguous(), words(z, bits), torch.tensor(scales),
            torch.tensor(g_idx.astype(np.int32)), torch.randn(n).half(), bits=bits,
            zero_offset=offset)
        return layer, torch.tensor(weights.T)

    def test_the_formula_holds(self):
        for bits in (4, 8):
            for group in (32, 64, 96, None):
                for offset in (0, 1):
                    for act_order in (False, True):
                        for symmetric in (False, True):
                            layer, weights = self.case(bits, group, offset, act_order, symmetric)
                            with self.subTest(bits=bits, group=group, offset=offset,
                                              act_order=act_order, symmetric=symmetric):
                                torch.testing.assert_close(layer.dequantized(torch.float64),
                                                           weights, rtol=1e-6, atol=0)
                                x = torch.randn(3, 192)
                                close(self, layer(x), x, weights, layer.bias)
                                self.assertEqual(layer.order is not None,
                                                 act_order and group is not None)

    def test_a_zero_point_that_four_bits_do_not_hold(self):
        q = RANDOM.integers(0, 16, (64, 8))
        layer = QuantizedLinear.from_gptq(words(q.T, 4).T.contiguous(),
                                          words(np.full((1, 8), 15), 4), torch.ones(1, 8))
        torch.testing.assert_close(layer.dequantized(torch.float64), torch.tensor(q.T - 16.0))

    def test_scales_and_bias_in_the_activations_dtype(self):
        q, z = RANDOM.integers(0, 16, (64, 8)), RANDOM.integers(0, 16, (1, 8))
        layer = QuantizedLinear.from_gptq(words(q.T, 4).T.contiguous(), words(z, 4),
                                          torch.rand(1, 8).half(), None, torch.rand(8).half(),
                                          dtype=torch.bfloat16)
        self.assertTrue(torch.equal(layer.dequantized("bf16"), layer.dequantized(torch.bfloat16)))
        self.assertIn("scales=bf16", repr(layer))
        self.assertEqual(layer.bias.dtype, torch.bfloat16)

    def test_what_does_not_fit_is_an_error(self):
        good = {"qweight": torch.zeros(8, 8, dtype=torch.int32),
                "qzeros": torch.zeros(2, 1, dtype=torch.int32), "scales": torch.ones(2, 8)}
        QuantizedLinear.from_gptq(**good)
        for change, where in (({"qweight": torch.zeros(8, 8)}, "qweight"),
                              ({"qzeros": torch.zeros(1, 1, dtype=torch.int32)}, "qzeros"),
                              ({"scales": torch.ones(3, 8)}, "scales"),
                              ({"g_idx": torch.zeros(64, dtype=torch.int32)}, "g_idx"),
                              ({"g_idx": torch.zeros(3, dtype=torch.int32)}, "g_idx"),
                              ({"zero_offset": -1}, "qzeros"), ({"bits": 3}, "bits"),
                              ({"zero_offset": "a"}, "zero_offset"),
                              ({"zero_offset": 2**70}, "zero_offset"),
                              ({"dtype": "cpu"}, "dtype"), ({"bias": [0.0] * 8}, "bias"),
                              ({"g_idx": "a"}, "g_idx"), ({"qweight": None}, "qweight"),
                              ({"scales": torch.ones(2, 8, device="meta")}, "scales")):
            with self.subTest(change=change), self.assertRaises(attacca.Error) as raised:
                QuantizedLinear.from_gptq(**{**good, **change})
            self.assertEqual(raised.exception.where, where)


class Awq(unittest.TestCase):
    def test_the_formula_holds(self):
        for group in (32, 64, 128, 256):
            for symmetric in (False, True):
                k, n = 256, 48
                q = RANDOM.integers(0, 16, (k, n))
                z = RANDOM.integers(0, 16, (k // group, n))
                if symmetric:
                    z[:] = 8
                scales = RANDOM.random((k // group, n)).astype(np.float16)
                # nibble i of a word has column 8 w + order[i]
                columns = np.arange(n).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(-1)
                layer = QuantizedLinear.from_awq(words(q[:, columns], 4), words(z[:, columns], 4),
                                                 torch.tensor(scales))
                weights = np.empty((k, n))
                for row in range(k):
                    weights[row] = (q[row] - z[row // group]) * scales[row // group].astype(float)
                with self.subTest(group=group, symmetric=symmetric):
                    torch.testing.assert_close(layer.dequantized(torch.float64),
                                               torch.tensor(weights.T), rtol=1e-6, atol=0)
                    x = torch.randn(3, k).half()
                    close(self, layer(x), x, torch.tensor(weights.T))


class State(unittest.TestCase):
    def test_a_new_layer_takes_any_form_from_a_state_dict(self):
        gptq = Gptq()
        for made in (QuantizedLinear.from_linear(torch.nn.Linear(192, 40), 4, 64),
                     QuantizedLinear.from_linear(torch.nn.Linear(192, 40), 8, None),
                     QuantizedLinear.from_linear(torch.nn.Linear(192, 40), 4, 32, symmetric=False),
                     gptq.case(4, 64, 1, act_order=True)[0], gptq.case(4, 32, 1)[0]):
            file = io.BytesIO()
            torch.save(made.state_dict(), file)
            file.seek(0)
            new = QuantizedLinear(192, 40)
            new.load_state_dict(torch.load(file))
            x = torch.randn(2, 192)
            with self.subTest(made=repr(made)):
                self.assertTrue(torch.equal(new(x), made(x)))
                self.assertEqual(repr(new), repr(made))
                self.assertTrue(torch.equal(copy.deepcopy(new)(x), made(x)))

    def test_wrong_states_are_refused(self):
        made = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 4, 64)
        with self.assertRaisesRegex(RuntimeError, r"packed weights of shape \(40, 64\)"):
            QuantizedLinear(64, 41, bias=False).load_state_dict({"packed": made.packed})
        state = made.state_dict()
        state["packed"] = state["packed"].clone()
        state["packed"][700] ^= 1
        with self.assertRaisesRegex(RuntimeError, "packed: "):
            QuantizedLinear(64, 40).load_state_dict(state)
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            QuantizedLinear(64, 40).load_state_dict({"bias": made.bias})
        with self.assertRaisesRegex(attacca.Error, "no weights"):
            QuantizedLinear(64, 40)(torch.ones(2, 64))

    def test_a_refused_state_leaves_the_weights(self):
        x = torch.randn(3, 128)
        for group in (32, 64):
            layer, other = (QuantizedLinear.from_linear(torch.nn.Linear(128, 40), 8, group)
                            for _ in range(2))
            state, before = other.state_dict(), layer(x)
            wrong = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 8, group).state_dict()
            order = torch.arange(128)
            refused = [wrong, {**state, "order": order + 5}, {**state, "order": order[:64]},
                       {**state, "order": torch.zeros_like(order)}]
            if group == 32:
                refused += [{**state, "scales": each} for each in (
                    state["scales"].T, state["scales"].int(), torch.tensor(1.),
                    torch.zeros(40, 0))]
                refused += [{**state, "packed": torch.zeros(4, dtype=torch.uint8)},
                            {name: state[name] for name in ("codes", "bias")}]
            for each in refused:
                with self.subTest(names=[*each]), self.assertRaises(RuntimeError):
                    layer.load_state_dict(each)
                torch.testing.assert_close(layer(x), before, rtol=0, atol=0)

    def test_weights_on_the_meta_device_compute_nothing(self):
        x, linear = torch.randn(3, 64), torch.nn.Linear(64, 8)
        layer = QuantizedLinear.from_linear(linear, 4, 64)
        state = layer.state_dict()
        del state["bias"]
        partly = QuantizedLinear(64, 8, device="meta")
        partly.load_state_dict(state, assign=True, strict=False)
        for each in (partly, layer.to("meta")):
            with self.assertRaisesRegex(attacca.Error, "x is on cpu, the layer on meta"):
                each(x)
            self.assertEqual(each.to_empty(device="meta")(x.to("meta")).shape, (3, 8))
        blocks, scales = torch.zeros(4, 1, 16, dtype=torch.uint8), torch.zeros(4, 1,
                                                                               dtype=torch.uint8)
        with self.assertRaisesRegex(attacca.Error, "scales on meta"):
            attacca.torch.mxfp4(blocks, scales.to("meta"))

    def test_a_cast_of_a_model_leaves_packed_weights_alone(self):
        made = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 4, 64)
        before = made.dequantized()
        made.bfloat16()
        self.assertTrue(torch.equal(made.dequantized(), before))
        self.assertEqual(made.bias.dtype, torch.bfloat16)

    def test_buffers_of_another_form_are_refused(self):
        linear, x = torch.nn.Linear(128, 40), torch.randn(2, 128)
        even, uneven = (QuantizedLinear.from_linear(linear, 8, 32, symmetric=symmetric)
                        for symmetric in (True, False))
        for layer, other in ((even, uneven), (uneven, even)):
            state = {"zeros": None, **other.state_dict()}
            with self.assertRaisesRegex(attacca.Error, "tensors of weights in a layer"):
                torch.func.functional_call(layer, state, (x,))
        even.zeros = uneven.zeros
        for call in (even.dequantized, lambda: even(x), lambda: torch.export.export(even, (x,))):
            with self.assertRaisesRegex(Exception, "3 tensors of weights in a layer .* as 2"):
                call()

    def test_a_cast_layer_shows_its_dtype(self):
        made = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 8, 32)
        self.assertIn("bits=8, group=32, zeros=False, scales=f32, bias=True", repr(made))
        self.assertIn("scales=bf16", repr(made.bfloat16()))

    def test_the_state_of_a_cast_layer_is_loaded(self):
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            for group in (32, 64):
                made = QuantizedLinear.from_linear(torch.nn.Linear(128, 40), 4, group).to(dtype)
                loaded = QuantizedLinear(128, 40, dtype=dtype)
                loaded.load_state_dict(made.state_dict())
                x = torch.randn(3, 128, dtype=dtype)
                wanted = torch.nn.functional.linear(x, made.dequantized(dtype), made.bias)
                torch.testing.assert_close(loaded(x), wanted)


class Calls(unittest.TestCase):
    def test_bad_inputs(self):
        with self.assertRaisesRegex(attacca.Error, "x has shape"):
            QuantizedLinear.from_linear(torch.nn.Linear(64, 8), 8)(torch.tensor(1.))
        layer = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 4, 64)
        with self.assertRaisesRegex(attacca.Error, "last dimension is 64"):
            layer(torch.ones(2, 65))
        with self.assertRaisesRegex(attacca.Error, "give a matrix of floats"):
            layer(torch.ones(2, 64, dtype=torch.int32))
        with torch.enable_grad(), self.assertRaisesRegex(attacca.Error, "gradient"):
            layer(torch.ones(2, 64, requires_grad=True))
        for x in (np.ones((2, 64), np.float32), [1.0], None):
            with self.assertRaisesRegex(attacca.Error, "x is .*: give a torch.Tensor"):
                layer(x)
        with self.assertRaisesRegex(attacca.Error, "unknown dtype"):
            layer.dequantized("float")
        with self.assertRaisesRegex(attacca.Error, "groups of 40"):
            QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 4, 40)
        for linear in (torch.nn.Linear(64, 40, device="meta"), torch.nn.ReLU(), None):
            with self.assertRaisesRegex(attacca.Error, "linear.weight is"):
                QuantizedLinear.from_linear(linear)

    def test_vmap(self):
        layer = QuantizedLinear.from_linear(torch.nn.Linear(64, 40), 4, 64)
        x = torch.randn(3, 5, 64)
        torch.testing.assert_close(torch.vmap(layer)(x), layer(x))


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        attacca.torch.reset()
        self.packed = QuantizedLinear.from_linear(
            torch.nn.Linear(128, 192, dtype=torch.bfloat16), 4, 64)
        self.plain = QuantizedLinear.from_linear(
            torch.nn.Linear(192, 64, bias=False, dtype=torch.bfloat16), 8, 32)

    def model(self, x):
        h = torch.nn.functional.silu(self.packed(x))
        return torch.relu(self.plain(h) * 2)

    def check(self, compiled):
        for rows in (3, 5):
            x = torch.randn(2, rows, 128).bfloat16()
            h = x.double() @ self.packed.dequantized(torch.float64).T + self.packed.bias.double()
            h = torch.nn.functional.silu(h)
            wanted = torch.relu(h @ self.plain.dequantized(torch.float64).T * 2)
            torch.testing.assert_close(compiled(x).double(), wanted, rtol=2e-2, atol=2e-2)

    def test_what_follows_joins_the_products_regions(self):
        self.check(torch.compile(self.model, backend="attacca", dynamic=True, fullgraph=True,
                                 options={"policy": "always"}))
        report = attacca.torch.report()
        texts = [fused for graph in report.graphs for fused in graph.fused]
        self.assertEqual(len(texts), 2, report.details())
        details = report.details()
        self.assertIn("silu", details)
        self.assertIn("quantized_linear.weights^T", details)

    def test_inductor_calls_the_layers_own_kernel(self):
        self.check(torch.compile(self.model, dynamic=True, fullgraph=True))

    def test_layers_are_exported_by_themselves(self):
        x = torch.randn(5, 128)
        for group in (32, 64):
            layer = QuantizedLinear.from_linear(torch.nn.Linear(128, 48), 4, group)
            loaded = QuantizedLinear(128, 48)
            loaded.load_state_dict(layer.state_dict())
            for each in (layer, loaded):
                program = torch.export.export(each, (x,), strict=False)
                torch.testing.assert_close(program.module()(x), layer(x))

    def test_exported_programs_have_regions(self):
        x = torch.randn(4, 128).bfloat16()
        layer = torch.nn.Sequential(self.packed, torch.nn.SiLU())
        program = attacca.compile(torch.export.export(layer, (x,)))
        self.assertEqual(program.regions, 1)
        torch.testing.assert_close(program(x), layer(x), rtol=2e-2, atol=2e-2)


if __name__ == "__main__":
    unittest.main()
