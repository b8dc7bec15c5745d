"""Processes in Python: forks after, and while, plans run in threads; files that processes share."""
import importlib.util
import multiprocessing
import os
import pathlib
import stat
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import numpy as np

import attacca

warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
SECONDS = 60


# Made before any child: NumPy's own BLAS does not survive a fork in the middle of a product.
X = np.arange(320 * 96, dtype=np.float32).reshape(320, 96) % 7 - 3
W = np.arange(96 * 80, dtype=np.float32).reshape(96, 80) % 5 - 2
EXPECTED = np.maximum(np.einsum("mk,kn->mn", X, W), 0)


def right(rows):
    return bool((attacca.matmul(X[:rows], W, "relu(acc)") == EXPECTED[:rows]).all())


def end_of_child(work):
    """The exit code, or minus the signal, of a child that does this and calls sys.exit."""
    child = os.fork()
    if child == 0:
        try:
            import signal
            signal.alarm(SECONDS)
            work()
            sys.exit(0)
        except SystemExit as leave:  # unittest must not catch it, and all exit handlers must run
            sys.stdout.flush()
            import ctypes
            ctypes.CDLL(None).exit(leave.code)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


class Fork(unittest.TestCase):
    def test_children_leave(self):
        self.assertTrue(right(300))
        for _ in range(5):
            self.assertEqual(end_of_child(lambda: None), 0)

    def test_children_run(self):
        self.assertTrue(right(300))
        for rows in range(300, 305):
            self.assertEqual(end_of_child(lambda rows=rows: sys.exit(0 if right(rows) else 1)), 0)

    def test_pools_of_processes(self):
        self.assertTrue(right(300))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(right, range(290, 298)).get(SECONDS), [True] * 8)

    def test_while_threads_run(self):
        stopped, wrong = threading.Event(), []

        def run(first):
            rows = first
            while not stopped.is_set():
                if not right(rows):
                    wrong.append(rows)
                rows = rows % 200 + 1

        threads = [threading.Thread(target=run, args=(seed * 50 + 1,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        try:
            for rows in range(200, 220):
                self.assertEqual(end_of_child(lambda rows=rows: sys.exit(0 if right(rows) else 1)),
                                 0)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])


    def test_while_a_thread_prepares_other_strides(self):
        doubled = attacca.fuse(lambda x, w: (x @ w) * 2)
        wide = [np.ones((3, 65 + width), np.float32) for width in range(200)]
        w, expected = np.ones((64, 64), np.float32), np.full((3, 64), 128, np.float32)
        doubled(wide[0][:, :64], w)  # Python's own locks of imports do not survive a fork
        stopped = threading.Event()

        def run():
            while not stopped.is_set():
                for rows in wide:
                    doubled(rows[:, :64], w)

        def called(rows):
            sys.exit(0 if (doubled(rows[:, :64], w) == expected).all() else 1)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            for rows in wide[:10]:
                self.assertEqual(end_of_child(lambda rows=rows: called(rows)), 0)
        finally:
            stopped.set()
            thread.join()

    def test_while_a_thread_compiles_a_region(self):
        import torch

        from attacca.torch._ops import region

        begun, finished = threading.Event(), threading.Event()

        def compiled(*_):
            begun.set()
            finished.wait(SECONDS)

        def load(name):
            region.loaded(name, "fp32", "known", 0.0, torch.device("cpu"))

        with unittest.mock.patch.object(region, "Loaded", compiled):
            thread = threading.Thread(target=load, args=("one",))
            thread.start()
            try:
                self.assertTrue(begun.wait(SECONDS))
                with unittest.mock.patch.object(region, "Loaded", lambda *_: None):
                    self.assertEqual(end_of_child(lambda: load("two")), 0)
            finally:
                finished.set()
                thread.join()


class Kept(unittest.TestCase):
    """What attacca.torch remembers between processes; its module needs no torch."""

    def test_files_of_others_are_not_believed(self):
        source = pathlib.Path(attacca.__file__).parent / "torch" / "_kept.py"
        spec = importlib.util.spec_from_file_location("kept", source)
        kept = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kept)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "of" / "torch" / "x.json"
            kept.keep(path, [1])
            self.assertEqual(kept.recall(path), [1])
            modes = [stat.S_IMODE(os.stat(each).st_mode)
                     for each in (path.parents[1], path.parent, path)]
            self.assertEqual(modes, [0o700, 0o700, 0o600])
            for each in (path, path.parent):
                mode = stat.S_IMODE(os.stat(each).st_mode)
                for more in (stat.S_IWGRP, stat.S_IWOTH):
                    each.chmod(mode | more)
                    self.assertIsNone(kept.recall(path))
                each.chmod(mode)
                if os.geteuid() == 0:
                    os.chown(each, 65534, 65534)
                    self.assertIsNone(kept.recall(path))
                    os.chown(each, 0, 0)
            elsewhere = path.with_name("y.json")
            path.rename(elsewhere)
            path.symlink_to(elsewhere)
            self.assertIsNone(kept.recall(path))


if __name__ == "__main__":
    unittest.main()
