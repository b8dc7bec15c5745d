"""Where Attacca and ONNX Runtime disagree: the op, when, which of them follows the operator text,
and why."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from onnx import TensorProto as T

from cases import Case

LARGEST_BFLOAT16 = np.float32(3.3895314e38)

# Whether all elements that differ are of this kind.
Applies = Callable[[Case, int, Any, Any, dict[str, Any]], bool]


@dataclass(frozen=True)
class Difference:
    op: str  # or "" for any
    condition: str
    right: str  # "attacca", "both" where the text leaves it open
    why: str
    applies: Applies

    @property
    def name(self) -> str:
        return f"{self.op or 'any op'}, {self.condition}: {self.right} ({self.why})"


DIFFERENCES: list[Difference] = []


def explained(case: Case, output: int, mine: Any, theirs: Any,
              values: dict[str, Any]) -> "str | None":
    """The name of the row that a disagreement falls under."""
    for each in DIFFERENCES:
        if each.op in ("", case.row.name) and each.applies(case, output, mine, theirs, values):
            return each.name
    return None


def differs(mine: Any, theirs: Any) -> Any:
    """The elements that differ by more than their last places."""
    with np.errstate(all="ignore"):
        if mine.dtype.kind == "f":
            return ~np.isclose(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        return mine != theirs


def floats(case: Case, values: dict[str, Any]) -> list[Any]:
    return [each for each in values.values() if each.dtype.kind == "f"]


def has_nan(case: Case, values: dict[str, Any]) -> bool:
    return any(bool(np.isnan(each).any()) for each in floats(case, values))


def not_finite(values: dict[str, Any]) -> bool:
    return any(not np.isfinite(each).all() for each in values.values() if each.dtype.kind == "f")


def summed(values: dict[str, Any]) -> int:
    """The length of the sums of a product."""
    return int(values["a"].shape[-1]) if "a" in values else -1


def add(op: str, condition: str, right: str, why: str) -> Callable[[Applies], Applies]:
    def register(applies: Applies) -> Applies:
        DIFFERENCES.append(Difference(op, condition, right, why, applies))
        return applies
    return register


for _op in ("MatMulInteger", "QLinearMatMul"):
    @add(_op, "sums of no products", "attacca",
         "an empty sum is 0; ONNX Runtime leaves memory as it was")
    def empty_sum(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
        return summed(values) == 0 and (case.row.name != "MatMulInteger" or not np.any(mine))


@add("DynamicQuantizeLinear", "x of zeros alone", "attacca",
     "the text's y_scale is (max - min) / 255 = 0; ONNX Runtime's 1 is not in it. y and its zero "
     "point are 0")
def scale_of_zeros(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    return output == 1 and mine == 0 and theirs == 1 and not np.any(values["x"])


@add("Clip", "a bound that is NaN", "attacca",
     "Min(max, Max(x, min)) of NaN is NaN, as Max and Min are")
def clip_nan(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    bounds = [values[name] for name in ("low", "high") if name in values]
    return any(bool(np.isnan(each)) for each in bounds) and bool(np.isnan(mine).all())


@add("Clip", "an infinity beyond bfloat16's range without a bound there", "attacca",
     "a bound that is not given is the type's lowest or largest number; the oracle clips bfloat16 "
     "in float32, whose bounds are infinities of bfloat16")
def clip_infinity(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    differ = (mine != theirs) & ~(np.isnan(mine) & np.isnan(theirs))
    return case.dtype == T.BFLOAT16 and {"low", "high"} - values.keys() != set() and \
        bool((np.isinf(theirs) & (mine == np.copysign(LARGEST_BFLOAT16, theirs)))[differ].all())


@add("Dropout", "the mask in opsets 10 and 11", "both",
     "until opset 12 the text does not say what the mask holds in inference; since, all true")
def mask(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    return output == 1 and case.opset < 12 and bool(mine.all())


@add("Attention", "scores after a mask of truth values, causal ones or ends of keys", "attacca",
     "the text's hidden scores are minus infinity; ONNX Runtime's, the lowest number")
def hidden_scores(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    wrong = differs(mine, theirs)
    return case.attributes.get("qk_matmul_output_mode") == 2 and output in (1, 3) and bool(
        np.isneginf(mine[wrong]).all() and (theirs[wrong] < -3.4e38).all())


@add("GroupQueryAttention", "a bias that hides all keys of a query", "both",
     "the text leaves it open; Attacca's row is 0, as ONNX Runtime's but for one key or softcap=, "
     "where it is NaN or a mean of values")
def hidden_row(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    biased = "bias" in values and bool((values["bias"] < -3.4e38).any())
    return output == 0 and biased and not mine[differs(mine, theirs)].any()


@add("Resize", "scales other than 1 that leave every extent as it is", "attacca",
     "coordinates are the scale's; ONNX Runtime copies x")
def resized_to_itself(case: Case, output: int, mine: Any, theirs: Any,
                      values: dict[str, Any]) -> bool:
    return values["x"].shape == mine.shape and "scales" in case.constants


@add("Sign", "NaN", "both", "the text orders numbers; NaN is none. Attacca keeps it, as NumPy does")
def sign(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    return bool(np.isnan(mine[differs(mine, theirs)]).all())


@add("QuantizeLinear", "NaN", "both",
     "the text gives no integer for NaN; Attacca's is 0, ONNX Runtime's the lowest")
def quantized_nan(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    wrong = differs(mine, theirs)
    lowest = np.iinfo(theirs.dtype).min if theirs.dtype.kind in "iu" else None
    return bool(np.isnan(values["x"][wrong]).all() and (mine[wrong] == 0).all()
                and (theirs[wrong] == lowest).all())


@add("LpNormalization", "zeros", "attacca", "the operator's tests divide by the norm of 0")
def norm_of_zeros(case: Case, output: int, mine: Any, theirs: Any,
                  values: dict[str, Any]) -> bool:
    return bool((np.isnan(mine) & (theirs == 0))[differs(mine, theirs)].all())


@add("ReduceProd", "integers beyond their range", "both",
     "the text leaves overflow open; Attacca wraps around, as its product of two does")
def integer_product(case: Case, output: int, mine: Any, theirs: Any,
                    values: dict[str, Any]) -> bool:
    return mine.dtype.kind == "i" and bool(
        (np.abs(theirs[differs(mine, theirs)].astype(np.float64)) > 2**30).all())


@add("ReduceProd", "partial products at the ends of the range", "both",
     "the text gives no order: one order's partial products overflow or lose digits, the other's "
     "do not")
def partial_products(case: Case, output: int, mine: Any, theirs: Any,
                     values: dict[str, Any]) -> bool:
    return any(bool(((np.abs(each) > 1e10) | ((np.abs(each) < 1e-6) & (each != 0))).any())
               for each in floats(case, values))


for _op in ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
            "InstanceNormalization", "BatchNormalization", "MeanVarianceNormalization"):
    @add(_op, "squares beyond float32, infinities, NaN", "both",
         "the text leaves overflow open: a variance of infinity scales to 0, in ONNX Runtime "
         "to NaN")
    def square_overflows(case: Case, output: int, mine: Any, theirs: Any,
                         values: dict[str, Any]) -> bool:
        with np.errstate(all="ignore"):
            return any(not np.isfinite(np.square(each)).all() for each in floats(case, values))


for _op in ("ReduceMax", "ReduceMin", "GlobalMaxPool", "ReduceLogSumExp"):
    @add(_op, "NaN among the elements", "both",
         "the text does not say; Attacca's is NaN, as NumPy's and as Max's. ONNX Runtime's depends "
         "on order")
    def extremum_of_nan(case: Case, output: int, mine: Any, theirs: Any,
                        values: dict[str, Any]) -> bool:
        return has_nan(case, values) and bool(np.isnan(mine[differs(mine, theirs)]).all())


@add("GlobalMaxPool", "-inf alone", "attacca",
     "the largest of them is -inf; ONNX Runtime begins with the smallest finite number")
def largest_of_infinities(case: Case, output: int, mine: Any, theirs: Any,
                          values: dict[str, Any]) -> bool:
    return bool(np.isneginf(mine[differs(mine, theirs)]).all())


for _op in ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"):
    @add(_op, "float64 and the default epsilon", "both",
         "the text's 1e-05; ONNX Runtime rounds it to float32")
    def default_epsilon(case: Case, output: int, mine: Any, theirs: Any,
                        values: dict[str, Any]) -> bool:
        return (case.dtype == T.DOUBLE and "epsilon" not in case.attributes
                and np.allclose(mine, theirs, 2e-8, 0))


@add("ReduceMean", "no elements", "both", "the text leaves the mean of nothing undefined")
def empty_mean(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    return next(iter(values.values())).size == 0 and bool(np.isnan(mine).all())


@add("Shrink", "float64", "attacca", "ONNX Runtime rounds the bias's sum to float32")
def shrink(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    with np.errstate(all="ignore"):
        narrow = mine.astype(np.float32)
    return mine.dtype == np.float64 and np.allclose(narrow, theirs, 1e-6, 1e-6, equal_nan=True)


def zeros_of_another_sign(mine: Any, theirs: Any) -> bool:
    """Whether nothing else differs."""
    return bool(np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"))


@add("Where", "-0.0 chosen", "attacca", "the chosen element is copied; ONNX Runtime adds 0.0 to it")
def where_zero(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    return zeros_of_another_sign(mine, theirs)


for _op in ("Clip", "Max", "Min", "ReduceMax", "ReduceMin", "(many ops)"):
    @add(_op, "-0.0 against 0.0", "both", "the two compare equal: either is the extremum")
    def extremum_zero(case: Case, output: int, mine: Any, theirs: Any,
                      values: dict[str, Any]) -> bool:
        return zeros_of_another_sign(mine, theirs)


@add("LogSoftmax", "NaN or infinity in a row of float64", "attacca",
     "infinity less itself is NaN, and so is the row's sum; ONNX Runtime's largest element skips "
     "NaN")
def log_softmax_nan(case: Case, output: int, mine: Any, theirs: Any,
                    values: dict[str, Any]) -> bool:
    return not_finite(values) and bool(np.isnan(mine[differs(mine, theirs)]).all())


@add("LayerNormalization", "infinities: the statistics", "attacca",
     "the mean of infinity and numbers is infinity; ONNX Runtime's running mean makes NaN of it")
def mean_of_infinity(case: Case, output: int, mine: Any, theirs: Any,
                     values: dict[str, Any]) -> bool:
    wrong = differs(mine, theirs)
    return output == 1 and not_finite(values) and bool(
        np.isinf(mine[wrong]).all() and np.isnan(theirs[wrong]).all())


DEFAULTS = {"LeakyRelu": "alpha", "HardSigmoid": "alpha", "Elu": "alpha", "Celu": "alpha",
            "LayerNormalization": "epsilon", "RMSNormalization": "epsilon",
            "BatchNormalization": "epsilon"}


@add("", "an attribute's default, in float64", "both",
     "0.01 in full, as the text writes it, or as an attribute of float32 would hold it")
def default_attribute(case: Case, output: int, mine: Any, theirs: Any,
                      values: dict[str, Any]) -> bool:
    name = DEFAULTS.get(case.row.name)
    return (name is not None and name not in case.attributes and mine.dtype == np.float64
            and np.allclose(mine, theirs, rtol=1e-6, atol=0, equal_nan=True))


@add("Pow", "integers beyond their range", "both",
     "the text leaves overflow open; Attacca wraps around, ONNX Runtime goes through float64")
def integer_power(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    if mine.dtype.kind != "i":
        return False
    powers = values["a"].astype(object) ** values["b"].astype(object)
    return all(abs(powers[tuple(at)]) > np.iinfo(mine.dtype).max or abs(powers[tuple(at)]) > 2**53
               for at in np.argwhere(differs(mine, theirs)))


@add("QuantizeLinear", "a scale of float16 and a quotient next to a half", "attacca",
     "the scale's type is that of the division; ONNX Runtime divides some of them in float32")
def half_quotient(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    scale, x, zero = values["s"], values["x"], values.get("z", np.zeros(1, mine.dtype))
    if scale.dtype != np.float16:
        return False
    spread = [1] * x.ndim
    spread[case.attributes.get("axis", 1 if x.ndim > 1 else 0)] = -1
    if scale.size > 1:
        scale, zero = scale.reshape(spread), zero.reshape(spread)
    with np.errstate(all="ignore"):
        quotient = np.rint((x / scale).astype(np.float64)) + zero.astype(np.float64)
    ends = np.iinfo(mine.dtype)
    want = np.clip(np.nan_to_num(quotient, nan=0.0), ends.min, ends.max).astype(mine.dtype)
    return bool(np.array_equal(mine[~np.isnan(x)], want[~np.isnan(x)]))


@add("QLinearAdd", "a quotient next to a half", "both",
     "ONNX Runtime adds the zero points' shares, rounded to float32, before it rounds")
def sum_next_to_a_half(case: Case, output: int, mine: Any, theirs: Any,
                       values: dict[str, Any]) -> bool:
    def real(name: str) -> Any:
        zero = values["z" + name].astype(np.float64)
        return (values[name] - zero) * np.float64(values["s" + name])
    quotient = (real("a") + real("b")) / np.float64(values["sr"])
    from_half = np.abs(np.abs(quotient - np.floor(quotient)) - 0.5)
    return bool((from_half[differs(mine, theirs)] < 1e-4).all())


@add("GlobalAveragePool", "sums beyond float32", "both",
     "partial sums overflow in the order of adding")
def pool_overflows(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> bool:
    wrong = differs(mine, theirs)
    return not_finite(values) and not np.isfinite(mine[wrong]).any()
