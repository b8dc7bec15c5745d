"""attacca kernel: kernels of a user's own, from CUDA C++ and PTX. Needs NVRTC and ptxas or
nvJitLink, no GPU.

Usage: kernel_test.py ATTACCA [unittest arguments].
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ATTACCA = sys.argv.pop(1)

SCALE = """namespace my {
template <class T, int FACTOR>
__global__ void scale(const T* x, T* __restrict__ out, int n = 0, float (*unused)[4] = nullptr) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * FACTOR;
}
}
struct Args { const float* x; float* y; };
__global__ void twice(Args args) { args.y[threadIdx.x] = args.x[threadIdx.x] * 2; }
extern "C" __global__ void accumulate(const float* x, float* out) {
  out[threadIdx.x] += x[threadIdx.x];
}
"""
SILU = "silu(out + row(bias)) * full(res: f32) + scalar(s) - col(c)"


def attacca(*args):
    run = subprocess.run([ATTACCA, "kernel", *map(str, args)], capture_output=True, text=True,
                         timeout=300)
    return run.returncode, run.stdout, run.stderr


class Kernel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source = self.folder / "kernel.cu"
        self.source.write_text(SCALE)

    def fuse(self, *args, out="fused.ptx", kernel="my::scale<float, 3>", epilogue=SILU):
        return attacca("fuse", self.source, "--kernel", kernel, "--output", "out", "--dtype", "f32",
                       "--shape", "4,64", "--epilogue", epilogue, "-o", self.folder / out, *args)

    def refused(self, *args, what, code=2):
        got, out, err = attacca(*args)
        self.assertEqual(got, code, out + err)
        self.assertIn(what, err)

    # ---- inspect

    def test_an_eligible_kernel(self):
        code, out, err = attacca("inspect", self.source, "--kernel", "my::scale<float, 3>",
                                 "--output", "out", "--dtype", "f32")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"kernel _ZN2my5scale\w+: eligible\n  stores to the output: 1\n")
        self.assertRegex(out, r"0 \w+_param_0: read\n    1 \w+_param_1: written \(the output\)")

    def test_a_refused_kernel_names_the_line(self):
        code, out, _ = attacca("inspect", self.source, "--kernel", "accumulate", "--output", "out")
        self.assertEqual(code, 3)
        self.assertIn("kernel.cu:11: it reads its output (ld.global.f32) [read]", out)

    def test_json(self):
        code, out, _ = attacca("inspect", self.source, "--kernel", "accumulate", "--output", "1",
                               "--json")
        self.assertEqual(code, 3)
        found = json.loads(out)
        self.assertEqual(found["decision"], "refused")
        self.assertEqual([r["rule"] for r in found["reasons"]], ["read"])
        self.assertEqual([(p["read"], p["written"], p["output"]) for p in found["pointers"]],
                         [(True, False, False), (True, True, True)])

    def test_a_pointer_in_a_struct(self):
        code, out, _ = attacca("inspect", self.source, "--kernel", "twice", "--output", "args+8",
                               "--json")
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out)["offset"], 8)

    # ---- fuse

    def test_from_cuda_to_ptx_and_again(self):
        code, out, err = self.fuse()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1 stores", out)
        text = (self.folder / "fused.ptx").read_text()
        self.assertIn(".param .u64 tail_param_3", text)
        described = json.loads((self.folder / "fused.ptx.json").read_text())
        self.assertEqual([(a["operand"], a["role"], a["dtype"], a["elements"], a["index"])
                          for a in described["appended"]],
                         [("bias", "row", "f32", 64, 4), ("res", "full", "f32", 256, 5),
                          ("s", "scalar", "f32", 1, 6), ("c", "col", "f32", 4, 7)])
        self.assertEqual(described["shape"], [4, 64])
        again = self.folder / "again.cubin"
        code, out, err = attacca("fuse", self.folder / "fused.ptx", "--kernel", "scale", "--output",
                                 "1", "--dtype", "f32", "--shape", "4,64", "--epilogue",
                                 "relu(out)",
                                 "-o", again)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(again.read_bytes().startswith(b"\x7fELF"))

    def test_the_tail_is_never_contracted(self):
        for mode in ["eager", "fp32"]:
            self.assertEqual(self.fuse("--mode", mode, epilogue="out * row(a) + row(b)")[0], 0)
            tail = (self.folder / "fused.ptx").read_text().split("// attacca_tail_1")[1]
            self.assertNotIn("fma", tail.split("st.global")[0])
            self.assertRegex(tail, r"add\.rn\.f32")

    def test_threads_are_said_to_ptxas(self):
        self.assertEqual(self.fuse("--threads", "1024")[0], 0)
        self.assertIn(".maxntid 1024, 1, 1", (self.folder / "fused.ptx").read_text())
        self.assertEqual(self.fuse("--threads", "2048")[0], 2)

    def test_every_dtype(self):
        for dtype, kernel in [("f64", "double"), ("s8", "signed char"), ("s32", "int"),
                              ("s64", "long long"), ("u8", "unsigned char")]:
            code, _, err = attacca("fuse", self.source, "--kernel", f"my::scale<{kernel}, 3>",
                                   "--output", "out", "--dtype", dtype, "--shape", "4,64",
                                   "--epilogue", "max(out, row(low))", "-o",
                                   self.folder / "fused.cubin")
            self.assertEqual((code, err), (0, ""), dtype)

    def test_another_dtype_of_the_same_size(self):
        self.assertEqual(self.fuse("--result", "s32", epilogue="cast(out, s32)")[0], 0)
        code, _, err = self.fuse("--result", "bf16", epilogue="out")
        self.assertEqual(code, 3)
        self.assertIn("needs another size", err)

    def test_a_refused_kernel_is_not_written(self):
        code, _, err = self.fuse(kernel="accumulate")
        self.assertEqual(code, 3)
        self.assertIn("it reads its output", err)
        self.assertFalse((self.folder / "fused.ptx").exists())

    def test_an_out_pointer_is_filled_without_analysis(self):
        source = self.folder / "out.cu"
        source.write_text("#include <attacca/out.cuh>\n"
                          "extern \"C\" __global__ void kernel(const float* x, attacca::Out<float> "
                          "to, float** kept) "
                          "{\n  kept[0] = nullptr;\n  to[threadIdx.x] = x[0];\n}\n")
        include = pathlib.Path(__file__).resolve().parents[2] / "include"
        open_it = ["-I", include, "--nvrtc=-DATTACCA_OPEN"]
        fused = self.folder / "fused.cubin"
        fuse = ["fuse", source, "--kernel", "kernel", "--output", "to", "--dtype", "f32", "--shape",
                "4,64", "--epilogue", "silu(out + row(bias)) * full(res)", "-o", fused]
        code, out, err = attacca(*fuse, *open_it)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1 assignments to an attacca::Out", out)
        self.assertTrue(fused.read_bytes().startswith(b"\x7fELF"))
        described = json.loads(pathlib.Path(f"{fused}.json").read_text())
        self.assertEqual([(c["operand"], c["role"], c["index"]) for c in described["carried"]],
                         [("bias", "row", 0), ("res", "full", 1)])
        # Without ATTACCA_OPEN it is a kernel like any other.
        self.assertEqual(attacca(*fuse, "-I", include)[0], 0)
        described = json.loads(pathlib.Path(f"{fused}.json").read_text())
        self.assertEqual([a["index"] for a in described["appended"]], [3, 4])

    # ---- Bad input

    def test_kernels_by_name(self):
        self.assertEqual(self.fuse()[0], 0)
        ptx = self.folder / "fused.ptx"
        name = re.search(r"\.entry (\w+scale\w+)", ptx.read_text()).group(1)
        for kernel in [name, "my::scale<float, 3>", "my::scale", "scale"]:
            self.assertEqual(attacca("inspect", ptx, "--kernel", kernel, "--output", "1")[0], 0,
                             kernel)
        self.refused("inspect", ptx, "--kernel", "scales", "--output", "1",
                     what="there is no kernel 'scales'")
        self.refused("inspect", self.source, "--kernel", "nothing", "--output", "1",
                     what="NVRTC cannot")
        self.refused("inspect", self.source, "--output", "1", what="which kernel?")
        self.refused("inspect", ptx, "--output", "1", what="several kernels")

    def test_parameters(self):
        self.refused("inspect", self.source, "--kernel", "accumulate", "--output", "y",
                     what="has no parameter 'y'")
        self.refused("inspect", self.source, "--kernel", "my::scale<float, 3>", "--output", "n",
                     what="holds no pointer")
        self.refused("inspect", self.source, "--kernel", "twice", "--output", "args+x",
                     what="names no parameter")

    def test_files(self):
        self.refused("inspect", self.folder / "none.ptx", "--output", "1", what="none.ptx")
        broken = self.folder / "broken.ptx"
        broken.write_text(".version 8.0\n.target sm_80\n.visible .entry k(")
        self.refused("inspect", broken, "--output", "1", what="expected")
        self.source.write_text("__global__ void k(float* out) { out[0] = nonsense; }\n")
        self.refused("inspect", self.source, "--kernel", "k", "--output", "out", what="nonsense")

    def test_what_fuse_needs(self):
        for arguments, what in [(dict(epilogue="full(b)"), "does not read the kernel's output"),
                                (dict(epilogue="out, out + 1"), "the epilogue has 2"),
                                (dict(epilogue="acc + 1"), "'acc' is not defined"),
                                (dict(out="fused.o"), "ends in .ptx or .cubin"),
                                (dict(out="nowhere/fused.ptx"), "cannot write")]:
            code, out, err = self.fuse(**arguments)
            self.assertEqual(code, 2, out + err)
            self.assertIn(what, err)
        code, _, err = self.fuse("--shape", "4")
        self.assertEqual(code, 2)


if __name__ == "__main__":
    unittest.main()
