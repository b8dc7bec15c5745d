"""attacca pack: a checkpoint in, a packed one out, a graph that reads it, and the way back.

Usage: pack_test.py ATTACCA [unittest arguments]. Needs numpy and ml_dtypes.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

ATTACCA = sys.argv.pop(1)
DTYPES = {"int8": "I8", "uint8": "U8", "float32": "F32", "bfloat16": "BF16"}

GRAPH = """graph g(x: bf16[M, 128], w: u8[%d], b: bf16[40]) {
  y = matmul(x, transpose(unpack(w, [40, 128], %s, dtype=bf16)))
  return silu(y + b)
}
"""


def attacca(*args):
    run = subprocess.run([ATTACCA, *map(str, args)], capture_output=True, text=True, timeout=600)
    return run.returncode, run.stdout, run.stderr


def write(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": array.shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = raw[8 + length:]
    return metadata, {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(1)
        self.codes = random.integers(-128, 128, (40, 64), dtype=np.int8)  # two 4-bit codes a byte
        self.scales = (random.random((40, 2)) * 0.05).astype(ml_dtypes.bfloat16)
        self.tensors = {"norm": np.arange(5, dtype=np.float32), "up.weight": self.codes,
                        "up.weight_scale": self.scales}
        write(self.folder / "a.safetensors", self.tensors)

    def pack(self, *more):
        return attacca("pack", self.folder / "a.safetensors", self.folder / "b.safetensors", *more)

    def test_there_and_back(self):
        code, out, err = self.pack("--bits", 4)
        self.assertEqual(code, 0, err)
        self.assertIn("up.weight: [40, 128] weights=s8, bits=4, group=64, scales=bf16", out)
        metadata, packed = read(self.folder / "b.safetensors")
        self.assertEqual(sorted(packed), ["norm", "up.weight"])
        self.assertTrue(
            metadata["attacca.unpack.up.weight"].startswith("unpack(up.weight, [40, 128]"))
        code, out, err = attacca("pack", "--unpack", self.folder / "b.safetensors",
                                 self.folder / "c.safetensors")
        self.assertEqual(code, 0, err)
        _, back = read(self.folder / "c.safetensors")
        self.assertEqual(back, {name: array.tobytes() for name, array in self.tensors.items()})

    def test_a_graph_reads_it(self):
        self.assertEqual(self.pack("--bits", 4)[0], 0)
        size = len(read(self.folder / "b.safetensors")[1]["up.weight"])
        graph = self.folder / "g.attacca"
        graph.write_text(GRAPH % (size, "weights=s8, bits=4, group=64, scales=bf16"))
        x = np.random.default_rng(2).standard_normal((3, 128)).astype(ml_dtypes.bfloat16)
        np.save(self.folder / "x.npy", x.view(np.dtype("V2")))
        np.save(self.folder / "b.npy", np.zeros(40, ml_dtypes.bfloat16).view(np.dtype("V2")))
        code, out, err = attacca(
            "run", graph, "--check", "--input", f"x={self.folder / 'x.npy'}", "--input",
            f"b={self.folder / 'b.npy'}", "--input", f"w={self.folder / 'b.safetensors'}:up.weight",
            "--output", self.folder / "out")
        self.assertEqual(code, 0, out + err)
        low = (self.codes.view(np.uint8) & 15).astype(np.int64)
        high = (self.codes.view(np.uint8) >> 4).astype(np.int64)
        codes = np.stack([low, high], axis=2).reshape(40, 128)
        codes = np.where(codes > 7, codes - 16, codes)
        weights = codes * np.repeat(self.scales.astype(np.float64), 64, axis=1)
        y = x.astype(np.float64) @ weights.T
        want = y / (1 + np.exp(-y))
        got = np.load(self.folder / "out" / "out0.npy").view(ml_dtypes.bfloat16).astype(np.float64)
        self.assertLess(np.abs(got - want).max(), 0.02 * np.abs(want).max())

    def test_a_graph_refuses_what_was_packed_otherwise(self):
        self.assertEqual(self.pack("--bits", 4)[0], 0)
        size = len(read(self.folder / "b.safetensors")[1]["up.weight"])
        graph = self.folder / "g.attacca"
        graph.write_text(GRAPH % (size, "weights=u8, bits=4, group=64, scales=bf16"))
        code, out, err = attacca("run", graph, "--input",
                                 f"w={self.folder / 'b.safetensors'}:up.weight")
        self.assertEqual(code, 2)
        self.assertIn("weights packed as [40, 128], weights=s8, bits=4", err)
        self.assertIn("fix: ", err)
        code, out, err = attacca("run", graph, "--input", f"w={self.folder / 'b.safetensors'}:down")
        self.assertEqual(code, 2)
        self.assertIn("no tensor down", err)

    def test_bad_input_is_refused(self):
        for more, what in (((), "scales [40, 2] for K = 64"),
                           (("--only", "down*"), "no weights to pack"),
                           (("--bits", "3"), "3")):
            code, out, err = self.pack(*more)
            self.assertNotEqual(code, 0)
            self.assertIn(what, err)
            self.assertFalse((self.folder / "b.safetensors").exists())
        (self.folder / "a.safetensors").write_bytes(b"nothing")
        code, _, err = self.pack()
        self.assertEqual(code, 2)
        self.assertIn("no safetensors file", err)

    def test_for_programs(self):
        code, out, err = self.pack("--bits", 4, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual([row["name"] for row in json.loads(out)], ["up.weight"])


if __name__ == "__main__":
    unittest.main()
