"""What a tuning on a cluster does in the driver's process, without Ray: a stand-in for the cluster
gives made-up results."""
import os
import tempfile
import types
import unittest
from unittest import mock

from attacca._cluster import driver
from attacca._problems import Key, Machine, Problem

HERE = Machine("Made up", 90, "attacca 0")
PROBLEMS = {key: Problem(key, 1.0, "") for key in
            (Key("a problem", f"m<=16 n={n} batch=1 k=64") for n in (64, 68, 72))}


def row(key, quick=False):
    return {"device": HERE.device, "tools": HERE.tools, **key._asdict(), "candidate": "unfused",
            "seconds": 2e-5, "unfused_seconds": 2e-5, "made": 1, "quick": quick}


class Database(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environment = mock.patch.dict(os.environ, ATTACCA_CACHE_DIR=folder.name)
        self.addCleanup(environment.stop)
        environment.start()

    def tune(self, batches, seconds=0, again=False):
        """``batches``: a function of the problems that are tuned."""
        connection = types.SimpleNamespace(
            tune=batches, request=driver.Request("", None, again, seconds))
        return driver.tune(connection, HERE, PROBLEMS, None)

    def test_quick_choices_are_known_to_quick_tunings_alone(self):
        thorough, quick, new = PROBLEMS
        driver.store([row(thorough), row(quick, quick=True)])
        asked = []

        def ask(wanted):
            asked.append([problem.key for problem in wanted])
            return []
        for seconds, again, missing in [(0, False, [quick, new]), (5.1, False, [quick, new]),
                                        (5, False, [new]), (0.1, False, [new]),
                                        (5, True, [thorough, quick, new])]:
            with self.subTest(seconds=seconds, again=again):
                self.tune(ask, seconds, again)
                self.assertEqual(asked.pop(), missing)


if __name__ == "__main__":
    unittest.main()
