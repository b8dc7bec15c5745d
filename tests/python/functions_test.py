"""Every row of the table of functions: each name, optional argument, dtype and rank, called through
attacca.fuse and as an FX node, gives the value, dtype and shape of torch or NumPy, or an error that
names what is refused."""
import copy
import inspect
import math
import operator
import re
import unittest
import warnings

import numpy as np
import torch
import torch.nn.functional as F

import attacca
import attacca.torch
from attacca._functions import binding
from attacca._functions.table import TABLE, Refused
from attacca.torch._graph.importer import Importer

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "s8": torch.int8,
          "u8": torch.uint8, "s32": torch.int32, "s64": torch.int64, "bool": torch.bool}
FLOATS = ("f16", "bf16", "f32", "f64")
OPTIONAL_DTYPES = ("f32", "bf16", "s32")
SHAPES = [(), (6,), (4, 4), (2, 4, 6), (2, 1, 3, 4)]
SCALARS = [0, -0.0, 1, 1.0, True, math.nan, math.inf, -1, 0.1, 3]
NAN, INF = math.nan, math.inf
# Of 13 values, so that the axes of no shape repeat them.
VALUES = {"float": [0.5, -1.5, 0.0, NAN, 3.0, -0.0, INF, 1.0, -2.5, 0.1, -INF, 7.0, -0.25],
          "signed": [0, 1, -1, 2, -3, 5, 127, -128, 7, 4, 3, -6, 9],
          "unsigned": [0, 1, 2, 200, 3, 5, 127, 255, 7, 4, 128, 6, 9],
          "bool": [True, False, False, True, True, False, True, False, True, True, False, True,
                   False]}
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-9}
# What an error must say: the argument, or the dtype or shape that the op does not take.
REASON = re.compile(
    r"the argument \w+|dtype|axes|vector|power|argument|several results|bool alone|needs|missing"
    r"|shapes|product of|gives indices|scalar|indices|not implemented|must|expected")


# Calls with required arguments alone that have no text: of some overload or shape.
NO_TEXT = {"dropout": "training=True", "max": "gives indices", "min": "gives indices",
           "view": "argument dtype", "where": "gives indices"}
# torch's own vectorised code is wrong at infinities.
FINITE = {"gelu"}
# torch rounds what they add up to narrow dtypes on the way.
COARSE = {"logsumexp", "special_logsumexp"}
# The sign of their zero is unspecified, or, for gelu, depends on the CPU.
SIGNLESS = {"maximum", "minimum", "fmax", "fmin", "clamp", "clip", "clamp_min", "clamp_max", "max",
            "min", "amax", "amin",
            "gelu", "log_sigmoid", "tanh", "hardtanh", "relu", "relu6", "sum", "mean",
            "softshrink"}


class In:
    """A tensor argument: dtype, shape, and its first value."""

    def __init__(self, dtype, shape, turn=0):
        self.dtype, self.shape, self.turn = dtype, tuple(shape), turn
        self.name = f"{dtype}_{'x'.join(map(str, self.shape)) or 'scalar'}_{turn}"

    def torch(self):
        kind = {"s8": "signed", "s32": "signed", "s64": "signed", "u8": "unsigned",
                "bool": "bool"}.get(self.dtype, "float")
        count = math.prod(self.shape)
        values = [VALUES[kind][(i + self.turn) % 13] for i in range(count)]
        return torch.tensor(values, dtype=DTYPES[self.dtype]).reshape(self.shape)

    def __repr__(self):
        return self.name


class Case:
    """One call: by which name, with what; ``plain`` where only what is required is given."""

    def __init__(self, row, name, call, args, keywords=(), plain=False, fx=None):
        self.row, self.name, self.call, self.args = row, name, call, args
        self.keywords, self.plain, self.fx = dict(keywords), plain, fx

    def __repr__(self):
        given = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.keywords.items()]
        return f"{self.name}({', '.join(given)})"

    def filled(self, tensors):
        return fill(self.args, tensors), {k: fill(v, tensors) for k, v in self.keywords.items()}


