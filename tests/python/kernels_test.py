"""Users' Triton kernels in FX graphs: what becomes a kernel of the text form, and what does not and
why. Triton itself is replaced, because it needs a GPU."""
import contextlib
import operator
import os
import tempfile
import types
import unittest
from unittest import mock

FOLDER = tempfile.TemporaryDirectory()
os.environ.setdefault("ATTACCA_CACHE_DIR", FOLDER.name)

import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch._subclasses.fake_tensor import FakeTensorMode

import attacca
import attacca.torch
from attacca.torch import _rewrite, _timing
from attacca.torch._graph import configurations, kernels


def parameter(name):
    return types.SimpleNamespace(is_constexpr=name.isupper(), do_not_specialize=False)


class JITFunction:
    """The part of Triton's kernel that the package uses."""

    def __init__(self, *names):
        self.arg_names, self.params = names, [parameter(name) for name in names]


class Autotuner:
    def __init__(self, function, *configs):
        self.fn, self.configs, self.reset_to_zero, self.restore_value = function, configs, [], []


def config(**values):
    return types.SimpleNamespace(pre_hook=None, all_kwargs=lambda: values)


def compiled(extra=2, **metadata):
    """In place of Triton: a kernel whose PTX has a few parameters more, for scratch."""
    asked = []

    def compile(kernel, call, options):
        asked.append((call.signature, call.constants, call.attributes, options))
        made = types.SimpleNamespace(metadata=types.SimpleNamespace(name="add", num_warps=4,
                                                                    shared=512, **metadata))
        return "/k.ptx", made, ["u64"] * (len(call.passed) + extra)
    return mock.patch.object(kernels, "_compiled", compile), asked


class Graph:
    """x and y of bf16[24, 64]; a kernel writes to ``out``; relu(out + bias) follows."""

    def __init__(self, kernel=None, start=torch.ops.aten.empty.memory_format, written=("out",),
                 grid=((2, 1, 1),),
                 arguments=None, constants=None, product=False, device="cpu", tail=True):
        self.device = device
        self.graph = torch.fx.Graph()
        self.mode = FakeTensorMode()
        self.x, self.y = (self.placeholder(name, 24, 64) for name in "xy")
        self.bias = self.placeholder("bias", 64)
        fill = ([24, 64],) if "full" not in str(start) else ([24, 64], 0.0)
        self.out = self.call(start, *fill, dtype=torch.bfloat16, device=device)
        table = triton_kernel_wrap.kernel_side_table
        kernel = kernel or JITFunction("x", "y", "out", "count", "BLOCK")
        given = {"x": self.x, "y": self.y, "out": self.out, "count": 1536, "BLOCK": 1024}
        given.update(arguments(self) if arguments else {})
        self.wrapper = self.graph.call_function(triton_kernel_wrap.triton_kernel_wrapper_functional,
                                                (), {
            "kernel_idx": table.add_kernel(kernel),
            "constant_args_idx": table.add_constant_args(constants or {}),
            "grid": list(grid), "tma_descriptor_metadata": {}, "kwargs": given,
            "tensors_to_clone": list(written)})
        self.result = self.graph.call_function(operator.getitem, (self.wrapper, "out"))
        self.result.meta["val"] = self.out.meta["val"]
        aten = torch.ops.aten
        if not tail:
            self.graph.output((self.call(aten.view.default, self.result, [64, 24]),))
            return
        self.end = self.call(aten.relu.default, self.call(aten.add.Tensor, self.result, self.bias))
        if product:
            self.end = self.call(aten.relu.default, self.call(aten.mm.default, self.end,
                                                              self.call(aten.t.default, self.x)))
        self.graph.output((self.end,))

    def placeholder(self, name, *shape):
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["val"] = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        return node

    def call(self, op, *args, **keywords):
        node = self.graph.call_function(op, args, keywords)
        with self.mode:
            values, named = torch.fx.node.map_arg((args, keywords), lambda n: n.meta["val"])
            node.meta["val"] = op(*values, **named)
        return node


