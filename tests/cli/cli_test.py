"""The command line as a user meets it: output, exit codes, and every kind of bad input.

Usage: cli_test.py ATTACCA [unittest arguments]. Needs numpy and ml_dtypes.
"""
import contextlib
import html.parser
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.dom.minidom

import ml_dtypes
import numpy as np

ATTACCA = sys.argv.pop(1)
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

LINEAR = """graph linear(x: f32[M, 8], w: f32[8, 16], b: f32[16]) {
  return relu(x @ w + b)
}
"""


def attacca(*args, env=None):
    run = subprocess.run([ATTACCA, *map(str, args)], capture_output=True, text=True, timeout=600,
                         env=None if env is None else {**os.environ, **env})
    return run.returncode, run.stdout, run.stderr


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text, name="graph.attacca"):
        path = self.folder / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    def save(self, array, name):
        np.save(self.folder / name, array)
        return self.folder / name

    def refused(self, *args, what, fix=None, env=None):
        code, out, err = attacca(*args, env=env)
        self.assertEqual(code, 2, out + err)
        self.assertIn(what, err)
        if fix:
            self.assertIn(fix, err)
        self.assertNotIn("terminate", err)
        return err


class Emit(Cli):
    def test_prints_readable_code(self):
        code, out, err = attacca("emit", "--epilogue", "silu(acc + row(bias)) * full(res)")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("attacca_element(float acc, float bias, float res)", out)
        self.assertIn("const float t0 = acc + bias;", out)
        self.assertIn('extern "C" __device__ attacca_results attacca_hole(', out)

    def test_eager_rounds_where_the_graph_does(self):
        _, out, _ = attacca("emit", "--epilogue", "acc + row(bias)", "--mode", "eager")
        self.assertIn("attacca_round_bf16(__fadd_rn(t0, bias))", out)

    def test_swapped_kernels_take_rows_as_columns(self):
        _, out, _ = attacca("emit", "--epilogue", "acc + row(bias)", "--swapped")
        self.assertIn("uint32_t col0", out)

    def test_operands_without_a_slot_go_through_the_context(self):
        _, out, _ = attacca("emit", "--epilogue", "acc + full(a) + full(b)", "--fulls", "16")
        self.assertIn("attacca_load<unsigned short>(context, 0, row, column, batch)", out)

    def test_includes_the_users_functions(self):
        file = self.write("__device__ float my_act(float x) { return x * 2.0f; }\n", "my.cuh")
        _, out, err = attacca("emit", "--epilogue", "my_act(acc + row(b))", "--include", file)
        self.assertEqual(err, "")
        self.assertIn("return x * 2.0f;", out)
        self.assertIn("const float t1 = my_act(t0);", out)
        self.refused("emit", "--epilogue", "acc", "--include", self.folder / "none.cuh",
                     what="none.cuh")

    def test_refusals(self):
        self.refused("emit", "--epilogue", "slu(acc)", what="unknown op", fix="did you mean silu?")
        self.refused("emit", "--epilogue", "acc", "--out", "bf61", what="unknown dtype bf61")
        self.refused("emit", "--epilogue", "acc", "--acc", "f16",
                     what="no kernel accumulates in f16")
        self.refused("emit", "--epilogue", "acc > 0", what="result 1 is bool")


