"""`attacca run FILE.onnx --through onnxruntime`.

Usage: through_test.py ATTACCA [unittest arguments]. FAKE_CUDA: the stand-in for the driver.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from plugin_models import models

ATTACCA = sys.argv.pop(1)
LIBRARY, *_ = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so*")


class Through(unittest.TestCase):

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.model,) = (each for each in models() if each.name == "convolutions")
        self.path = self.folder / "model.onnx"
        self.path.write_bytes(self.model.data)

    def run_command(self, *arguments: Any, **environment: str) -> tuple[int, str, str]:
        found = subprocess.run(
            [ATTACCA, "run", *map(str, arguments)], capture_output=True, text=True,
            env=dict(os.environ, ATTACCA_CACHE_DIR=str(self.folder / "cache"),
                     **{"ATTACCA_LIBONNXRUNTIME": str(LIBRARY), **environment}))
        return found.returncode, found.stdout, found.stderr

    def test_a_file_that_cannot_be_read_whole_names_its_nodes_and_the_way_out(self) -> None:
        code, _, error = self.run_command(self.path)
        self.assertEqual(code, 2)
        self.assertIn("LpPool: LpPool_5", error)
        self.assertIn(f"or run the file with ONNX Runtime: attacca run {self.path} --through "
                      "onnxruntime", error)

    def test_results_are_those_of_onnxruntime(self) -> None:
        feeds = self.model.feeds[0]
        np.save(self.folder / "x.npy", feeds["x"])
        code, out, error = self.run_command(
            self.path, "--through", "onnxruntime", "--check", "--json", "--threads", 1, "--input",
            f"x={self.folder}/x.npy", "--output", self.folder / "out")
        self.assertEqual(code, 0, error)
        report = json.loads(out)
        self.assertEqual(report["dims"], {"n": 2})
        self.assertEqual([check["passed"] for check in report["checks"]], [True, True])
        self.assertTrue(any("LpPool_5" in note and note.endswith("not supported")
                            for note in report["notes"]), report["notes"])
        self.assertGreater(min(report["fused_ms"], report["onnxruntime_ms"]), 0)
        session = onnxruntime.InferenceSession(self.model.data)
        for output, want in zip(session.get_outputs(), session.run(None, feeds)):
            got = np.load(self.folder / "out" / f"{output.name}.npy")
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.max(np.abs(want)))

    def test_made_up_inputs_and_text(self) -> None:
        code, out, error = self.run_command(self.path, "--through", "onnxruntime", "--check",
                                            "--dim", "n=3")
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"dimensions: n=3\ntime: with Attacca [\d.]+ ms, ONNX Runtime alone "
                              r"[\d.]+ ms, [\d.]+x \(cpu, mode fp32\)\ncheck gemm14_0: passed: ")

    def test_on_a_gpu(self) -> None:
        """The stand-in for the driver computes nothing: what is seen is that its device is used."""
        through = self.path, "--through", "onnxruntime", "--device"
        code, out, error = self.run_command(*through, "cuda", "--tune",
                                            ATTACCA_LIBCUDA=os.environ["FAKE_CUDA"])
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"\(cuda, mode fp32\)")
        code, _, error = self.run_command(*through, "cuda:2",
                                          ATTACCA_LIBCUDA=os.environ["FAKE_CUDA"])
        self.assertEqual(code, 2)
        self.assertIn("choose a device that nvidia-smi lists", error)

    def test_bad_input(self) -> None:
        through = "--through", "onnxruntime"
        text = self.folder / "graph.attacca"
        text.write_text("graph g(x: f32[2]) { return x }")
        cut = self.folder / "cut.onnx"
        cut.write_bytes(self.model.data[:300])
        for arguments, message in (
                ((text, *through), "is no .onnx file"),
                ((self.folder / "missing.onnx", *through), "there is no such file"),
                ((cut, *through), "Protobuf parsing failed"),
                ((self.path, *through, "--device", "gpu"), "unknown device gpu"),
                ((self.path, *through, "--tune"), "nothing to tune"),
                ((self.path, *through, "--dim", "m=3"), "no dimension m"),
                ((self.path, *through, "--input", "y=y.npy"), "no input y"),
                ((self.path, "--through", "tensorrt"), "--through")):
            code, out, error = self.run_command(*arguments)
            self.assertEqual((code, out), (2, ""), error)
            self.assertIn(message, error)
        code, out, error = self.run_command(self.path, *through, "--device", "cuda",
                                            ATTACCA_LIBCUDA="/nowhere/libcuda.so.1")
        self.assertEqual((code, out), (2, ""), error)
        self.assertIn("/nowhere/libcuda.so.1", error)
        code, _, error = self.run_command(self.path, *through, ATTACCA_LIBONNXRUNTIME="/nowhere")
        self.assertEqual(code, 2)
        self.assertRegex(error, "ONNX Runtime cannot be opened: /nowhere.*\n.*--through\n"
                                ".*pip install onnxruntime")


if __name__ == "__main__":
    unittest.main()