def fill(value, tensors):
    if isinstance(value, In):
        return tensors[value.name]
    return type(value)(fill(v, tensors) for v in value) if isinstance(value,
                                                                      (list, tuple)) else value


def inputs_of(value):
    if isinstance(value, In):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(
        value, (list, tuple)) else ()
    return [each for v in values for each in inputs_of(v)]


# ---- Values of arguments


def axes_of(shape):
    return sorted({0, -1, *range(-len(shape), len(shape))}) if shape else [0, -1]


def candidates(name, shape, dtype, op):
    """Values of an argument by its name in a signature; None: it is not known to this test."""
    rank = len(shape)
    count = math.prod(shape)
    of_dims = {"dim": axes_of(shape), "axis": axes_of(shape), "dim0": axes_of(shape),
               "dim1": axes_of(shape)[::-1],
               "axis0": axes_of(shape), "axis1": axes_of(shape), "axis2": axes_of(shape)[::-1],
               "start_dim": [0, 1, -1],
               "end_dim": [-1, 0, 1],
               "dims": [tuple(reversed(range(rank))), tuple(range(-1, rank - 1))],
               "axes": [tuple(reversed(range(rank))), tuple(range(-1, rank - 1)), None]}
    if op in ("logsumexp", "sum", "mean", "amax", "amin", "max", "min") and name in ("dim", "axis"):
        of_dims[name] = of_dims[name] + [(0, -1), None, ()]
    if name in of_dims:
        return of_dims[name]
    known = {
        "alpha": [2, 0.5, True], "beta": [1, 2.0, 0, 0.5], "value": [2, 0.5, -1],
        "threshold": [20, 0.5, 30],
        "negative_slope": [0.2, 0, 2], "min": [-1, 0.5, NAN, None, 2],
        "max": [1, 0.5, NAN, None, -2], "a_min": [-1, None],
        "a_max": [1, None], "min_val": [-0.5], "max_val": [2.0], "scale": [1, 2],
        "input_scale": [1, 2],
        "approximate": ["none", "tanh"], "eps": [1e-3, None], "keepdim": [True, False],
        "keepdims": [True, False],
        "dtype": [torch.float64, torch.float16, None] + [torch.int32] * (dtype not in FLOATS),
        "decimals": [0, 1], "order": ["C", "F", "K"],
        "memory_format": [torch.contiguous_format, torch.preserve_format], "chunks": [1, 2, 3],
        "split_size": [1, 2, (1, shape[0] - 1) if shape else 3],
        "rounding_mode": [None, "floor", "trunc"], "inplace": [False, True],
        "half_to_float": [False], "implicit": [False, True],
        "split_size_or_sections": [1, 2, (1, shape[0] - 1) if shape else 3], "sections": [1, 2, 3],
        "indices": [(1, 3)], "start": [1, -2, 9, None],
        "end": [2, -1, 2**63 - 1, 0], "step": [2, 1], "index": [0, -1], "weight": [0.5, 2],
        "_stacklevel": [3],
        "indices_or_sections": [1, 2, (1, 3), (0, 99)], "sizes": [(2, -1)], "copy": [True, False],
        "out": [None],
        "subok": [False], "where": [True], "initial": [2], "casting": ["same_kind"],
        "split_sizes": [(1, shape[0] - 1)] if shape else [], "stream": [],
        "newshape": [], "exponent": [2, 3.0, 0.5, 0, -1, True], "other": SCALARS,
        "normalized_shape": [shape[-1:], shape[-2:]],
        "size": [(count,), (-1, count) if count else (0,), (1, *shape)],
        "shape": [(count,), (-1, 1), (1, *shape), -1],
        "dtype_layout": [], "layout": [None], "cudnn_enable": [True], "out_dtype": [torch.float32],
        "pin_memory": [None], "non_blocking": [False], "device": [None],
        "nan": [0.0, 1.5, None], "posinf": [2.5, INF, None], "neginf": [-2.5, None],
        "lambd": [0.5, 1.0, 0], "p": [0.5, 0], "train": [False, True], "training": [False, True],
        "lower": [0.25], "upper": [0.5], "generator": [None],
    }
    return known.get(name)


