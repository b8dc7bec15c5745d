"""A Ray cluster of processes on this machine, whose nodes have stand-ins for GPUs, and a way to
find what it leaves running."""
import os
import pathlib
import signal
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
MARK = "ATTACCA_TEST_CLUSTER"
MEGABYTE = 2**20


def settings(folder):
    """The environment of the driver and of all nodes: its own tuning database, made-up times."""
    return {MARK: uuid.uuid4().hex, "RAY_TMPDIR": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "ATTACCA_CACHE_DIR": str(folder / "driver"), "ATTACCA_LIBCUBLASLT": "/nowhere/x",
            "ATTACCA_TUNE_WORKER": str(HERE / "timing_worker.py"),
            "TIMING_LOG": str(folder / "timed")}


def kill(pid):
    """Ends a process without a farewell; false where it had ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class LocalCluster:
    """Nodes as processes. A context; its end ends them."""

    def __init__(self, nodes, gpus):
        self._folder = tempfile.TemporaryDirectory(prefix="ray")
        self.folder = pathlib.Path(self._folder.name)
        self.mark = settings(self.folder)
        os.environ.update(self.mark)
        (self.folder / "ray").mkdir()  # below RAY_TMPDIR; Ray writes there before it makes it
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, shutdown_at_exit=False, head_node_args={
            "num_cpus": 0, "num_gpus": 0, "object_store_memory": 80 * MEGABYTE,
            "include_dashboard": False, "temp_dir": str(self.folder / "ray")})
        self._added, self._gpus = 0, gpus
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self):
        return self._cluster.address

    def add(self, kind=None, **environment):
        """A node more, with a database of its own; ``kind``: what Ray calls its GPUs."""
        self._added += 1
        environment["ATTACCA_CACHE_DIR"] = str(self.folder / f"node{self._added}")
        return self._cluster.add_node(
            num_cpus=self._gpus, num_gpus=self._gpus, object_store_memory=80 * MEGABYTE,
            env_vars=environment, resources={f"accelerator_type:{kind}": 1} if kind else None)

    def kill(self, node):
        """Ends a node without a farewell."""
        self._cluster.remove_node(node, allow_graceful=False)

    def tasks(self):
        """The processes that run tasks of a tuning now."""
        return [pid for pid, command in self.processes() if "attacca: tune" in command]

    def kill_a_task(self, chance):
        """Kills a task of those that run now; false where none runs, or the chosen one had just
        ended."""
        running = self.tasks()
        return bool(running) and kill(chance.choice(running))

    def processes(self):
        """The number and command line of each process of the cluster and of its drivers, but this
        one."""
        wanted = f"{MARK}={self.mark[MARK]}".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (path / "environ").read_bytes()
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
            if wanted in environment.split(b"\0") and int(path.name) != os.getpid():
                found.append((int(path.name), command))
        return [each for each in found if each[1]]  # one that has ended has no command

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._cluster.shutdown()
        try:
            left = self._left(seconds=20)
            for pid, _ in left:
                kill(pid)
        finally:
            self._folder.cleanup()
        if left:
            raise AssertionError(f"left running: {left}")

    def _left(self, seconds):
        end = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.2)
        return left
