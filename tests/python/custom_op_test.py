"""attacca.matmul, plans and fused functions as custom ops: under each of torch's ways to trace or
transform them."""
import io
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import attacca
import attacca.torch

EPILOGUE = "silu(acc + row(bias)) * full(res)"
SEVERAL = "relu(acc), acc * 2"
PLAN = attacca.compile(
    "graph g(x: f32[M, 8], w: f32[8, 6]) { y = x @ w; return relu(y), exp(y) * 2 }")
ONE = attacca.compile("graph h(x: f32[M, 6], s: f32[2*M, 1]) { return exp(x) }")


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


class Inputs(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.x, self.w = torch.randn(4, 8), torch.randn(6, 8)
        self.bias, self.res = torch.randn(6), torch.randn(4, 6)

    def call(self, x):
        """An op of one result, with operands."""
        return attacca.matmul(x, self.w.T, EPILOGUE, bias=self.bias, res=self.res) + 1

    def want(self, x):
        return torch.nn.functional.silu(x @ self.w.T + self.bias) * self.res + 1

    def several(self, x):
        return attacca.matmul(x, self.w.T, SEVERAL)

    def want_several(self, x):
        y = x @ self.w.T
        return y.relu(), y * 2

    def plans(self, x):
        y, z = PLAN(x, self.w.T.contiguous())
        return ONE(s=x.new_zeros(2 * x.shape[0], 1), x=y) - z

    def want_plans(self, x):
        y = x @ self.w.T
        return y.relu().exp() - y.exp() * 2


class Traced(Inputs):
    def test_make_fx(self):
        for mode in ("real", "fake", "symbolic"):
            for pre_dispatch in (False, True):
                for function, want in [(self.call, self.want), (self.several, self.want_several),
                                       (self.plans, self.want_plans)]:
                    with self.subTest(mode=mode, pre_dispatch=pre_dispatch,
                                      function=function.__name__):
                        graph = make_fx(lambda x: function(x), tracing_mode=mode,
                                        pre_dispatch=pre_dispatch,
                                        _allow_non_fake_inputs=True)(self.x)
                        x = torch.randn(4, 8)
                        close(graph(x), want(x))
        graph = make_fx(lambda x: self.plans(x), tracing_mode="symbolic",
                        _allow_non_fake_inputs=True)(self.x)
        x = torch.randn(9, 8)
        close(graph(x), self.want_plans(x))

    def test_operands_with_the_names_of_parameters(self):
        def function(x):
            return attacca.matmul(x, self.w.T, "acc * row(a) + full(b)", a=self.bias, b=self.res)
        want = self.x @ self.w.T * self.bias + self.res
        close(make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(self.x)(self.x),
              want)
        close(torch.compile(function, fullgraph=True, backend="aot_eager")(self.x), want)
        close(torch.func.vmap(function)(self.x[None]), want[None])

    def test_out(self):
        def function(x, y):
            out, first, second = torch.zeros(4, 6), y.clone(), torch.zeros(4, 6)
            attacca.matmul(x, self.w.T, "acc + full(res)", res=self.res, out=out)
            PLAN(x, self.w.T.contiguous(), out=[first, second])
            return out * 2 + first, second

        def want(x, y):
            product = x @ self.w.T
            return (product + self.res) * 2 + product.relu(), product.exp() * 2
        y = torch.randn(4, 6)
        graph = make_fx(function)(self.x, y)
        functional = make_fx(torch.func.functionalize(function))(self.x, y)
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for each in (graph, functional, compiled):
            x, y = torch.randn(4, 8), torch.randn(4, 6)
            close(each(x, y), want(x, y))

    def test_functionalize(self):
        close(torch.func.functionalize(self.call)(self.x), self.want(self.x))
        close(torch.func.functionalize(self.plans)(self.x), self.want_plans(self.x))

    def test_fake_tensors(self):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            x = mode.from_tensor(self.x)
            got = self.call(x)
            first, second = self.several(x)
            batched = attacca.matmul(mode.from_tensor(torch.randn(2, 3, 8)), self.w.T,
                                     out_dtype="bf16")
            fused = attacca.fuse(lambda x, w: torch.relu(x @ w.T))(x, mode.from_tensor(self.w))
        # the last outside of the mode
        for each in (got, first, second, batched, fused, self.call(x)):
            self.assertIsInstance(each, FakeTensor)
        self.assertEqual([(tuple(t.shape), t.dtype) for t in (got, first, second, batched, fused)],
                         [((4, 6), torch.float32), ((4, 6), torch.float32), ((4, 6), torch.float32),
                          ((2, 3, 6), torch.bfloat16), ((4, 6), torch.float32)])

    def test_errors_while_tracing(self):
        for arguments, keywords, pattern in [
                ((self.w.T, "acc"), {}, ""), ((self.w, "acc"), {}, "K=8 and b K=6"),
                ((self.w.T, "acc + row(bais)"), {"bias": self.bias}, "names no operand bias"),
                ((self.w.T, "sillu(acc)"), {}, "did you mean silu"),
                ((self.w.T.double(), "acc"), {}, "a is f32 and b is f64")]:
            with self.subTest(pattern):
                def trace():
                    return make_fx(lambda x: attacca.matmul(x, *arguments, **keywords),
                                   tracing_mode="fake",
                                   _allow_non_fake_inputs=True)(self.x)
                if not pattern:
                    trace()
                    continue
                with self.assertRaisesRegex(Exception, pattern):
                    trace()
        with self.assertRaisesRegex(attacca.Error, r"\[M, 8\] is wanted"):
            make_fx(lambda x: PLAN(x, self.w.T.contiguous()), tracing_mode="fake",
                    _allow_non_fake_inputs=True)(self.x.double())

    def test_torch_jit_trace(self):
        traced = torch.jit.trace(self.call, self.x, check_trace=False)
        x = torch.randn(4, 8)
        close(traced(x), self.want(x))

    def test_distributed_tensors_are_refused(self):
        from torch.distributed.tensor import DTensor
        tensor = DTensor.__new__(DTensor, self.x, _spec(self.x), requires_grad=False)
        with self.assertRaisesRegex(attacca.Error, r"a DTensor.*\.to_local\(\)"):
            attacca.matmul(tensor, self.w.T)
        with self.assertRaisesRegex(attacca.Error, "a DTensor"):
            PLAN(tensor, self.w.T.contiguous())

    def test_subclasses_that_dispatch_in_python(self):
        seen = []

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
                seen.append(str(op))
                unwrap = lambda each: each.inner if isinstance(each, cls) else each
                return op(*torch.utils._pytree.tree_map(unwrap, args))

        class Plain(torch.Tensor):
            pass
        close(attacca.matmul(Wrapper(self.x), self.w.T), self.x @ self.w.T)
        self.assertEqual(seen, ["attacca.matmul.import_attacca_torch"])
        close(attacca.matmul(self.x.as_subclass(Plain), torch.nn.Parameter(self.w, False).T),
              self.x @ self.w.T)


def _spec(x):
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
    return DTensorSpec(None, (), TensorMeta(x.shape, x.stride(), x.dtype))


class Transformed(Inputs):
    def test_vmap(self):
        xs, ws = torch.randn(3, 4, 8), torch.randn(6, 8, 3)
        biases = torch.randn(3, 6)

        def function(x, w, bias):
            return attacca.matmul(x, w.T, "relu(acc + row(bias))", bias=bias)

        def want(x, w, bias):
            return torch.relu(x @ w.T + bias)
        for dims, arguments in [((0, None, None), (xs, self.w, self.bias)),
                                ((0, 2, 0), (xs, ws, biases)),
                                ((1, None, None), (xs, self.w, self.bias)),
                                ((None, 2, None), (self.x, ws, self.bias)),
                                ((None, None, 0), (self.x, self.w, biases)),
                                ((0, None, 0), (xs[:0], self.w, biases[:0])),
                                ((0, None, None), (xs[:0], self.w, self.bias))]:
            with self.subTest(dims):
                close(torch.vmap(function, dims)(*arguments), torch.vmap(want, dims)(*arguments))
        close(torch.vmap(self.call)(xs), torch.stack([self.want(x) for x in xs]))  # a full operand
        for got, wanted in zip(torch.vmap(self.several)(xs), torch.vmap(self.want_several)(xs)):
            close(got, wanted)
        close(torch.vmap(self.plans)(xs), torch.vmap(self.want_plans)(xs))
        nested = torch.randn(2, 3, 4, 8)
        close(torch.vmap(torch.vmap(self.call))(nested), self.want(nested))
        graph = make_fx(lambda xs: torch.vmap(self.call)(xs))(xs)
        close(graph(xs + 1), torch.vmap(self.want)(xs + 1))
        # the error that torch gives for its own ops
        with self.assertRaisesRegex(RuntimeError, "vmap: .* in-?place|copy_"):
            torch.vmap(lambda x: attacca.matmul(x, self.w.T, out=torch.empty(4, 6)))(xs)

    def test_derivatives_are_refused(self):
        for name, function in [("matmul", self.call), ("several", lambda x: self.several(x)[0]),
                               ("plan", lambda x: self.plans(x)),
                               ("fuse", lambda x: attacca.fuse(lambda x,
                                                               w: torch.relu(x @ w.T))(x, self.w))]:
            loss = lambda x: function(x).sum()
            ways = {
                "backward": lambda: function(self.x.clone().requires_grad_()),
                "grad": lambda: torch.func.grad(loss)(self.x),
                "vjp": lambda: torch.func.vjp(loss, self.x),
                "jacrev": lambda: torch.func.jacrev(function)(self.x),
                "jvp": lambda: torch.func.jvp(function, (self.x,), (self.x,)),
                "jacfwd": lambda: torch.func.jacfwd(function)(self.x),
                "vmap of grad": lambda: torch.vmap(torch.func.grad(loss))(torch.randn(2, 4, 8)),
            }
            for way, run in ways.items():
                with self.subTest(name, way=way), self.assertRaisesRegex(attacca.Error,
                                                                         "gradient|tangent"):
                    run()
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(self.x, self.x)
                with self.subTest(name, way="dual"), self.assertRaisesRegex(attacca.Error,
                                                                            "forward-mode tangent"):
                    function(dual)
                function(self.x)  # without a tangent
        out = torch.zeros(4, 6)
        with self.assertRaisesRegex(attacca.Error, "give torch.float32 of shape"), FakeTensorMode():
            attacca.matmul(torch.ones(4, 8), torch.ones(8, 6), out=torch.ones(1, 6))
        with forward_ad.dual_level(), self.assertRaisesRegex(attacca.Error, "forward-mode tangent"):
            attacca.matmul(forward_ad.make_dual(self.x, self.x), self.w.T, out=out)
        with torch.no_grad():
            close(self.call(self.x.clone().requires_grad_()), self.want(self.x))
        close(torch.func.jvp(lambda y: self.call(self.x) * y, (torch.ones(4, 6),),
                             (torch.ones(4, 6),))[1],
              self.want(self.x))  # constants do not matter to a transform


class Compiled(Inputs):
    def test_one_graph_of_every_call(self):
        def function(x, array):
            a = attacca.matmul(x, self.w.T, EPILOGUE, bias=self.bias, res=x[:, :6].contiguous())
            b, c = attacca.matmul(x, self.w.T, lambda acc, bias: (acc + bias, torch.relu(acc)),
                                  bias=self.bias)
            d = attacca.matmul(array, array.T, "relu(acc)")  # of NumPy
            e = self.plans(x)
            f = PLAN(w=self.w.T.contiguous(), x=x)[1]
            return a + b * c + e + f, d * 2

        def want(x, array):
            y = x @ self.w.T
            a = torch.nn.functional.silu(y + self.bias) * x[:, :6]
            return (a + (y + self.bias) * y.relu() + self.want_plans(x) + y.exp() * 2,
                    np.maximum(array @ array.T, 0) * 2)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
        for rows in (4, 7, 5):
            x, array = torch.randn(rows, 8), np.random.rand(rows, 3).astype("f4")
            with torch._dynamo.config.patch(error_on_recompile=rows == 5):
                got, wanted = compiled(x, array), want(x, array)
            close(got[0], wanted[0])
            self.assertIsInstance(got[1], np.ndarray)
            np.testing.assert_allclose(got[1], wanted[1], rtol=1e-5)

    def test_fused_functions(self):
        @attacca.fuse
        def several(x: "f32[M, 8]", w: "f32[6, 8]", factor=1.0, bias=None):
            y = x @ w.T
            return torch.relu(y), y * factor if bias is None else y * factor + bias
        own = attacca.fuse(lambda x: x[:, 1:].T.sigmoid())
        arrays = attacca.fuse(lambda x, y: np.maximum(x / y, 0))

        def function(x, array, factor):
            first, second = several(x + 1, self.w, factor)
            _, third = several(w=self.w, x=x, bias=self.bias)
            out = torch.empty_like(first)
            several(x, self.w, out=[out, third.clone()])
            return first + second * third, own(x), out, arrays(array, array - 1)

        def want(x, array, factor):
            y, z = x @ self.w.T, (x + 1) @ self.w.T
            return (z.relu() + z * factor * (y + self.bias), x[:, 1:].T.sigmoid(), y.relu(),
                    np.maximum(array / (array - 1), 0))
        for backend, dynamic in [("eager", None), ("aot_eager", True), ("attacca", None)]:
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
            for rows, factor in [(4, 2.0), (7, 3.0)] if backend != "attacca" else [(5, 0.5)]:
                with self.subTest(backend=backend, rows=rows):
                    x, array = torch.randn(rows, 8), np.arange(3, 7, dtype="i4")
                    got, wanted = compiled(x, array, factor), want(x, array, factor)
                    close(got[:3], wanted[:3])
                    self.assertEqual(got[3].dtype, np.float64)  # as numpy divides integers
                    np.testing.assert_allclose(got[3], wanted[3])

        torch._dynamo.reset()
        compiled = torch.compile(lambda f, x: f(x), backend="aot_eager", fullgraph=True)
        for op in (torch.exp, torch.relu, torch.tanh):  # another function is another graph
            close(compiled(attacca.fuse(lambda x: op(x)), self.x), op(self.x))
        rows = torch._dynamo.testing.CompileCounter()
        compiled = torch.compile(lambda x: several(x, self.w)[0], backend=rows, fullgraph=True,
                                 dynamic=True)
        for count in (3, 4, 9):  # the size that is a symbol stays one
            x = torch.randn(count, 8)
            close(compiled(x), (x @ self.w.T).relu())
        self.assertEqual(rows.frame_count, 1)

    def test_fused_functions_are_exported(self):
        @attacca.fuse
        def layer(x: "f32[M, 8]", w, bias):
            return torch.nn.functional.silu(x @ w.T + bias)

        class Model(torch.nn.Module):
            def forward(inner, x):
                return layer(x, self.w, self.bias) * 2
        rows = torch.export.Dim("rows", min=2, max=100)
        for strict in (False, True):
            exported = torch.export.export(Model(), (self.x,), dynamic_shapes={"x": {0: rows}},
                                           strict=strict)
            calls = [str(node.target) for node in exported.graph.nodes
                     if node.op == "call_function"]
            self.assertEqual(calls, ["attacca.plan.import_attacca_torch", "aten.mul.Tensor"])
            file = io.BytesIO()
            torch.export.save(exported, file)
            file.seek(0)
            x = torch.randn(9, 8)
            close(torch.export.load(file).module()(x),
                  torch.nn.functional.silu(x @ self.w.T + self.bias) * 2)

    def test_another_plan_is_another_graph(self):
        compiled = torch.compile(lambda plan, x: plan(x), backend="aot_eager", fullgraph=True)
        x = torch.randn(3, 2)
        for op in ("exp", "relu", "tanh"):
            plan = attacca.compile(f"graph g(x: f32[M, 2]) {{ return {op}(x) }}")
            close(compiled(plan, x), getattr(torch, op)(x))

    def test_inductor(self):
        def function(x):
            return self.call(x * 2).sin() + self.several(x)[0] + self.plans(x)

        def want(x):
            return self.want(x * 2).sin() + self.want_several(x)[0] + self.want_plans(x)
        for options in ({"policy": "always"}, {"policy": "always", "cpp_wrapper": True}):
            with self.subTest(options):
                torch._dynamo.reset()
                compiled = torch.compile(function, backend="attacca", fullgraph=True, dynamic=True,
                                         options=options)
                for rows in (4,):
                    x = torch.randn(rows, 8)
                    close(compiled(x), want(x))

    def test_export(self):
        class Model(torch.nn.Module):
            def forward(inner, x):
                return attacca.matmul(x, self.w.T, 'relu(acc + row(bias))',
                                      bias=self.bias), *PLAN(x, self.v)
        self.v = self.w.T.contiguous()
        want = lambda x: (torch.relu(x @ self.w.T + self.bias), (x @ self.v).relu(),
                          (x @ self.v).exp() * 2)
        rows = torch.export.Dim("rows", min=2, max=100)
        for strict in (False, True):
            with self.subTest(strict=strict):
                exported = torch.export.export(Model(), (self.x,), dynamic_shapes={"x": {0: rows}},
                                               strict=strict)
                file = io.BytesIO()
                torch.export.save(exported, file)
                file.seek(0)
                for program in (exported, torch.export.load(file), exported.run_decompositions()):
                    x = torch.randn(7, 8)
                    close(program.module()(x), want(x))
        # Another process needs no more than the file.
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(exported, f"{folder}/model.pt2")
            torch.save((x, want(x)), f"{folder}/data.pt")
            subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(f"""
                import torch, attacca.torch
                x, want = torch.load("{folder}/data.pt")
                loaded = torch.export.load("{folder}/model.pt2").module()
                torch.testing.assert_close(loaded(x), want, rtol=1e-4, atol=1e-4)
                """)], check=True, stderr=subprocess.DEVNULL)

    def test_a_saved_program_with_regions_says_what_to_import(self):
        w = self.w.clone()

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x @ w.T)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            fused = attacca.compile(torch.export.export(Model(), (self.x,)))
            torch.export.save(torch.export.export(fused.module, (self.x,)), f"{folder}/model.pt2")
            torch.save((self.x, Model()(self.x)), f"{folder}/data.pt")
            program = textwrap.dedent(f"""
                import sys, torch
                if sys.argv[1:]:
                    import attacca.torch
                x, want = torch.load("{folder}/data.pt")
                loaded = torch.export.load("{folder}/model.pt2").module()
                torch.testing.assert_close(loaded(x), want, rtol=1e-4, atol=1e-4)
                """)
            run = [sys.executable, "-W", "ignore", "-c", program]
            without, loaded = (subprocess.run(each, stderr=subprocess.PIPE, text=True)
                               for each in (run, [*run, "import"]))
        self.assertIn("attacca.region.import_attacca_torch", without.stderr)
        self.assertNotEqual(without.returncode, 0)
        self.assertEqual(loaded.returncode, 0, loaded.stderr)

    def test_a_package_of_aot_inductor(self):
        w, v = self.w.T.contiguous(), self.w.clone()

        class Model(torch.nn.Module):
            def forward(self, x):
                y = torch.nn.functional.silu(x @ w) * 2  # a region
                z = y @ v  # one of two results
                return attacca.matmul(y, v, "relu(acc)"), *PLAN(x, w), z, torch.relu(z + 1)
        attacca.torch.enable(policy="always")
        try:
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                path = torch._inductor.aoti_compile_and_package(
                    torch.export.export(Model(), (self.x,)), package_path=f"{folder}/model.pt2")
                torch.save((self.x, Model()(self.x)), f"{folder}/data.pt")
                program = textwrap.dedent(f"""
                    import sys, torch
                    if sys.argv[1:]:
                        import attacca.torch
                    x, want = torch.load("{folder}/data.pt")
                    try:
                        got = torch._inductor.aoti_load_package("{path}")(x)
                        torch.testing.assert_close(tuple(got), want, rtol=1e-4, atol=1e-4)
                        print("close")
                    except RuntimeError as error:
                        print(error)
                    """)
                run = [sys.executable, "-W", "ignore", "-c", program]
                without, loaded = (subprocess.run(each, check=True, stdout=subprocess.PIPE,
                                                  text=True).stdout
                                   for each in (run, [*run, "import"]))
        finally:
            attacca.torch.disable()
        self.assertIn("import_attacca_torch", without)
        self.assertEqual(loaded, "close\n")

    def test_without_importing_the_torch_part(self):
        program = """
            import torch, attacca
            x, w = torch.ones(4, 8), torch.ones(8, 5)
            function = lambda x: attacca.matmul(x, w, "relu(acc)") + 1
            print(torch.compile(function, backend="eager", fullgraph=True)(x).sum().item())
            from torch.fx.experimental.proxy_tensor import make_fx
            print(make_fx(function)(x)(x * 2).sum().item(),
                  torch.vmap(function)(x[None]).sum().item())
            """
        exported = """
            import sys, torch, attacca
            class Program(torch.export.ExportedProgram):  # a subclass compiles like its base
                pass
            class Other:
                __module__ = "torch.export.other"
            with torch.no_grad():
                model = torch.export.export(torch.nn.Linear(8, 5), (torch.ones(4, 8),))
            assert "attacca.torch" not in sys.modules
            model.__class__ = Program
            print(type(attacca.compile(model)).__name__)
            try:
                attacca.compile(Other())
            except attacca.Error as error:
                print("is not a graph" in str(error))
            """
        printed = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
                                 check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(printed, "180.0\n340.0 180.0\n")
        printed = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(exported)],
                                 check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(printed, "Program\nTrue\n")


class Schemas(Inputs):
    def test_opcheck(self):
        check, ops = torch.library.opcheck, torch.ops.attacca
        options = "- fp32 known 0 0"
        one = ([self.x, self.w.T, self.bias, self.res], "bias res", EPILOGUE, options)
        check(ops.matmul.import_attacca_torch, one)
        check(ops.matmul.import_attacca_torch,
              ([torch.randn(2, 3, 8), self.w.T], "", "acc", "bf16 eager known 0 1"))
        check(ops.matmul_results.import_attacca_torch, ([self.x, self.w.T], "", SEVERAL, options))
        text = PLAN._engine.argument("")
        inputs = [self.x, self.w.T.contiguous()]
        check(ops.plan_results.import_attacca_torch, (inputs, text))
        check(ops.plan.import_attacca_torch,
              ([torch.randn(3, 6), torch.zeros(6, 1)], ONE._engine.argument("")))


if __name__ == "__main__":
    unittest.main()