def shapes_for(dtype, shapes=SHAPES):
    """All ranks in f32; two of them, others for each dtype, in the rest, and matrices."""
    turn = list(DTYPES).index(dtype)
    return shapes if dtype == "f32" else [shapes[turn % 5], shapes[(turn + 2) % 5]] + [
        shapes[2]] * (turn % 5 not in (0, 2))


# Operands' shapes where they are not all the first's: by op, from the first's.
def products(lead=(), bias=None):
    first, second = (*lead, 4, 6), (*lead, 6, 4)
    return {"self": first, "input": first, "mat2": second, "other": second, "x1": first,
            "x2": second}


OPERANDS = {"mm": [products()], "bmm": [products((2,))],
            "matmul": [products(), products((2,)), products((2, 3)),
            {"self": (2, 4, 6), "other": (6, 4), "x1": (2, 4, 6), "x2": (6, 4)}],
            "addmm": [{"self": s, "mat1": (4, 6), "mat2": (6, 4)} for s in [(4, 4), (4,)]],
            "baddbmm": [{"self": (2, 4, 4), "batch1": (2, 4, 6), "batch2": (2, 6, 4)}],
            "prelu": [{"self": s, "input": s, "weight": w}
                      for s, w in [((4, 4), (1,)), ((2, 4, 6), (4,)), ((6,), (1,)),
                                   ((4, 6), (6,))]],
            "_prelu_kernel": [{"self": (2, 4, 6), "weight": (1, 4, 1)}],
            "linear": [{"input": s, "weight": (4, 6), "bias": (4,)} for s in [(4, 6), (2, 4, 6)]]}


def kind_of(argument):
    return str(argument.type).replace("Optional[", "").rstrip("]") if "List" not in str(
        argument.type) else "List"


def schema_cases(row, name, call, overload):
    """The calls of one overload, from its schema."""
    schema = overload._schema.arguments
    for dtype in DTYPES:
        for shapes in OPERANDS.get(name, [{"": s} for s in shapes_for(dtype)]):
            yield from _of_schema(row, name, call, overload, schema, dtype, shapes)


def _of_schema(row, name, call, overload, schema, dtype, shapes):
    shape = shapes.get("", next(iter(shapes.values())))
    required, optional, choices = [], [], {}
    for i, a in enumerate(schema):
        kind = str(a.type)
        tensor = kind in ("Tensor", "Optional[Tensor]")
        if tensor:
            own = shapes.get(a.name,
                             shape[-1:] if name in ("layer_norm", "rms_norm") and i else shape)
            own_dtype = "bool" if a.name == "condition" else dtype
            choices[a.name] = [In(own_dtype, own, 3 * i)]
            if a.name in ("other", "end", "exponent", "self") and i == 1 and not OPERANDS.get(name):
                choices[a.name] += [In("f32", own[-1:], 5), In("s64", (), 2), In("f64", (), 4),
                                    In("u8", own, 1)]
        elif kind == "List[Tensor]":
            choices[a.name] = [[In(dtype, shape), In(dtype, shape, 4)],
                               [In(dtype, shape), In("f32", shape, 4)]]
        else:
            found = candidates(a.name, shape, dtype, name)
            if a.name in ("self", "end") or kind in ("number",
                                                     "Optional[number]") and found is None:
                found = SCALARS
            if found is None:
                raise AssertionError(f"{overload}: no values for the argument {a.name}")
            choices[a.name] = found
        (optional if a.has_default_value() else required).append(a)
    if any(not choices[a.name] for a in required):
        return
    base = {a.name: choices[a.name][0] for a in required}

    def case(values, plain):
        args = [values[a.name] for a in required if not a.kwarg_only]
        keywords = {n: v for n, v in values.items()
                    if n not in {a.name for a in required if not a.kwarg_only}}
        return Case(row, name, call, args, keywords, plain, overload)

    yield case(base, True)
    for a in required:
        axes = a.name.startswith(("dim", "axis")) or a.name.endswith("dim")
        if OPERANDS.get(name) or (dtype == "f32" if axes else len(shape) in (0, 2)):
            for value in choices[a.name][1:]:
                yield case({**base, a.name: value}, False)
    if dtype in OPTIONAL_DTYPES and (len(shape) in (2, 3) or name == "linear"):
        for a in optional:
            for value in choices[a.name]:
                yield case({**base, a.name: value}, False)