class Profile(Cli):
    """Two products, of which the second costs 64 times as much, and a constant of its own."""
    TEXT = """graph two(x: f32[M, 64], w: f32[64, 512], v: f32[512, 4096], u: f32[4096, 64]) {
  h = relu(x @ w)
  wide = gelu(h @ v)
  return wide @ u, sum(constant(f32[2], [1, 2]), axes=[0])
}
"""

    def profiled(self, *args):
        code, out, err = attacca("run", self.write(self.TEXT), "--dim", "M=64", *args)
        self.assertEqual((code, err), (0, ""))
        return out

    def test_every_region_that_runs_is_timed(self):
        report = json.loads(self.profiled("--profile", "--json"))
        profile = report["profile"]
        regions = {each["region"]: each for each in profile["regions"]}
        products = {number: each for number, each in regions.items() if "matmul" in each["ops"]}
        self.assertEqual([each["ops"] for _, each in sorted(products.items())],
                         ["matmul, relu", "matmul, gelu", "matmul"])
        self.assertEqual(len(products), len(regions))  # the constant's sum is computed before
        self.assertEqual(profile["regions"],
                         sorted(profile["regions"], key=lambda each: -each["us"]))
        # The least of three runs: other processes may slow one.
        runs = [report] + [json.loads(self.profiled("--profile", "--json")) for _ in range(2)]
        small, wide, _ = (min(each["us"] for run in runs for each in run["profile"]["regions"]
                              if each["region"] == number) for number in sorted(products))
        self.assertGreater(wide, 4 * small)
        self.assertEqual(products[min(products)]["outputs"], ["h: f32[M, 512]"])
        total = sum(each["us"] for each in profile["regions"])
        self.assertAlmostEqual(profile["us"], total)
        self.assertAlmostEqual(sum(each["us"] for each in profile["ops"]), total)
        # The regions are what a run consists of.
        self.assertLess(total, 3e3 * report["fused_ms"])
        self.assertGreater(total, 0.3e3 * report["fused_ms"])

    def test_equal_ops_are_one_row(self):
        text = "graph g(x: f32[8, 8], w: f32[8, 8]) {\n  return relu(relu(x @ w) @ w) @ w\n}\n"
        code, out, _ = attacca("run", self.write(text), "--profile", "--json")
        self.assertEqual(code, 0)
        ops = {each["ops"]: each["regions"] for each in json.loads(out)["profile"]["ops"]}
        self.assertEqual(ops, {"matmul, relu": 2, "matmul": 1})

    def test_tables(self):
        out = self.profiled("--profile")
        self.assertRegex(out, r"(?m)^profile: medians of \d+ rounds; 3 regions take [\d.]+ us$")
        self.assertRegex(out, r"(?m)^ +[\d.]+ +[\d.]+%  2: gemm \(matmul, gelu\)$")
        self.assertRegex(out, r"(?m)^ +[\d.]+ +[\d.]+%  1 x matmul, gelu$")
        self.assertNotIn("profile", self.profiled())

    def test_long_tables_are_cut(self):
        steps = "".join(f"  y{i} = y{i - 1} @ w\n" for i in range(1, 41))
        text = f"graph g(y0: f32[8, 8], w: f32[8, 8]) {{\n{steps}  return y40\n}}\n"
        code, out, _ = attacca("run", self.write(text), "--profile")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^ +[\d.]+ +[\d.]+%  10 more$")
        shares = [float(line.split()[1][:-1]) for line in
                  out.split("share  region\n")[1].split("        us")[0].splitlines()]
        self.assertEqual(len(shares), 31)
        self.assertAlmostEqual(sum(shares), 100, delta=2)

    def test_trace(self):
        trace = self.folder / "trace.json"
        self.assertNotIn("profile", self.profiled("--trace", trace))
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual([each["ph"] for each in events], ["M", "X", "X", "X"])
        self.assertEqual([each["name"] for each in events[1:]],
                         ["1: matmul, relu", "2: matmul, gelu", "3: matmul"])
        for before, after in zip(events[1:], events[2:]):
            self.assertGreaterEqual(after["ts"], before["ts"] + before["dur"])
        self.refused("run", self.write(self.TEXT), "--dim", "M=4", "--trace",
                     self.folder / "none" / "trace.json", what="none/trace.json")


