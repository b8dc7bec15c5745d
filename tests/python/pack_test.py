"""attacca.pack: packed weights, unpacked by a graph, against NumPy in f64."""
import unittest

import ml_dtypes
import numpy as np
import torch

import attacca

RANDOM = np.random.default_rng(7)


def unpacked(packed, dtype="f64"):
    """The weights as a graph computes them."""
    size = packed.data.shape[0]
    return attacca.compile(f"graph g(p: u8[{size}]) {{ return {packed.text('p', dtype)} }}")(
        packed.data)


def by_element(values, group, k):
    """[N, groups] repeated along k, as f64."""
    return np.repeat(np.asarray(values).astype(np.float64), group or k, axis=1)[:, :k]


class Codes(unittest.TestCase):
    def test_every_form_of_codes_is_code_minus_zero_times_scale(self):
        for dtype, bits in ((np.int8, 8), (np.uint8, 8), (np.int8, 4), (np.uint8, 4)):
            low = 0 if dtype == np.uint8 else -2**(bits - 1)
            for group in (None, 64, 128, 256):
                for zeros in (False, True):
                    n, k = int(RANDOM.integers(1, 140)), 2 * int(RANDOM.integers(1, 200))
                    groups = -(-k // (group or k))
                    codes = RANDOM.integers(low, low + 2**bits, (n, k)).astype(dtype)
                    scales = RANDOM.random((n, groups)).astype(np.float32)
                    zero = RANDOM.integers(low, low + 2**bits, (n, groups)).astype(dtype)
                    packed = attacca.pack(codes, scales, zero if zeros else None, bits=bits,
                                          group=group)
                    wanted = codes.astype(np.float64) * by_element(scales, group, k)
                    if zeros:
                        wanted -= by_element(zero, group, k) * by_element(scales, group, k)
                    with self.subTest(dtype=dtype, bits=bits, group=group, zeros=zeros):
                        np.testing.assert_allclose(unpacked(packed), wanted, rtol=1e-14)
                        self.assertEqual(attacca.Packed.of(packed.data)[1:], packed[1:])

    def test_strided_codes_and_scales_of_one_axis(self):
        whole = RANDOM.integers(-8, 8, (96, 50)).astype(np.int8)
        scales = RANDOM.random(48).astype(np.float16)
        packed = attacca.pack(whole.T[1:49], scales, bits=4)
        wanted = whole.T[1:49].astype(np.float64) * scales.astype(np.float64)[:, None]
        np.testing.assert_array_equal(unpacked(packed), wanted)
        self.assertEqual((packed.scales, packed.group), ("f16", None))

    def test_eight_bit_floats_and_scales_in_another_dtype(self):
        weights = RANDOM.standard_normal((70, 90)).astype(ml_dtypes.float8_e4m3fn)
        scales = RANDOM.random((70, 2)).astype(np.float32)
        packed = attacca.pack(weights, scales, group=64, scale_dtype="bf16")
        rounded = scales.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(
            unpacked(packed), weights.astype(np.float64) * by_element(rounded, 64, 90))
        self.assertEqual(packed.scales, "bf16")

    def test_a_product_reads_torch_tensors(self):
        codes = torch.randint(-8, 8, (33, 130), dtype=torch.int8)
        scales = torch.rand(33, 3).bfloat16()
        packed = attacca.pack(codes, scales, bits=4, group=64)
        self.assertIsInstance(packed.data, torch.Tensor)
        x = torch.randn(5, 130).bfloat16()
        plan = attacca.compile(
            f"graph g(x: bf16[M, 130], p: u8[{len(packed.data)}]) "
            f"{{ return cast(x @ transpose({packed.text('p', torch.bfloat16)}), f32) }}")
        weights = torch.repeat_interleave(scales, 64, 1)[:, :130] * codes
        torch.testing.assert_close(plan(x, packed.data).double(),
                                   x.double() @ weights.double().T, rtol=1e-2, atol=1e-1)


class Whole(unittest.TestCase):
    """Scales of uint8: whole numbers of int8."""

    def test_codes_are_whole_numbers(self):
        for dtype, low in ((np.int8, -8), (np.uint8, 0)):
            for group in (None, 128, 256):
                n, k = int(RANDOM.integers(1, 140)), 2 * int(RANDOM.integers(1, 300))
                groups = -(-k // (group or k))
                codes = RANDOM.integers(low, low + 16, (n, k)).astype(dtype)
                zeros = RANDOM.integers(low, low + 16, (n, groups)).astype(dtype)
                scales = RANDOM.integers(0, 9, (n, groups)).astype(np.uint8)
                packed = attacca.pack(codes, scales, zeros, bits=4, group=group)
                wanted = (codes - by_element(zeros, group, k)) * by_element(scales, group, k)
                with self.subTest(dtype=dtype, group=group):
                    np.testing.assert_array_equal(unpacked(packed, None), wanted)
                    self.assertEqual(attacca.Packed.of(packed.data)[1:], packed[1:])

    def test_floats_are_close_and_multiply_exactly(self):
        weights = torch.randn(65, 640)
        packed = attacca.pack(weights, bits=4, group=128, scale_dtype=torch.uint8)
        whole = torch.as_tensor(unpacked(packed, None))
        self.assertEqual(whole.dtype, torch.int8)
        step = weights.abs().unflatten(1, (-1, 128)).amax(2).repeat_interleave(128, 1) / 7
        error = (whole * packed.rows[:, None] - weights).abs()
        # Half a step of codes, which is rounded up to a whole number, and half a whole number.
        self.assertTrue((error <= 0.5001 * (step + 2.1 * packed.rows[:, None])).all())
        x = torch.randint(-128, 128, (5, 640), dtype=torch.int8)
        plan = attacca.compile(
            f"graph g(x: s8[M, 640], p: u8[{len(packed.data)}], r: f32[65]) "
            f"{{ return cast(x @ transpose({packed.text('p')}), f32) * r }}")
        wanted = (x.double() @ whole.double().T).float() * packed.rows
        torch.testing.assert_close(plan(x, packed.data, packed.rows), wanted)

    def test_what_is_no_s8_is_refused(self):
        codes = np.full((3, 128), 15, np.uint8)
        with self.assertRaisesRegex(attacca.Error, "135, no s8"):
            attacca.pack(codes, np.full(3, 9, np.uint8), bits=4)
        for keywords in ({"bits": 8}, {"bits": 4, "symmetric": False}, {"bits": 4, "group": 64}):
            with self.assertRaises(attacca.Error):
                attacca.pack(np.ones((3, 128), np.float32), scale_dtype="u8", **keywords)


class Floats(unittest.TestCase):
    def test_no_weight_is_farther_than_half_a_step(self):
        for make in (lambda w: w.astype(np.float32), lambda w: w.astype(np.float16),
                     lambda w: w.astype(ml_dtypes.bfloat16), lambda w: w,
                     lambda w: torch.tensor(w).bfloat16(), lambda w: torch.tensor(w.T).float().T):
            for bits in (4, 8):
                for group in (None, 64, 128):
                    for symmetric in (True, False):
                        n, k = int(RANDOM.integers(1, 80)), 2 * int(RANDOM.integers(1, 150))
                        # one row of zeros
                        values = RANDOM.standard_normal((n, k)) + RANDOM.random()
                        values[0] = 0
                        weights = make(values)
                        packed = attacca.pack(weights, bits=bits, group=group, symmetric=symmetric,
                                              scale_dtype="f32")
                        given = np.asarray(weights.double() if isinstance(weights, torch.Tensor)
                                           else weights, dtype=np.float64)
                        width, steps = group or k, np.empty_like(given)
                        for at in range(0, k, width):
                            part = given[:, at:at + width]
                            span = np.abs(part).max(1) / (2**(bits - 1) - 1) if symmetric else \
                                (np.maximum(part.max(1), 0) - np.minimum(part.min(1), 0)) \
                                / (2**bits - 1)
                            steps[:, at:at + width] = span[:, None]
                        with self.subTest(bits=bits, group=group, symmetric=symmetric):
                            error = np.abs(np.asarray(unpacked(packed)) - given)
                            # an end of a range with zero points may lie half a step outside
                            room = 0.5 if symmetric else 1.0
                            self.assertTrue((error <= steps * room * 1.001 + 1e-30).all())
                            self.assertTrue((error[0] == 0).all())

    def test_scales_have_the_weights_dtype_where_that_has_16_bits(self):
        weights = torch.randn(64, 128)
        self.assertEqual(attacca.pack(weights.bfloat16()).scales, "bf16")
        self.assertEqual(attacca.pack(weights.half()).scales, "f16")
        self.assertEqual(attacca.pack(weights).scales, "f32")
        self.assertEqual(attacca.pack(weights.half(), scale_dtype="f32").scales, "f32")

    def test_scales_below_the_normal_numbers_of_f16_keep_the_largest_weight(self):
        for largest in (1e-8, 3e-7, 1.5e-6, 1e-5, 4e-4):
            values = RANDOM.standard_normal((4, 64))
            values *= largest / np.abs(values).max(1, keepdims=True)
            for symmetric in (True, False):
                packed = attacca.pack(values, bits=8, symmetric=symmetric, scale_dtype="f16")
                given = np.asarray(unpacked(packed))
                with self.subTest(largest=largest, symmetric=symmetric):
                    # Half a code, where a code is at most the next number above the exact step.
                    most = 127 if symmetric else 255
                    step = np.ptp(values, 1).max() / most + 2.0**-24
                    self.assertLessEqual(np.abs(given - values).max(), step)

    def test_scales_are_rounded_to_whole_numbers(self):
        packed = attacca.pack(np.ones((2, 128), np.int8), np.array([1.9, 2.4], np.float32), bits=4,
                              scale_dtype="u8")
        self.assertEqual(np.unique(unpacked(packed, "s8")).tolist(), [2])

    def test_text_names_any_input(self):
        packed = attacca.pack(np.ones((4, 6), np.float32))
        for name in ("größe", "return", "bf16", 'q"x', "a.b", "a\\b", "tab\t"):
            text = packed.text(name)
            quoted = text[len("unpack("):text.index(", [")]
            plan = attacca.compile(f"graph g({quoted}: u8[{len(packed.data)}]) "
                                   f"{{ return {text} }}")
            self.assertEqual(plan(packed.data).shape, (4, 6), name)


class Errors(unittest.TestCase):
    def test_each_says_what_is_wrong_and_where(self):
        floats, codes = np.ones((8, 64), np.float32), np.ones((8, 64), np.int8)
        scales = np.ones((8, 1), np.float32)
        nan = floats.copy()
        nan[3, 5] = np.nan
        for arguments, keywords, where, what in (
                ((floats,), {"bits": 3}, "bits", "bits is 3"),
                ((floats,), {"group": 32}, "packing", "groups of 32"),
                ((floats,), {"group": 96}, "packing", "groups of 96"),
                ((floats,), {"group": 0}, "group", "group is 0"),
                ((floats,), {"scale_dtype": "s8"}, "scale_dtype", "scales of s8"),
                ((floats[0],), {}, "weights", "shape (64,)"),
                ((floats[:, :63],), {"bits": 4}, "weights", "K=63"),
                ((floats,), {"zeros": scales}, "zeros", "zeros without scales"),
                ((nan,), {}, "weights", "not finite"),
                ((floats * 1e30,), {"scale_dtype": "f16"}, "weights", "too large for f16"),
                ((codes,), {}, "weights", "weights of s8"),
                ((floats, scales), {}, "weights", "weights of f32"),
                ((codes, scales[:4]), {}, "scales", "(8, 1) is wanted"),
                ((codes, scales, scales), {}, "zeros", "zeros of f32"),
                ((codes, codes[:, :1]), {}, "scales", "scales of s8"),
                ((codes * 8, scales), {"bits": 4}, "weights", "codes from 8 to 8"),
                ((codes, scales), {"symmetric": False}, "symmetric", "zero points of their own"),
                ((codes.view(np.uint8), scales, np.full((8, 1), 16, np.uint8)), {"bits": 4},
                 "zeros", "zero points from 16 to 16"),
                ((codes, scales * 300), {"bits": 4, "scale_dtype": "u8", "group": 128}, "scales",
                 "scales from 300.0 to 300.0"),
                ((codes, scales * -1), {"bits": 4, "scale_dtype": "u8", "group": 128}, "scales",
                 "scales from -1.0 to -1.0"),
                ((codes, scales * np.nan), {}, "scales", "not finite"),
                ((codes, scales * 1e5), {"scale_dtype": "f16"}, "scales", "too large for f16")):
            with self.subTest(what=what), self.assertRaises(attacca.Error) as raised:
                attacca.pack(*arguments, **keywords)
            self.assertIn(what, str(raised.exception))
            self.assertEqual(raised.exception.where, where)

    def test_equal_if_described_alike_with_the_same_bytes(self):
        weights = torch.randn(16, 256)
        for form in ({}, {"bits": 4, "group": 128}, {"bits": 4, "group": 128, "scale_dtype": "u8"}):
            packed, again = attacca.pack(weights, **form), attacca.pack(weights, **form)
            self.assertEqual(packed, again)
            self.assertEqual(hash(packed), hash(again))
            self.assertIn(again, [None, packed])
            for other in (attacca.pack(weights * 2, **form), attacca.pack(weights[:8], **form),
                          packed._replace(data=None), 3, None):
                self.assertNotEqual(packed, other)

    def test_equality_of_tensors_with_strides_or_without_memory(self):
        packed = attacca.pack(torch.randn(8, 256), bits=4, group=128, scale_dtype="u8")
        apart = torch.zeros(2 * packed.data.numel(), dtype=torch.uint8)[::2].copy_(packed.data)
        rows = torch.zeros(8, 2)[:, 1].copy_(packed.rows)
        for data in (apart, apart.numpy()):
            self.assertEqual(packed, packed._replace(data=data, rows=rows))
        apart[-1] += 1
        self.assertNotEqual(packed, packed._replace(data=apart))
        self.assertNotEqual(packed, packed._replace(rows=packed.rows + 1))
        of_one = packed._replace(rows=packed.rows[:1].expand(8))
        self.assertEqual(of_one, of_one._replace(rows=of_one.rows.contiguous()))
        self.assertNotEqual(of_one, packed)
        elsewhere = packed._replace(data=packed.data.to("meta"))
        self.assertEqual(elsewhere, elsewhere._replace())
        for other in (packed, packed._replace(data=packed.data.to("meta"))):
            self.assertNotEqual(elsewhere, other)
            self.assertNotEqual(other, elsewhere)

    def test_a_damaged_tensor_is_not_described(self):
        packed = attacca.pack(np.ones((8, 64), np.float32))
        packed.data[300] ^= 1
        with self.assertRaisesRegex(attacca.Error, "damaged|checksum"):
            attacca.Packed.of(packed.data)
        with self.assertRaisesRegex(attacca.Error, "contiguous bytes"):
            attacca.Packed.of(np.ones((2, 2), np.uint8))
        with self.assertRaisesRegex(attacca.Error, "contiguous bytes"):
            attacca.Packed.of(torch.ones(1, dtype=torch.uint8).expand(1000))


if __name__ == "__main__":
    unittest.main()
