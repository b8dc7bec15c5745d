"""Starts the processes that stand for the ranks of a group on gloo, and ends them all."""
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

_STORE = "ATTACCA_TEST_STORE"


class Ended(NamedTuple):
    """A process that ended, or was ended."""

    status: "int | None"  # None: it was killed, since its time was over
    output: str
    seconds: float


def run(script, case, ranks, seconds=300):
    """Runs ``script case`` as that many ranks; returns how each ended.

    A process that takes longer than ``seconds`` is killed, and so is every process that one of them
    started.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        outputs = [folder / f"{rank}.txt" for rank in range(ranks)]
        begin = time.monotonic()
        started = []
        try:
            for rank, output in enumerate(outputs):
                environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                               _STORE: str(folder / "store"), "GLOO_SOCKET_IFNAME": "lo",
                               "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
                               "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor{rank}")}
                with output.open("wb") as file:
                    started.append(subprocess.Popen([sys.executable, script, case], stdout=file,
                                                    stderr=subprocess.STDOUT, env=environment,
                                                    start_new_session=True))
            ends = _wait(started, begin, seconds)
        finally:
            for process in started:
                _end(process)
        return [Ended(process.returncode if end else None, output.read_text(errors="replace"),
                      end or seconds)
                for process, output, end in zip(started, outputs, ends)]


def _wait(started, begin, seconds):
    """The seconds after which each process ended; 0: it runs."""
    ends = [0.0] * len(started)
    while not all(ends) and time.monotonic() < begin + seconds:
        for i, process in enumerate(started):
            if not ends[i] and process.poll() is not None:
                ends[i] = time.monotonic() - begin
        time.sleep(0.02)
    return ends


def check(test, script, case, ranks, seconds=300):
    """Runs ``script case`` as that many ranks; each must end well and say "compared"."""
    for rank, ended in enumerate(run(script, case, ranks, seconds)):
        with test.subTest(case=case, ranks=ranks, rank=rank):
            test.assertEqual(ended.status, 0, ended.output)
            test.assertIn("compared", ended.output)


def _end(process):
    """Kills a process and all of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def join(seconds=120):
    """Makes this process a rank of the group; ``seconds`` is the group's timeout."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{os.environ[_STORE]}",
                            rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]),
                            timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


def leave(said):
    """Leaves the group after the others' last collective, prints a text, and ends the process with
    status 0.

    The interpreter is not ended: a thread of gloo may still hold the last collective's tensors, and
    one that releases them while Python ends aborts the process ("terminate called without an active
    exception", seen once in a loaded machine's tests).
    """
    import torch.distributed as dist

    dist.barrier()
    dist.destroy_process_group()
    print(said, flush=True)
    os._exit(0)