class Commands(Cli):
    def test_fold_prints_the_recovered_op(self):
        self.assertEqual(attacca("fold", "x / (1 + exp(-x))"), (0, "silu(x)\n", ""))

    def test_fold_explains(self):
        code, out, _ = attacca("fold", "x / (1 + exp(-x))", "--explain")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"silu\(x\)\n  \S+: silu\(x\)")

    def test_fold_says_why_not(self):
        code, out, _ = attacca("fold", "x / (1 + exp(-y))", "--why-not", "silu")
        self.assertEqual(code, 0)
        self.assertIn("wanted", out)

    def test_fold_takes_expressions_that_begin_with_a_minus(self):
        for text, want in (("-x", "-x"), ("--x", "--x"), ("-1 / (1 + exp(-x))", "-sigmoid(x)"),
                           ("-x / (1 + exp(x))", "silu(-x)"), ("-(x - y)", "-(x - y)")):
            with self.subTest(text):
                for args in ([text], [text, "--dtype", "f32"], ["--dtype", "f32", text],
                             ["--dtype=f32", text], ["--", text]):
                    self.assertEqual(attacca("fold", *args), (0, want + "\n", ""), args)
        self.assertIn("sigmoid", attacca("fold", "-1 / (1 + exp(-x))", "--explain")[1])
        self.assertEqual(attacca("fold", "--explain")[0], 2)
        self.assertEqual(attacca("fold", "x + 1", "--explan")[0], 2)
        self.assertEqual(attacca("fold", "--explan", "x + 1")[0], 2)
        self.assertEqual(attacca("fold", "-x", "-y")[0], 2)

    def test_options_take_expressions_that_begin_with_a_minus(self):
        for text in ("-acc", "-(acc)", "--acc", "-1 * acc"):
            for args in (["--epilogue", text], [f"--epilogue={text}"]):
                code, out, err = attacca("emit", *args)
                self.assertEqual((code, err), (0, ""), args)
                self.assertIn("acc", out)

    def test_fold_leaves_look_alikes(self):
        self.assertEqual(attacca("fold", "x / (1 + exp(-y))")[1], "x / (1 + exp(-y))\n")

    def test_version_and_doctor(self):
        self.assertRegex(attacca("version")[1], r"attacca \d+\.\d+\.\d+\n")
        code, out, _ = attacca("doctor", env={"ATTACCA_CACHE_DIR": "/somewhere/else"})
        self.assertEqual(code, 0)
        self.assertIn("/somewhere/else", out)
        self.assertRegex(out, r"(?m)^variables  ATTACCA_CACHE_DIR=/somewhere/else$")
        self.assertIn("oneDNN", out)
        self.assertIn("NVRTC 1", out)  # tools/setup.sh installs it

    def test_doctor_names_what_is_missing(self):
        nowhere = {f"ATTACCA_{name}": "/nowhere/x" for name in
                   ["LIBCUDA", "LIBNVRTC", "LIBNVJITLINK", "LIBCUBLASLT", "PTXAS", "TEMPLATE_DIR"]}
        code, out, err = attacca("doctor", env=nowhere)
        self.assertEqual((code, err), (0, ""))
        for name in ["the CUDA driver", "NVRTC", "cuBLASLt"]:
            self.assertIn(f"cannot open {name}", out)
        self.assertRegex(out, r"assembler  .*no program /nowhere/x.*correct or unset ATTACCA_PTXAS")
        self.assertIn("ATTACCA_TEMPLATE_DIR", out)
        self.assertRegex(out, r"devices    cpu\n$")

    def test_run_checks_against_f64(self):
        code, out, err = attacca("run", self.write(LINEAR), "--dim", "M=5", "--check")
        self.assertEqual(code, 0, out + err)
        self.assertIn("relu(acc + row(b))", out)
        self.assertIn("passed", out)

    def test_run_says_before_it_takes_long(self):
        graph = self.write("graph g(x: f32[M, 8192], w: f32[8192, 8192]) { return relu(x @ w) }")
        for check in ([], ["--check"]):
            run = subprocess.Popen([ATTACCA, "run", graph, "--dim", "M=65536", *check],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            limit = threading.Timer(30, run.kill)
            limit.start()
            try:
                note = run.stderr.readline()
            finally:
                limit.cancel()
                run.kill()
                run.communicate()
            self.assertRegex(note, r"^note: this run takes about .*op by op.*; .*--dim M=8192")
            self.assertEqual("f64 reference" in note, bool(check))
        code, _, err = attacca("run", graph, "--dim", "M=0", "--check")
        self.assertEqual((code, err), (0, ""))

    def test_run_json_is_json(self):
        code, out, _ = attacca("run", self.write(LINEAR), "--dim", "M=5", "--check", "--json")
        self.assertEqual(code, 0)
        report = json.loads(out)
        self.assertEqual(report["dims"], {"M": 5})
        self.assertTrue(report["checks"][0]["passed"])
        self.assertEqual(len(report["partition"]["regions"]), 1)

    def test_run_computes_what_numpy_does(self):
        rng = np.random.default_rng(1)
        x, w, b = (rng.standard_normal(s, dtype=np.float32) for s in [(3, 8), (8, 16), (16,)])
        inputs = [f"--input={n}={self.save(a, n + '.npy')}" for n, a in zip("xwb", (x, w, b))]
        code, out, err = attacca("run", self.write(LINEAR), *inputs, "--output",
                                 self.folder / "out")
        self.assertEqual(code, 0, out + err)
        got = np.load(next((self.folder / "out").glob("*.npy")))
        np.testing.assert_allclose(got, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5)

    def test_run_takes_bf16_and_fortran_order(self):
        x = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(3, 8))
        w = np.eye(8, 16, dtype=np.float32).astype(ml_dtypes.bfloat16)
        graph = self.write("graph g(x: f32[M, 8], w: bf16[8, 16]) { return x @ cast(w, f32) }")
        code, out, err = attacca("run", graph, f"--input=x={self.save(x, 'x.npy')}",
                                 f"--input=w={self.save(w, 'w.npy')}", "--output",
                                 self.folder / "out")
        self.assertEqual(code, 0, out + err)
        got = np.load(next((self.folder / "out").glob("*.npy")))
        np.testing.assert_array_equal(got[:, :8], x)

    def test_control_characters_of_names_are_written_as_numbers(self):
        graph = self.write("""graph "g\\x1b[2J"(x: f32[4]) {
  return "\\x1b[2Jgone" = exp(x), "a\\x0anot fused:" = neg(x), "\\xff" = abs(x)
}
""", "names.attacca")
        svg, page = self.folder / "names.svg", self.folder / "names.html"
        self.assertEqual(attacca("explain", graph, "--svg", svg, "--html", page)[0], 0)
        code, out, err = attacca("explain", graph)
        self.assertEqual((code, err), (0, ""))
        code, ran, err = attacca("run", graph, "--check")
        self.assertEqual((code, err), (0, ""))
        for text in (out, ran, svg.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")):
            self.assertEqual([c for c in text if ord(c) < 32 and c != "\n"], [])
            self.assertIn("\\x1b[2J", text)
            self.assertNotIn("a\nnot fused", text)
        xml.dom.minidom.parse(str(svg))

    def test_explain_forms(self):
        graph = self.write(LINEAR)
        self.assertIn("relu(acc + row(b))", attacca("explain", graph)[1])
        self.assertIn("regions", json.loads(attacca("explain", graph, "--json")[1]))
        self.assertIn("digraph", attacca("explain", graph, "--dot")[1])
        svg = self.folder / "graph.svg"
        self.assertEqual(attacca("explain", graph, "--svg", svg)[0], 0)
        self.assertIn("<svg", svg.read_text())

    def deep(self, layers):
        """Equal layers of four regions, and one region before and behind them."""
        text = "".join(f"  h{i} = relu(x{i} @ w)\n  t{i} = sum(h{i}, axes=[1], keepdims=true)\n"
                       f"  y{i} = (h{i} - t{i}) @ w\n  x{i + 1} = y{i} @ w\n"
                       for i in range(layers))
        return self.write(f"graph deep(x: f32[M, 8], w: f32[8, 8]) {{\n  x0 = exp(x)\n{text}"
                          f"  return tanh(x{layers} @ w + x)\n}}\n")

    def test_explain_draws_parts_that_repeat_once(self):
        regions = len(json.loads(attacca("explain", self.deep(300), "--json")[1])["regions"])
        self.assertGreater(regions, 1000)
        code, dot, err = attacca("explain", self.deep(300), "--dot")
        self.assertEqual((code, err), (0, ""))
        boxes = [int(each) for each in re.findall(r"(?m)^ +r(\d+) \[", dot)]
        self.assertLess(len(boxes), 15)
        (times, first, last), = re.findall(r'label="(\d+) times: regions (\d+) to (\d+)"', dot)
        part = (int(last) - int(first) + 1) / int(times)
        self.assertEqual(len(boxes), regions - (int(times) - 1) * part)
        self.assertGreaterEqual(int(times), 299)
        arrows = [(int(a), int(b)) for a, b in re.findall(r"(?m)^ +r(\d+) -> r(\d+)", dot)]
        self.assertLessEqual({each for arrow in arrows for each in arrow}, {*boxes})
        self.assertIn("style=dashed", dot)
        self.assertIn("shape=ellipse", dot)  # x
        self.assertIn("out:out0", dot)

    def test_explain_pages_open_regions(self):
        page = self.folder / "page.html"
        self.assertEqual(attacca("explain", self.deep(40), "--html", page), (0, "", ""))
        text = page.read_text()
        level, = re.findall(r"regions (\d+) to (\d+): (\d+) times the same (\d+) regions", text)
        first, last, times, length = map(int, level)
        self.assertEqual(last - first + 1, times * length)
        opened = [int(each) for each in re.findall(r'<details id="region-(\d+)">', text)]
        total = len(json.loads(attacca("explain", self.deep(40), "--json")[1])["regions"])
        self.assertEqual(opened, [*range(1, first + length), *range(last + 1, total + 1)])
        self.assertEqual(text.count("<svg"), 1 + len(opened))
        self.assertEqual(text.count("<details"), text.count("</details>"))
        self.assertIn("region 1: ", text)
        self.refused("explain", self.write(LINEAR), "--html", page, env={"PATH": "/nowhere"},
                     what="cannot draw", fix="graphviz")
        self.assertEqual(page.read_text(), text)

    def test_explain_draws_into_a_pipe(self):
        graph, pipe = self.write(LINEAR), self.folder / "pipe"
        os.mkfifo(pipe)
        with open(os.open(pipe, os.O_RDWR)) as reader:  # smaller than a pipe's buffer
            self.assertEqual(attacca("explain", graph, "--svg", pipe)[0], 0)
            self.assertIn("<?xml", reader.readline())
        self.assertTrue(pipe.is_fifo())

    def test_explain_without_dot(self):
        adds = "".join(f"  x{i + 1} = relu(x{i} + {i})\n" for i in range(2000))
        graph = self.write(f"graph g(x0: f32[4]) {{\n{adds}  return x2000\n}}")
        svg = self.folder / "graph.svg"
        self.refused("explain", graph, "--svg", svg, env={"PATH": "/nowhere"}, what="cannot draw",
                     fix="graphviz")
        self.assertEqual(list(self.folder.iterdir()), [graph])

    def test_eager_mode_runs(self):
        code, out, err = attacca("run", self.write(LINEAR), "--mode", "eager", "--check")
        self.assertEqual(code, 0, out + err)


class EdgeCases(Cli):
    def test_zero_rows(self):
        code, out, err = attacca("run", self.write(LINEAR), "--dim", "M=0", "--check")
        self.assertEqual(code, 0, out + err)

    def test_ones(self):
        graph = self.write("graph g(x: bf16[M, 1], w: bf16[1, 1]) { return gelu(x @ w) }")
        self.assertEqual(attacca("run", graph, "--dim", "M=1", "--check")[0], 0)

    def test_gelu_of_few_small_elements_is_as_exact_as_op_by_op(self):
        graph = self.write(
            "graph g(x: f32[1, 1], w: f32[6, 1]) {\n  a, b = split(x @ transpose(w), 2, axis=1)\n"
                           "  return 0.5 * a * (1.0 + erf(a * 0.70710678)) * b\n}")
        for seed in (16, 23, 30, 32, 48):
            code, out, err = attacca("run", graph, "--check", "--seed", str(seed))
            self.assertEqual(code, 0, out + err)

    def test_nan_weights_stay_nan(self):
        w = np.full((8, 16), np.nan, dtype=np.float32)
        code, out, err = attacca("run", self.write(LINEAR), f"--input=w={self.save(w, 'w.npy')}",
                                 "--check", "--output", self.folder / "out")
        self.assertEqual(code, 0, out + err)
        self.assertTrue(np.isnan(np.load(next((self.folder / "out").glob("*.npy")))).all())

    def test_square_shapes_are_not_ambiguous(self):
        graph = self.write("graph g(x: f32[8, 8], w: f32[8, 8], b: f32[8]) { return x @ w + b }")
        self.assertIn("row(b)", attacca("run", graph, "--check")[1])


class Gpu(Cli):
    """What the commands for a GPU print on a machine without one."""

    NONE = {"ATTACCA_LIBCUDA": "/nowhere/libcuda.so"}

    def test_no_driver(self):
        graph = self.write(LINEAR)
        for command in ["run", "tune"]:
            with self.subTest(command):
                err = self.refused(command, graph, "--device", "cuda", env=self.NONE,
                                   what="cannot open the CUDA driver", fix="ATTACCA_LIBCUDA")
                self.assertIn("/nowhere/libcuda.so", err)
                self.assertRegex(err, r"(?m)^  at: .")
                self.assertRegex(err, r"(?m)^  fix: .")

    def test_devices_by_name(self):
        graph = self.write(LINEAR)
        gemm = ("bench", "gemm", "--m", "8", "--n", "8", "--k", "8")
        for name in ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"]:
            for command in [("run", graph), ("tune", graph), gemm]:
                with self.subTest(f"{command[0]} {name}"):
                    self.refused(*command, f"--device={name}", what="unknown device", fix="cuda:1")
        self.refused("tune", graph, "--device", "cpu", what="nothing to tune on the CPU")
        self.refused(*gemm, "--device", "cpu", what="timed on a GPU")
        for name in ["cuda", "cuda:0", "0"]:
            self.refused(*gemm, "--device", name, env=self.NONE, what="cannot open the CUDA driver")

    def test_usage(self):
        self.refused("tune", what="file is required")
        self.refused("tune", "x.attacca", "--show", what="--show")
        self.refused("tune", "--show", "--forget", what="--forget")
        self.refused("tune", "x.attacca", "--all", "--budget", "3", what="--budget")
        self.refused("tune", self.folder / "none.attacca", what="cannot read")


class LongInput(Cli):
    def test_errors_show_excerpts_of_long_input(self):
        name, line = "n" * 10000, "1 + " * 25000
        million = "x" * 1000000
        ptx = ".version 7.0\n.target sm_80\n.address_size 64\n"
        files = {
            "twice.attacca": f"graph g({name}: f32[4], {name}: f32[4]) {{ return {name} }}",
            "quoted.attacca": f'graph g("{line}": f32[4]) {{ return "{line}" + "{line}b" }}',
            "million.attacca": million,
            "symbol.attacca": f"graph g(x: f32[{name}]) {{ y = x @ x\n return y }}",
            "number.attacca": f"graph g(x: f32[{'9' * 10000}]) {{ return x }}",
            "opcode.ptx": ptx + f".visible .entry k(.param .u64 p) {{ {name}.u32 %r1, %r2; }}",
            "million.ptx": ptx + million,
            "line.ptx": ptx + line,
            "million.onnx": million,
        }
        for file, text in files.items():
            (self.folder / file).write_text(text)
        runs = [["fold", name + "("], ["fold", "x", "--dtype", name],
                ["fold", "x", "--why-not", name],
                ["fold", "1" + "0" * 5000], ["fold", line], ["fold", "x", name],
                ["fold", "x", "--" + name],
                ["run", name], ["run", "x", "--mode", name], ["run", "x", "--threads", "9" * 10000],
                [name], ["--" + name], ["emit", "--epilogue", f"acc + {name}"],
                ["emit", "--epilogue", f"{name}(acc)"],
                ["emit", "--epilogue", "acc + row(b, " + name + ")"],
                ["emit", "--epilogue", "acc", "--out", name],
                ["emit", "--epilogue", "acc", "--acc", name],
                ["emit", "--epilogue", "acc", "--fulls", name],
                ["run", self.write(LINEAR), "--dim", name],
                ["run", self.write(LINEAR), "--dim", f"M={name}"],
                ["run", self.write(LINEAR), "--dim", f"{name}=4"],
                ["run", self.write(LINEAR), "--input", f"{name}=a.npy"],
                ["run", self.write(LINEAR), "--device", name], ["tune", "x", "--as", name]]
        runs += [["run" if file.endswith("onnx") else "fold", self.folder / file]
                 for file in files if not file.endswith("ptx")]
        runs += [["kernel", "inspect", self.folder / file, "--output", output, "--dtype", "f32"]
                 for file in files if file.endswith("ptx") for output in ("p", name)]
        for args in runs:
            with self.subTest(" ".join(str(arg)[:40] for arg in args)):
                code, out, err = attacca(*args)
                self.assertEqual(code, 3 if "opcode.ptx" in str(args) and "p" in args else 2,
                                 err[:500])
                self.assertNotEqual(out + err, "")
                self.assertLess(len((out + err).encode()), 6000)


class TunedCommands(Cli):
    def setUp(self):
        super().setUp()
        self.env = {"ATTACCA_CACHE_DIR": str(self.folder)}
        self.file = self.folder / "tuned.sqlite"

    def tuned(self, *args):
        return attacca("tune", *args, env=self.env)

    def put(self, *rows):
        self.tuned("--show")
        with contextlib.closing(sqlite3.connect(self.file)) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS choices(device TEXT, problem TEXT, shape TEXT, tools "
                "TEXT, candidate TEXT NOT NULL, seconds REAL NOT NULL, unfused_seconds REAL NOT "
                "NULL, made INTEGER NOT NULL, quick INTEGER NOT NULL, "
                "PRIMARY KEY(device, problem, shape, tools))")
            database.executemany("INSERT INTO choices VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def test_there_may_be_none(self):
        self.assertEqual(self.tuned("--show"), (0, f"0 choices in {self.file}\n", ""))
        self.assertEqual(self.tuned("--forget"), (0, f"forgot 0 choices in {self.file}\n", ""))
        self.assertFalse(self.file.exists())

    def test_shows_and_forgets(self):
        self.put(("NVIDIA H200", "fp32|relu", "m<=16 n=8 batch=1 k=8", "by", "a swizzle=2", 5e-6,
                  6e-6, 0, 1),
                 ("NVIDIA H200", "fp32|relu", "m<=32 n=8 batch=1 k=8", "by", "unfused", 7e-6, 7e-6,
                  0, 0))
        code, out, err = self.tuned("--show")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("5.00 us, unfused 6.00 us: a swizzle=2", out)
        self.assertIn(f"2 choices in {self.file}", out)
        self.assertEqual(out.count("quick tuning, "), 1)
        listed = json.loads(self.tuned("--show", "--json")[1])["choices"]
        self.assertEqual([row["shape"][:5] for row in listed], ["m<=16", "m<=32"])
        self.assertAlmostEqual(listed[0]["us"], 5)
        self.assertEqual([row["quick"] for row in listed], [True, False])
        self.assertEqual(self.tuned("--forget"), (0, f"forgot 2 choices in {self.file}\n", ""))
        self.assertIn("0 choices", self.tuned("--show")[1])

    def test_a_time_that_no_calendar_has_is_shown_in_seconds(self):
        self.put(("d", "p", "s", "t", "unfused", 5e-6, 6e-6, 1 << 60, 0))
        code, out, err = self.tuned("--show")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"{1 << 60} s after 1970", out)

    def test_what_a_terminal_would_obey_is_escaped(self):
        self.put(("\x1b]0;title\x07", "p\x1b[2J\nq", "s\x9b2J", "t\r", "c\x1b[31m",
                  5e-6, 6e-6, 0, 0))
        code, out, err = self.tuned("--show")
        self.assertEqual((code, err), (0, ""))
        self.assertNotRegex(out.replace("\n", ""), r"[\x00-\x1f\x7f-\x9f]")
        self.assertIn(r"\x1b]0;title\x07, s\xc2\x9b2J", out)
        self.assertIn(r"p\x1b[2J; q", out)
        listed = json.loads(self.tuned("--show", "--json")[1])["choices"]
        self.assertEqual(listed[0]["device"], "\x1b]0;title\x07")

    def test_a_file_that_is_no_database_is_set_aside(self):
        self.file.write_text("no database" * 100)
        code, out, err = self.tuned("--show")
        self.assertEqual((code, out), (0, f"0 choices in {self.file}\n"))
        self.assertIn("warning: the tuning database was damaged: it was set aside", err)
        self.assertIn(f"at: {self.file}.broken", err)
        self.assertTrue((self.folder / "tuned.sqlite.broken").exists())
        self.assertEqual(self.tuned("--show"), (0, f"0 choices in {self.file}\n", ""))


class CacheCommands(Cli):
    def setUp(self):
        super().setUp()
        self.env = {"ATTACCA_CACHE_DIR": str(self.folder)}
        self.kernels = self.folder / "kernels"

    def cache(self, *args):
        return attacca("cache", *args, env=self.env)

    def put(self, text, name="0123456789abcdef.entry"):
        self.kernels.mkdir(exist_ok=True)
        (self.kernels / name).write_text(text)

    def test_there_may_be_none(self):
        code, out, err = self.cache("ls")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("0 entries", out)
        self.assertIn(str(self.kernels), out)
        self.assertEqual(self.cache("verify")[0], 0)
        self.assertEqual(self.cache("clear")[0], 0)
        self.assertFalse(self.kernels.exists())

    def test_damaged_entries_are_named(self):
        self.put("no entry")
        code, out, err = self.cache("verify")
        self.assertEqual((code, err), (3, ""))
        self.assertIn("0123456789abcdef.entry: damaged", out)
        self.assertIn("1 entry, 1 damaged", out)
        self.assertIn("damaged", self.cache("ls")[1])
        listed = json.loads(self.cache("ls", "--json")[1])
        self.assertEqual(listed["entries"][0]["problem"], "damaged")

    def test_clear_removes_entries_and_nothing_else(self):
        self.put("no entry")
        self.put("half", "0123456789abcdef.1.2.tmp")
        self.put("mine", "notes.txt")
        code, out, _ = self.cache("clear")
        self.assertEqual(code, 0)
        self.assertIn("removed 12 B", out)
        self.assertEqual([path.name for path in self.kernels.iterdir()], ["notes.txt"])

    def test_bad_usage(self):
        self.refused("cache", what="subcommand")
        self.refused("cache", "shrink", what="")
        self.folder.joinpath("kernels").write_text("a file")
        self.refused("cache", "ls", what="cannot list the cache", env=self.env)


class BadInput(Cli):
    def test_no_command(self):
        self.assertEqual(attacca()[0], 2)

    def test_unknown_option(self):
        self.assertEqual(attacca("run", "x.onnx", "--nonsense")[0], 2)

    def test_missing_file(self):
        self.refused("run", self.folder / "none.attacca", what="cannot read")
        self.refused("run", self.folder / "none.onnx", what="none.onnx")

    def test_malformed_text(self):
        self.refused("run", self.write("graph g(x: f32[4]) { return x + }"),
                     what="graph.attacca:1:")

    def test_binary_garbage(self):
        self.refused("run", self.write(bytes(range(256)) * 8), what="graph.attacca:")
        self.refused("run", self.write(bytes(range(256)) * 8, "g.onnx"), what="g.onnx")

    def test_empty_files(self):
        self.refused("run", self.write(""), what="graph.attacca:1:")
        self.refused("run", self.write("", "g.onnx"), what="g.onnx")

    def test_unknown_dtype(self):
        self.refused("run", self.write("graph g(x: f31[4]) { return x }"), what="f31", fix="f32")

    def test_unknown_op(self):
        self.refused("run", self.write("graph g(x: f32[4]) { return siluu(x) }"), what="siluu",
                     fix="silu")

    def test_use_before_definition(self):
        self.refused("run", self.write("graph g(x: f32[4]) {\n a = b + x\n b = a\n return b }"),
                     what=":2:6")

    def test_wrong_ranks(self):
        self.refused("run", self.write("graph g(x: f32[4], w: f32[4, 4]) { return x @ w }"),
                     what="matmul needs matrices", fix="reshape")

    def test_inner_dimensions(self):
        self.refused("run", self.write("graph g(x: f32[M, 4], w: f32[8, 4]) { return x @ w }"),
                     what="inner dimensions", fix="transpose(b)")

    def test_huge_dims(self):
        text = "graph g(x: f32[4611686018427387904, 4611686018427387904]) { return x + 1 }"
        self.refused("run", self.write(text), what="overflow")
        self.refused("run", self.write(LINEAR), "--dim", "M=4611686018427387904", what="")
        self.refused("run", self.write(LINEAR), "--dim", "M=100000000000", what="memory")

    def test_dims(self):
        graph = self.write(LINEAR)
        self.refused("run", graph, "--dim", "M=-1", what="-1")
        self.refused("run", graph, "--dim", "M=ten", what="ten")
        self.refused("run", graph, "--dim", "M", what="NAME=VALUE")
        self.refused("run", graph, "--dim", "Q=4", what="no dimension Q", fix="M")
        self.refused("run", graph, "--dim", "M=4", "--dim", "M=5", what="twice")

    def test_missing_npy(self):
        self.refused("run", self.write(LINEAR), "--input", "x=none.npy", what="none.npy")

    def test_input_names(self):
        self.refused("run", self.write(LINEAR), "--input", "q=x.npy", what="no input q",
                     fix="x, w, b")

    def test_npy_of_another_dtype(self):
        path = self.save(np.zeros((3, 8)), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", what="wants f32")

    def test_npy_of_another_shape(self):
        path = self.save(np.zeros((3, 9), dtype=np.float32), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", what="input x")

    def test_npy_shapes_disagree_with_dim(self):
        path = self.save(np.zeros((3, 8), dtype=np.float32), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", "--dim", "M=4", what="M")

    def test_damaged_npy(self):
        whole = self.save(np.zeros((3, 8), dtype=np.float32), "x.npy").read_bytes()
        for length in [0, 5, 9, 40, 127, len(whole) - 1]:
            with self.subTest(length):
                path = self.write(whole[:length], "cut.npy")
                self.refused("run", self.write(LINEAR), f"--input=x={path}", what="cut.npy")
        huge = whole.replace(b"(3, 8)", b"(9999999999999, 8)")
        self.refused("run", self.write(LINEAR), f"--input=x={self.write(huge, 'h.npy')}",
                     what="h.npy")

    def test_outputs_that_would_share_a_file(self):
        long = "y" * 221
        for outputs, what in [
                ('"a/b" = x + 1, a_b = x * 2', 'outputs "a/b" and a_b would both be a_b.npy'),
                ("y = x + 1, y = x * 2", "output y comes twice"),
                ("x, x", "output x comes twice"),
                ('y = x + 1, "a.npy\\x00b" = x', "a quoted name holds a NUL byte"),
                (f"{long} = x + 1", "has a name of 221 bytes, a file takes 220")]:
            with self.subTest(outputs):
                graph = self.write(f"graph g(x: f32[4]) {{ return {outputs} }}")
                self.refused("run", graph, "--output", self.folder / "out", what=what)
                self.assertFalse((self.folder / "out").exists())
        graph = self.write(
            f'graph g(x: f32[4]) {{ return "." = x, ".." = x, {long[1:]} = x, Y = x, y = x }}')
        code, _, err = attacca("run", graph, "--output", self.folder / "out")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()},
                         {"..npy", "...npy", f"{long[1:]}.npy", "Y.npy", "y.npy"})

    def test_unwritable_output(self):
        blocked = self.write("", "blocked")
        self.refused("run", self.write(LINEAR), "--output", blocked / "out", what="cannot")

    def test_truncated_onnx(self):
        whole = (EXAMPLES / "bert_mlp.onnx").read_bytes()
        for length in range(0, len(whole) - 1, max(1, len(whole) // 17)):
            with self.subTest(length):
                code, _, err = attacca("explain", self.write(whole[:length], "cut.onnx"))
                self.assertEqual(code, 2)
                self.assertIn("error:", err)

    def test_fold_errors(self):
        self.refused("fold", "x / (", what="1:")
        self.refused("fold", "silu(x)", "--dtype", "f31", what="f31")
        self.refused("fold", "x", "--why-not", "nonsense", what="nonsense")


class Page(html.parser.HTMLParser):
    """What a browser would make of a page, which must be whole without anything else."""

    VOID = {"meta"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.bars, self.texts = [], [], [], [], []
        self.tags = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src") if key in given]
        if tag == "i":
            self.bars.append((given["class"], given["style"]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts += [data.strip()] if data.strip() and self.open[-1] != "style" else []


class Report(Cli):
    TUNED = {"file": "mlp <1>", "device": "NVIDIA H200", "mode": "fp32", "tuned": [
        {"region": 1, "dims": {"M": 16}, "winner": "a splits=2", "us": 10.0, "unfused_us": 15.0,
         "ratio": 1.5, "candidates": [{"candidate": "a splits=2", "us": 10.0}],
         "excluded": [{"template": "b", "reason": "K is 7 & odd"},
                      {"template": "c", "reason": "K is 7 & odd"}]},
        {"region": 2, "dims": {"M": 16}, "winner": "unfused algorithm=1", "us": 5.0,
         "unfused_us": 5.0, "candidates": [{"candidate": "unfused algorithm=1", "us": 5.0},
                                           {"candidate": "a", "us": 8.0},
                                           {"candidate": "b", "failed": "it crashed"}],
         "excluded": [{"template": "c", "reason": "K is 7 & odd"},
                      {"template": "d", "reason": "no <hole>"}]},
        {"region": 3, "dims": {}, "winner": "a", "expected_us": 2.0, "expected_unfused_us": 4.0,
         "candidates": [], "excluded": []}]}

    def page(self, report):
        source, out = self.write(json.dumps(report), "report.json"), self.folder / "page.html"
        self.assertEqual(attacca("report", source, "--html", out), (0, f"wrote {out}\n", ""))
        page = Page(out.read_text())
        self.assertEqual(page.open, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertLessEqual({"h1", "h2", "section"}, page.tags)
        self.assertFalse(page.tags & {"script", "img", "link", "iframe", "object"})
        for link in page.links:
            self.assertIn(link, ["#" + each for each in page.ids])
        return page

    def test_of_a_tuning(self):
        page = self.page(self.TUNED)
        self.assertEqual([kind for kind, _ in page.bars],
                         ["fused", "unfused"] * 3)
        self.assertEqual([style for _, style in page.bars],
                         ["width: 66.7%", "width: 100.0%", "width: 100.0%", "width: 62.5%",
                          "width: 50.0%", "width: 100.0%"])
        self.assertEqual(page.texts[1:4], ["Tuning of mlp <1>", "NVIDIA H200, mode fp32",
                                           "2 of 3 products are fused"])
        said = " ".join(page.texts)
        self.assertIn("saved 5.00 us a call; ", said)
        self.assertIn("expected, fused 2.00 us", said)
        # Region 2 shares no text with region 1: other templates are refused.
        self.assertIn("b and 1 more: K is 7 & odd ( region 1, M=16 )", said)
        self.assertIn("c: K is 7 & odd ( region 2, M=16 )", said)
        self.assertIn("d: no <hole> ( region 2, M=16 )", said)
        self.assertIn("b: it crashed ( region 2, M=16 )", said)

    def test_of_torch(self):
        region = {"name": "2x <addmm>", "detail": "relu(acc)\n& more", "verdict": "fused",
                  "saved": "1 ms", "times": [{"label": "fused", "seconds": 1e-6},
                                             {"label": "unfused", "seconds": 2e-6},
                                             {"label": "Inductor", "seconds": 4e-6}],
                  "reasons": ["it won"]}
        left = {**region, "name": "mm", "verdict": "left", "saved": "", "times": []}
        report = {"format": "attacca.report/1", "title": "torch.compile", "summary": ["1 < 2"],
                  "regions": [region, left]}
        page = self.page(report)
        self.assertEqual(page.bars, [("fused", "width: 25.0%"), ("unfused", "width: 50.0%"),
                                     ("other", "width: 100.0%")])
        self.assertEqual([link for link in page.links if link.startswith("#reason")],
                         ["#reason-1"] * 2)
        self.assertIn("it won ( 2x <addmm> , mm )", " ".join(page.texts))
        self.assertIn("relu(acc)\n& more", page.texts)
        self.assertNotIn("table", page.tags)
        table = {"title": "by <M>", "head": ["M", "speed"], "rows": [["1", "0.9"], ["& 2", "-"]]}
        page = self.page({**report, "tables": [table]})
        self.assertLessEqual({"table", "tr", "th", "td"}, page.tags)
        self.assertIn("by <M> M speed 1 0.9 & 2 -", " ".join(page.texts))
        for key, value in [("rows", ["1"]), ("rows", [[1]]), ("head", "M"), ("title", None)]:
            bad = {**report, "tables": [{**table, key: value}]}
            self.refused("report", self.write(json.dumps(bad), "bad.json"), "--html",
                         self.folder / "no.html", what=f"no {key} of the type",
                         fix="attacca tune --json")
        for key in region:
            bad = {**report, "regions": [{name: value for name, value in region.items()
                                          if name != key}]}
            self.refused("report", self.write(json.dumps(bad), "bad.json"), "--html",
                         self.folder / "no.html", what=f"no {key} of the type",
                         fix="attacca tune --json")

    def test_of_something_else(self):
        out = self.folder / "no.html"
        self.refused("report", self.write("{", "bad.json"), "--html", out, what="bad.json")
        self.refused("report", self.write("[]", "bad.json"), "--html", out, what="no file of")
        self.refused("report", self.folder / "none.json", "--html", out, what="none.json")
        self.refused("report", self.write(json.dumps(self.TUNED)), "--html",
                     self.write("", "blocked") / "out.html", what="blocked")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
