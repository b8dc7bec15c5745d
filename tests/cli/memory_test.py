"""Where memory or threads run out there is an error, no crash, and no half of a file.

Usage: memory_test.py ATTACCA [unittest arguments]. Needs Python alone.
"""
import json
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


def attacca(*args, addresses):
    """`addresses`: MiB of address space."""
    limit = (addresses * MIB, addresses * MIB)
    run = subprocess.run([ATTACCA, *map(str, args)], capture_output=True, text=True, timeout=600,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
    return run.returncode, run.stdout, run.stderr


def write_checkpoint(path):
    """64 MiB of weights, their scales, and 64 MiB that are copied; all zero."""
    sizes = {"w": ("I8", [4096, 16384], 1), "w_scale": ("F32", [4096], 4), "z": ("U8", [64 * MIB], 1)}
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

    def test_running_on_more_threads_than_fit(self):
        graph = self.folder / "g.attacca"
        graph.write_text(GRAPH)
        self.codes("run", graph, "--dim", "M=16384", "--threads", "1024", limits=(2000, 3000))


if __name__ == "__main__":
    unittest.main()
