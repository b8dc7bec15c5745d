"""Where memory or threads run out, there is an error, no crash, and no incomplete file.

Usage: memory_test.py ATTACCA [unittest arguments]. Needs Python alone.
"""
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

ATTACCA = sys.argv.pop(1)
MIB = 1 << 20

GRAPH = """graph g(x: f32[M, 1024], w: f32[1024, 1024]) {
  return relu(x @ w)
}
"""


def limited(what, bytes, *args):
    limit = (bytes, bytes)
    run = subprocess.run([ATTACCA, *map(str, args)], capture_output=True, text=True, timeout=600,
                         preexec_fn=lambda: resource.setrlimit(what, limit))
    return run.returncode, run.stdout, run.stderr


def attacca(*args, addresses):
    """`addresses`: MiB of address space."""
    return limited(resource.RLIMIT_AS, addresses * MIB, *args)


def write_checkpoint(path):
    """64 MiB of weights, their scales, and 64 MiB that are copied; all zero."""
    sizes = {"w": ("I8", [4096, 16384], 1), "w_scale": ("F32", [4096], 4),
             "z": ("U8", [64 * MIB], 1)}
    header, at = {}, 0
    for name, (dtype, shape, width) in sizes.items():
        size = width
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


class Scarce(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def codes(self, *args, limits):
        """The exit codes under each limit: 0, or an error that leaves the folder as it was."""
        before, codes = set(self.folder.iterdir()), []
        for addresses in limits:
            with self.subTest(args=args, addresses=addresses):
                code, out, err = attacca(*args, addresses=addresses)
                self.assertIn(code, (0, 2), out + err)
                if code == 2:
                    self.assertRegex(err, "^error: .*memory")
                    self.assertEqual(set(self.folder.iterdir()), before)
                for path in set(self.folder.iterdir()) - before:
                    path.unlink()
                codes.append(code)
        return codes

    def test_packing(self):
        source, packed = self.folder / "a.safetensors", self.folder / "b.safetensors"
        write_checkpoint(source)
        limits = range(120, 361, 60)
        codes = self.codes("pack", source, self.folder / "c.safetensors", limits=limits)
        self.assertEqual((codes[0], codes[-1]), (2, 0))
        self.assertEqual(attacca("pack", source, packed, addresses=1000)[0], 0)
        codes = self.codes("pack", "--unpack", packed, self.folder / "c.safetensors", limits=limits)
        self.assertEqual((codes[0], codes[-1]), (2, 0))

    def test_running(self):
        graph = self.folder / "g.attacca"
        graph.write_text(GRAPH)
        codes = self.codes("run", graph, "--dim", "M=16384", limits=range(120, 1001, 220))
        self.assertEqual((codes[0], codes[-1]), (2, 0))

    def test_checking_holds_one_packed_copy_of_the_weights(self):
        """64 MiB of weights: the tensor, its packed copy, and the reference's panels."""
        graph = self.folder / "big.attacca"
        graph.write_text("graph g(x: f32[M, 4096], w: f32[4096, 4096]) { return relu(x @ w) }\n")
        run = subprocess.Popen([ATTACCA, "run", graph, "--dim", "M=8", "--check"],
                               stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0)
        self.assertLess(usage.ru_maxrss / 1024, 2 * 64 + 80)

    def test_running_on_more_threads_than_fit(self):
        graph = self.folder / "g.attacca"
        graph.write_text(GRAPH)
        self.codes("run", graph, "--dim", "M=16384", "--threads", "1024", limits=(2000, 3000))


class SmallStack(unittest.TestCase):
    """Everything that the readers accept fits a stack of 512 KB, the main thread's on some
    systems."""

    # The nesting limit is 256 and the outermost expression counts.
    CALLS = [("relu(", 255, ")"), ("(", 255, ")"), ("-", 255, ""), ("1 + (", 127, ")"),
             ("clamp(", 255, ", max=9, min=0)"), ("relu(", 255, ")[:, :]"),
             ("-(1 + relu(", 63, "))"),
             ("where(x > 0, 1, ", 254, ")"), ("gelu(", 255, ")"), ("softmax(", 255, ")"),
             ("relu(matmul(", 127, ", w))")]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_small(self, *args):
        code, out, err = limited(resource.RLIMIT_STACK, 512 * 1024, *args)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_nested_expressions(self):
        for before, count, after in self.CALLS:
            with self.subTest(before):
                graph = self.write("deep.attacca", "graph g(x: f32[4, 8], w: f32[8, 8]) { return "
                                   f"{before * count}x{after * count} }}\n")
                for command in ("fold", "explain"):
                    self.run_small(command, graph)
        self.run_small("run", graph, "--check")

    def test_deeper_is_an_error(self):
        graph = self.write("deeper.attacca",
                           f"graph g(x: f32[4]) {{ return {'relu(' * 256}x{')' * 256} }}\n")
        code, _, err = limited(resource.RLIMIT_STACK, 512 * 1024, "fold", graph)
        self.assertEqual(code, 2)
        self.assertIn("nested deeper than 256", err)

    def test_long_graphs(self):
        lines = [f"  v{i} = v{i - 1} * sigmoid(v{i - 1}) + 1\n" for i in range(1, 1000)]
        graph = self.write("long.attacca",
                           "graph g(v0: f32[4, 8]) {\n" + "".join(lines) + "  return v999\n}\n")
        self.run_small("fold", graph)
        self.run_small("run", graph, "--check")

    def test_nested_epilogues(self):
        # Heads of functions that a regular expression would take to pieces by recursion.
        act = self.write("act.cu", "__device__" + " " * 20000 + "float act(float x) { return x; }\n"
                         f"__device__ float wide({'x' * 20000}) {{}}\n"
                         "__device__ float gate(" + ", ".join(f"float x{i}" for i in range(2000))
                         + ");\n")
        for name in ("relu", "act"):
            out = self.run_small("emit", "--include", act, "--epilogue",
                                 f"{name}(" * 255 + "acc" + ")" * 255)
            self.assertIn("attacca_hole(", out)

    def test_nested_ptx(self):
        head = ".version 8.3\n.target sm_90a\n.address_size 64\n"
        entry = (".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd<9>;\n"
                 "ld.param.u64 %rd2, [out];\n")
        scopes = (entry + "{\n" * 62 + "st.global.f32 [%rd2], 0f00000000;\n" + "}\n" * 62
                  + "ret;\n}\n")
        call = "{{\n.param .b64 a;\nst.param.b64 [a], {};\ncall.uni f{}, (a);\n}}\n"
        functions = "".join(
            f".func f{i}(.param .b64 p)\n{{\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\n"
            + (call.format("%rd1", i - 1) if i else "st.global.f32 [%rd1], 0f00000000;\n")
            + "ret;\n}\n"
            for i in range(250))
        for text in (scopes, functions + entry + call.format("%rd2", 249) + "ret;\n}\n"):
            kernel = self.write("kernel.ptx", head + text)
            out = self.run_small("kernel", "inspect", kernel, "--output", "out", "--dtype", "f32")
            self.assertIn("kernel k: eligible", out)


if __name__ == "__main__":
    unittest.main()
