"""The CPU in place of a GPU, for the scripts of bench/gpu that launch plans beside PyTorch."""
import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/gpu"))

import c_abi
import csv_run
import stopwatch
import tuned_plan

GPU = types.SimpleNamespace(L2_cache_size=2000, name="a CPU")


class OnTheHost(TorchFunctionMode):
    """What is asked for on the GPU is made on the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class HostLibrary(c_abi.Library):
    """Plans for the CPU, which decide nothing."""

    device = "cpu"

    def decisions(self, instance):
        return [{"candidate": "some_template", "seconds": 2e-6, "unfused_seconds": 3e-6,
                 "trials": []}]


class Timed:
    """Every set is launched; the time is the number of sets."""

    def __init__(self, launch, count):
        self.outputs = [launch(i).clone() for i in range(count)]

    def once(self):
        return float(len(self.outputs))


def patch(case, *scripts):
    """Until the test case ends, for scripts that import Timed by its name, too."""
    stream = types.SimpleNamespace(cuda_stream=None)
    for each in [mock.patch.object(torch.cuda, "get_device_properties", lambda device: GPU),
                 mock.patch.object(torch.cuda, "current_stream", lambda: stream),
                 mock.patch.object(torch.cuda, "synchronize", lambda: None),
                 mock.patch.object(torch, "compile", lambda formula, **options: formula),
                 *(mock.patch.object(script, "Timed", Timed) for script in (stopwatch, *scripts)),
                 mock.patch.object(tuned_plan, "Library", HostLibrary),
                 mock.patch.dict(os.environ), OnTheHost()]:
        each.__enter__()
        case.addCleanup(each.__exit__, None, None, None)


def run_script(script, library, out, *more):
    """Runs its main(); returns what it wrote to standard error."""
    said = io.StringIO()
    with mock.patch.object(sys, "argv", ["script", "--attacca", "attacca", "--library", library,
                                         "--out", out, *more]), contextlib.redirect_stderr(said):
        script.main()
    return said.getvalue()


class ScriptTest(unittest.TestCase):
    """Of a script whose CSV a page script reads. `library`: libattacca.so."""

    library = None

    def setUp(self):
        patch(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "out.csv")

    def rows(self, script, *more):
        """The rows, and what was written to standard error."""
        said = run_script(script, self.library, self.out, *more)
        return csv_run.read(self.out)[1], said

    def page(self, script):
        """Of the rows that were written last."""
        with mock.patch.object(sys, "argv", ["page", self.out, "--out", self.out]):
            script.main()
        with open(self.out + ".md", encoding="utf-8") as file:
            return file.read()

    def check_errors(self, rows, columns):
        """They are those of bf16."""
        for row in rows:
            for column in columns:
                with self.subTest(column, **row):
                    self.assertLess(float(row[column]), 0.02)


def fails(*arguments, **options):
    raise RuntimeError("made\nto fail")