def torch_function(name):
    other = {"log_sigmoid": F.logsigmoid, "numpy_T": operator.attrgetter("T"),
             "mT": operator.attrgetter("mT")}
    if name in other:
        return other[name]
    for module in (torch, F, torch.special):
        found = getattr(module, name.removeprefix("special_") if module is torch.special else name,
                        None)
        if callable(found):
            return found
    return method_of(name) if callable(getattr(torch.Tensor, name, None)) else None


def method_of(name):
    return lambda x, *args, **keywords: getattr(x, name)(*args, **keywords)


def by_name(argument):
    """Whether it is a dimension's name."""
    kind = str(argument.type)
    return "Dimname" in kind or "str" in kind and argument.name == "dim"


def torch_cases(row):
    for name in row.aten:
        function = torch_function(name)
        packet = getattr(torch.ops.aten, name, None)
        method = method_of(name) if callable(getattr(torch.Tensor, name, None)) else None
        for overload in packet.overloads() if packet is not None else []:
            each = getattr(packet, overload)
            arguments = each._schema.arguments
            if (each._schema.is_mutable or any(a.is_out for a in arguments)
                    or "name" in overload.lower() or any(map(by_name, arguments))
                    or not {str(a.type) for a in arguments} & {"Tensor", "List[Tensor]"}):
                continue
            yield from schema_cases(row, name, function, each)
            if method is not None:
                for case in schema_cases(row, name, method, each):
                    if case.args and isinstance(case.args[0], In) and case.args[0].dtype in ("f32",
                                                                                             "s32"):
                        yield Case(row, name, method, case.args, case.keywords, case.plain)
        # of torch.nn.functional
        if packet is None or getattr(function, "__module__", "") in ("torch.nn.functional",
                                                                     "torch.functional"):
            yield from signature_cases(row, name, function, list(DTYPES))


# ---- By Python's signatures: torch.nn.functional and NumPy


def signature_cases(row, name, function, dtypes, signature=None, numpy=False):
    parameters = (signature or inspect.signature(function)).parameters.values()
    for dtype in dtypes:
        for shape in shapes_for(dtype):
            base, optional = {}, {}
            for i, p in enumerate(parameters):
                if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                    continue
                if p.name in ("condition", "x", "y", "self", "input", "a", "ary", "tensor",
                              "arrays", "x1", "x2"):
                    own = In("bool" if p.name == "condition" else dtype, shape, 3 * i)
                    base[p.name] = [own, In(dtype, shape, 4)] if p.name == "arrays" else own
                    continue
                if p.name in ("weight", "bias") and name in ("layer_norm", "rms_norm"):
                    found = [In(dtype, shape[-1:], 3)]
                else:
                    found = candidates(p.name, shape, dtype, name)
                if found is None:
                    raise AssertionError(f"{name}: no values for the argument {p.name}")
                if p.default is inspect.Parameter.empty or (p.default is None
                                                            and p.name in ("shape",)):
                    if found:
                        base[p.name] = found[0]
                    optional[p.name] = found[1:]
                else:
                    optional[p.name] = found
            if numpy and "dtype" in optional:
                optional["dtype"] = [np.float64, np.float32, None]
            yield from _of_signature(row, name, function, base, optional, shape, parameters)