class Texts(unittest.TestCase):
    def stand_in(self, made, **metadata):
        patch, asked = compiled(**metadata)
        with patch:
            standing, unused = kernels.stand_in(made.graph)
        return standing, [each.reason for each in unused], asked

    def test_a_call_and_what_triton_compiles_for(self):
        made = Graph()
        (node,), unused, ((signature, constants, attributes, options),) = self.stand_in(made)
        self.assertEqual(unused, [])
        self.assertEqual(node.meta[kernels.TEXT],
                         'kernel("/k.ptx", "x", "y", bf16[24, 64], s32(1536), s64(0), s64(0), '
                         'entry="add", grid=[2, 1, 1], block=[128], shared=512)')
        self.assertEqual(signature, {"x": "*bf16", "y": "*bf16", "out": "*bf16", "count": "i32",
                                     "BLOCK": "constexpr"})
        self.assertEqual(constants, {"BLOCK": 1024})
        self.assertEqual(sorted(attributes), [(0,), (1,), (2,), (3,)])
        self.assertEqual(options, {})
        self.assertEqual([user.name for user in node.users], ["add_tensor"])

    def test_what_is_not_taken_is_as_it_was(self):
        made = Graph()
        before = str(made.graph)
        standing, _, _ = self.stand_in(made)
        self.assertNotEqual(str(made.graph), before)
        kernels.restore(made.graph, standing)
        self.assertEqual(str(made.graph), before)

    def test_numbers(self):
        kernel = JITFunction("x", "y", "out", "count", "one", "big", "scale", "flag", "nothing",
                             "BLOCK")
        made = Graph(kernel, arguments=lambda _: {"count": 7, "one": 1, "big": 2**40, "scale": 0.5,
                                                  "flag": True,
                                                  "nothing": None})
        (node,), _, ((signature, constants, attributes, _),) = self.stand_in(made)
        self.assertIn("s32(7), s64(1099511627776), f32(0.5), s64(0)", node.meta[kernels.TEXT])
        self.assertEqual(constants, {"one": 1, "flag": True, "nothing": None, "BLOCK": 1024})
        self.assertNotIn((3,), attributes)
        self.assertIn((5,), attributes)
        self.assertEqual((signature["big"], signature["scale"]), ("i64", "fp32"))

    def test_options_that_dynamo_makes_a_configuration_of(self):
        kernel = JITFunction("x", "y", "out", "count", "BLOCK")
        made = Graph(Autotuner(kernel, config(num_warps=8)))
        standing, _, asked = self.stand_in(made)
        self.assertEqual(len(standing), 1)
        self.assertEqual(asked[0][3], {"num_warps": 8})

    def test_each_configuration_is_compiled_and_the_chosen_one_taken(self):
        kernel = JITFunction("x", "y", "out", "count", "BLOCK")
        tuned = Autotuner(kernel, config(BLOCK=512, num_warps=2), config(BLOCK=1024))
        made = Graph(tuned, grid=[(3, 1, 1), (2, 1, 1)])
        before = str(made.graph)
        patch, asked = compiled()
        offered = []

        def second(configurations, result):
            offered.extend(each.text for each in configurations)
            return 1
        with patch:
            (node,), unused = kernels.stand_in(made.graph, second)
        self.assertEqual(unused, [])
        self.assertEqual([constants for _, constants, _, _ in asked], [{"BLOCK": 512},
                                                                       {"BLOCK": 1024}])
        self.assertEqual([options for *_, options in asked], [{"num_warps": 2}, {}])
        self.assertEqual([text.count("grid=[3, 1, 1]") for text in offered], [1, 0])
        self.assertEqual(node.meta[kernels.TEXT], offered[1])
        kernels.restore(made.graph, [node])
        self.assertEqual(str(made.graph), before)

    def test_a_configuration_that_does_not_compile_is_left_out(self):
        kernel = JITFunction("x", "y", "out", "count", "BLOCK")
        tuned = Autotuner(kernel, config(BLOCK=1 << 20), config(BLOCK=1024))
        made = Graph(tuned, grid=[(1, 1, 1), (2, 1, 1)])
        patch, _ = compiled()

        def fails(kernel, call, options):
            if call.constants["BLOCK"] > 1024:
                raise kernels.Refused("out of resources")
            return patch.new(kernel, call, options)
        with mock.patch.object(kernels, "_compiled", fails):
            (node,), _ = kernels.stand_in(made.graph)
        self.assertIn("grid=[2, 1, 1]", node.meta[kernels.TEXT])

    def test_the_fastest_configuration_that_runs_is_chosen(self):
        made = Graph(device="cuda")
        offered = [kernels.Configured(f'kernel("/{i}.ptx", "x", "x")', [made.x, made.x])
                   for i in range(3)]

        class Loaded:
            def __init__(self, text, *_):
                if "/0.ptx" in text:
                    raise attacca.Error("out of shared memory")
                self.text = text

            def __call__(self, inputs):
                return inputs
        times = [_timing.Seconds(2e-6, 1e-6), _timing.Seconds(1e-6, 2e-6)]
        with mock.patch.multiple(configurations, Loaded=Loaded), \
                mock.patch.object(torch.random, "fork_rng",
                                  lambda devices: contextlib.nullcontext()), \
                mock.patch.multiple(_timing, input_sets=lambda fakes: [[0] * len(fakes)],
                                    compete=lambda functions, sets: times[:len(functions)]):
            self.assertEqual(configurations.fastest(offered, made.result), 2)
            self.assertEqual(configurations.fastest(offered[:2], made.result), 1)
            self.assertEqual(configurations.fastest(offered[1:2], made.result), 0)

    def test_operands_that_are_not_row_major_are_passed_as_they_lie(self):
        """Also one that the kernel reads twice, and one that begins inside of a tensor."""
        aten = torch.ops.aten

        def views(g):
            return {"x": g.call(aten.t.default, g.x), "y": g.call(aten.slice.Tensor, g.y, 1, 8)}
        made = Graph(arguments=views)
        before = str(made.graph)
        (node,), unused, _ = self.stand_in(made)
        self.assertEqual(unused, [])
        lying = [operand for operand in node.args if operand.target is kernels.as_it_lies]
        self.assertEqual([tuple(each.meta["val"].stride()) for each in lying], [(1, 64), (64, 1)])
        self.assertIn(f'kernel("/k.ptx", "{lying[0].name}", "{lying[1].name}", bf16[24, 64]',
                      node.meta[kernels.TEXT])
        kernels.restore(made.graph, [node])
        self.assertEqual(str(made.graph), before)

    def test_a_kernel_without_a_tail_is_not_compiled(self):
        made = Graph(tail=False)
        before = str(made.graph)
        standing, (reason,), asked = self.stand_in(made)
        self.assertEqual((standing, asked), ([], []))
        self.assertEqual(reason, "no elementwise op reads its result")
        self.assertEqual(str(made.graph), before)

    def test_refusals(self):
        aten = torch.ops.aten

        def used_elsewhere():
            made = Graph()
            made.graph.inserting_before(made.end)
            made.end.args = (made.graph.call_function(aten.add.Tensor, (made.out, made.result)),)
            return made
        for made, pattern in [
            (Graph(start=aten.full.default), "starts as aten.full, not uninitialised"),
            (Graph(arguments=lambda g: {"out": g.x}), "starts as an input, not uninitialised"),
            (Graph(written=("x", "out")), "it writes 2 tensors"),
            (Graph(grid=[(2, 1, 1), (4, 1, 1)]), "it has several grids"),
            (Graph(arguments=lambda g: {"x": g.call(aten.expand.default, g.bias, [24, 64])}),
             "argument x is broadcast"),
            (Graph(arguments=lambda g: {"x": g.call(aten.slice.Tensor, g.x, 1, 3)}),
             "argument x begins at an address that is not aligned"),
            (Graph(arguments=lambda g: {"count": "many"}), "argument count is a str"),
            (Graph(JITFunction("x", "y", "out", "more")), "argument more is unknown"),
            (used_elsewhere(), "used elsewhere"),
        ]:
            with self.subTest(pattern):
                before = str(made.graph)
                standing, (reason,), _ = self.stand_in(made)
                self.assertEqual(standing, [])
                self.assertRegex(reason, pattern)
                self.assertEqual(str(made.graph), before)

    def test_without_triton_the_report_says_so(self):
        attacca.torch.reset()
        made = Graph()
        before = str(made.graph)
        with mock.patch.dict("sys.modules", {"triton": None}):
            self.assertEqual(_rewrite.rewrite(made.graph, _rewrite.Options(policy="always")), 0)
        self.assertEqual(str(made.graph), before)
        left, = attacca.torch.report().graphs[-1].left
        self.assertEqual(left.op, "triton kernel")
        self.assertRegex(left.reason, "Triton does not compile it alone")

    def test_where_no_gpu_is_the_kernel_stays_and_the_rest_is_fused(self):
        made = Graph(product=True)
        module = torch.fx.GraphModule({}, made.graph)
        with mock.patch.object(kernels, "_compiled", compiled()[0].new):
            self.assertEqual(_rewrite.rewrite(module.graph, _rewrite.Options(policy="always")), 1)
        targets = [str(node.target) for node in module.graph.nodes]
        self.assertIn("triton_kernel_wrapper_functional", " ".join(targets))
        self.assertNotIn("user_kernel", " ".join(node.name for node in module.graph.nodes))
        reasons = [left.reason for left in attacca.torch.report().graphs[-1].left]
        self.assertTrue(any("runs on a GPU alone" in reason for reason in reasons), reasons)


if __name__ == "__main__":
    unittest.main()