def _of_signature(row, name, function, base, optional, shape, parameters):
    by_position = {p.name for p in parameters
                   if p.kind == p.POSITIONAL_ONLY} | {next(iter(base), "")}

    def case(values, plain):
        return Case(row, name, function, [v for n, v in values.items() if n in by_position],
                    {n: v for n, v in values.items() if n not in by_position}, plain)

    yield case(base, True)
    for parameter, values in optional.items():
        if len(shape) in (2, 3) and inputs_of(base)[0].dtype in OPTIONAL_DTYPES:
            for value in values:
                yield case({**base, parameter: value}, False)


NUMPY_DTYPES = [d for d in DTYPES if d != "bf16"]


def numpy_cases(row):
    for name in row.numpy:
        function = getattr(np, name, None)
        if isinstance(function, np.ufunc):
            yield from ufunc_cases(row, name, function)
        elif callable(function):
            yield from signature_cases(row, name, function, NUMPY_DTYPES,
                                       binding._NUMPY_FUNCTIONS.get(function.__name__), numpy=True)
        if name in binding._NUMPY_METHODS:
            yield from signature_cases(row, "." + name, method_of(name), NUMPY_DTYPES,
                                       binding._NUMPY_METHODS[name], numpy=True)
        if name in ("reshape", "transpose"):
            for shape in SHAPES[2:]:
                axes = list(range(-1, len(shape) - 1)) if name == "transpose" else [*shape[1:], -1]
                yield Case(row, "." + name, operator.methodcaller(name, *axes), [In("f32", shape)])
        if name in ("T", "mT"):
            for shape in SHAPES:
                yield Case(row, "." + name, operator.attrgetter(name), [In("f32", shape)],
                           plain=True)


def ufunc_cases(row, name, function):
    shapes = OPERANDS.get(name)
    for dtype in NUMPY_DTYPES:
        for shape in shapes or shapes_for(dtype):
            own = [shape.get(n, ()) for n in ("x1", "x2")] if shapes else [shape] * function.nin
            args = [In(dtype, s, 3 * i) for i, s in enumerate(own[:function.nin])]
            yield Case(row, name, function, args, plain=True)
            if function.nin == 2 and not shapes:
                others = [*SCALARS, np.float32(0.5), np.int64(3), np.float16(0.5),
                          In("f32", shape[-1:], 5), In("s64", (), 2)]
                for other in others if len(shape) in (0, 2) else ():
                    yield Case(row, name, function, [args[0], other])
                    yield Case(row, name, function, [other, args[0]])
            for keyword, value in [("dtype", np.float64), ("where", In("bool", own[0])),
                                   ("order", "F"), ("casting", "unsafe")]:
                if len(own[0]) == 2 and dtype == "f32":
                    yield Case(row, name, function, args, {keyword: value})


def operator_cases():
    """Python's operators, which have no signature."""
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge",
                 "eq", "ne", "and_", "or_", "xor"):
        function = getattr(operator, name)
        for dtype in DTYPES:
            for value in [*SCALARS, In(dtype, (4, 4), 3), In("f32", (4,), 5), In("s64", (), 2)]:
                yield Case(None, name, function, [In(dtype, (4, 4)), value])
                if not isinstance(value, In):
                    yield Case(None, name, function, [value, In(dtype, (4, 4))])
    for name in ("neg", "abs", "pos", "invert"):
        for dtype in DTYPES:
            yield Case(None, name, getattr(operator, name), [In(dtype, (4, 4))], plain=True)


# ---- Comparing


def flat(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def difference(got, want, finite=False, signed=True, coarse=False):
    """What differs between two results; "" where nothing does."""
    if len(got) != len(want):
        return f"{len(got)} results for {len(want)}"
    for g, w in zip(got, want):
        g, w = (torch.from_numpy(np.array(v)) if isinstance(v, (np.ndarray, np.generic, int)) else v
                for v in (g, w))
        if (g.dtype, g.shape) != (w.dtype, w.shape):
            return f"{g.dtype}{list(g.shape)} for {w.dtype}{list(w.shape)}"
        if not w.is_floating_point():
            same = g == w
        else:
            rounding = TOLERANCE[w.dtype]
            same = torch.isclose(g.double(), w.double(), rtol=rounding,
                                 atol=rounding * (1 if coarse else 5e-2), equal_nan=True)
            if signed:
                same &= (torch.signbit(g) == torch.signbit(w)) | (w != 0) | (g != 0)
            same |= torch.isnan(w) & torch.isinf(g) if finite else torch.zeros_like(same)
        if not bool(same.all()):
            at = int((~same).flatten().to(torch.uint8).argmax())
            return f"{g.flatten()[at].item()!r} for {w.flatten()[at].item()!r}"
    return ""


class Outcome:
    """The results of the cases: the names that were compared, and what is wrong."""

    def __init__(self):
        self.compared, self.cases, self.refused, self.wrong = set(), 0, 0, []

    def add(self, case, way, got, want, error):
        self.cases += 1
        if error is not None:
            self.refused += 1
            if want is None:
                return
            if not REASON.search(str(error)):
                self.wrong.append(f"{way} {case}: a refusal without its reason: {error}")
            first = case.args[0] if case.args and isinstance(case.args[0], In) else None
            if case.plain and first is not None and first.dtype in FLOATS and case.row is not None \
                    and not re.search(NO_TEXT.get(case.name, "$^"), str(error)):
                self.wrong.append(f"{way} {case}: refused: {error}")
            return
        if want is None:
            self.wrong.append(f"{way} {case}: the framework refuses it, attacca does not")
            return
        problem = difference(got, want, case.name in FINITE, case.name.lstrip(".") not in SIGNLESS,
                             case.name in COARSE)
        if problem:
            self.wrong.append(f"{way} {case}: {problem}")
        self.compared.add((way, case.name.lstrip(".")))


def reference(case, tensors, call):
    """(results, or None where the framework refuses the call)."""
    if case.keywords.get("inplace") or case.keywords.get("copy") is False:
        tensors = copy.deepcopy(tensors)
    args, keywords = case.filled(tensors)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return flat(call(*args, **keywords))
    except (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError, OverflowError,
            AttributeError):
        return None


def batches(cases, size=250):
    cases = list(cases)
    return [cases[i:i + size] for i in range(0, len(cases), size)]


def through_fuse(cases, outcome, way, convert):
    tensors = {each.name: convert(each.torch()) for c in cases for each in inputs_of(c.args)
               + inputs_of(c.keywords)}
    places, errors = {}, {}
    wanted = [reference(case, tensors, case.call) for case in cases]

    def run(**given):
        results = []
        for i, case in enumerate(cases):
            args, keywords = case.filled(given)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = flat(case.call(*args, **keywords))
            except attacca.Error as error:
                errors[i] = error
                continue
            except TypeError as error:  # of torch's own reading of arguments
                if wanted[i] is not None:
                    raise
                errors[i] = error
                continue
            places[i] = slice(len(results), len(results) + len(found))
            results += found
        return tuple(results)

    run.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY)
                                           for n in tensors])
    try:
        got = attacca.fuse(run)(**tensors)
    except attacca.Error as error:
        if len(cases) == 1:
            outcome.add(cases[0], way, None, wanted[0], error if errors else None) if errors else \
                outcome.wrong.append(f"{way} {cases[0]}: a text that is refused: {error}")
            return
        for part in (cases[:len(cases) // 2], cases[len(cases) // 2:]):
            through_fuse(part, outcome, way, convert)
        return
    got = got if isinstance(got, tuple) else (got,)
    for i, case in enumerate(cases):
        outcome.add(case, way, got[places[i]] if i in places else None, wanted[i], errors.get(i))


def through_fx(cases, outcome):
    tensors = {each.name: each.torch() for c in cases for each in inputs_of(c.args)
               + inputs_of(c.keywords)}
    graph, importer = torch.fx.Graph(), Importer()
    nodes = {}
    for name, tensor in tensors.items():
        nodes[name] = graph.placeholder(name)
        nodes[name].meta["val"] = tensor
    lines, returned, places = [], [], {}
    for i, case in enumerate(cases):
        want = reference(case, tensors, case.fx)
        if want is None:
            continue
        args, keywords = case.filled(nodes)
        node = graph.call_function(case.fx, tuple(args), keywords)
        several = len(want) > 1 or "[]" in str(case.fx._schema.returns[0].type) or "List" in str(
            case.fx._schema.returns[0].type)
        node.meta["val"] = want if several else want[0]
        results = [node]
        try:
            text = importer.statement(node)
            if several:
                results = []
                for j, each in enumerate(want):
                    results.append(graph.call_function(operator.getitem, (node, j)))
                    results[-1].meta["val"] = each
            statements = [(r, text if r is node else importer.statement(r)) for r in results]
        except Refused as reason:
            outcome.add(case, "fx", None, want, reason)
            continue
        lines += [text for _, text in statements]
        places[i] = (slice(len(returned), len(returned) + len(results)), want)
        returned += [f'"{r.name}"' for r in results]
    if not returned:
        return
    inputs = ", ".join(f'"{nodes[n].name}": {importer.type_text(nodes[n])}' for n in tensors)
    text = f"graph g({inputs}) {{\n" + "\n".join(lines) + f"\nreturn {', '.join(returned)}\n}}"
    try:
        got = attacca.compile(text)(*tensors.values())
    except attacca.Error as error:
        if len(cases) == 1:
            outcome.wrong.append(f"fx {cases[0]}: a text that is refused: {lines}: {error}")
            return
        for part in (cases[:len(cases) // 2], cases[len(cases) // 2:]):
            through_fx(part, outcome)
        return
    got = got if isinstance(got, tuple) else (got,)
    for i, (place, want) in places.items():
        outcome.add(cases[i], "fx", got[place], want, None)


class Functions(unittest.TestCase):
    def check(self, outcome):
        shown = "\n".join(outcome.wrong[:60])
        self.assertEqual(outcome.wrong, [],
                         f"{len(outcome.wrong)} of {outcome.cases} ({outcome.refused} "
                         f"refused)\n{shown}")

    def test_torch_through_fuse(self):
        outcome = Outcome()
        cases = [c for row in TABLE for c in torch_cases(row) if c.call is not None]
        for batch in batches(cases):
            through_fuse(batch, outcome, "torch", lambda tensor: tensor)
        self.check(outcome)
        names = {name for row in TABLE for name in row.aten if torch_function(name) is not None}
        self.assertEqual(names - {name for _, name in outcome.compared}, set())

    def test_torch_through_fx(self):
        outcome = Outcome()
        cases = [c for row in TABLE for c in torch_cases(row) if c.fx is not None]
        for batch in batches(cases):
            through_fx(batch, outcome)
        self.check(outcome)
        names = {name for row in TABLE for name in row.aten if hasattr(torch.ops.aten, name)}
        self.assertEqual(names - {name for _, name in outcome.compared}, set())

    def test_numpy_through_fuse(self):
        outcome = Outcome()
        for batch in batches(c for row in TABLE for c in numpy_cases(row)):
            through_fuse(batch, outcome, "numpy", lambda tensor: tensor.numpy())
        self.check(outcome)
        names = {name for row in TABLE for name in row.numpy if name != "expit"
                 and hasattr(np, name)
                 or name in binding._NUMPY_METHODS}
        self.assertEqual(names - {name for _, name in outcome.compared}, set())

    def test_operators(self):
        for way, convert in (("torch", lambda tensor: tensor),
                             ("numpy", lambda tensor: tensor.numpy())):
            outcome = Outcome()
            cases = [c for c in operator_cases() if way == "torch" or all(
                each.dtype != "bf16" for each in inputs_of(c.args))]
            for batch in batches(cases):
                through_fuse(batch, outcome, way, convert)
            with self.subTest(way):
                self.check(outcome)


if __name__ == "__main__":
    unittest.main()
