"""Starts the processes that stand for the ranks of a group on gloo, and ends them all."""
import datetime
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import runpy
import signal
import sys
import tempfile
import time
from typing import NamedTuple
from unittest import mock

_STORE = "ATTACCA_TEST_STORE"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
# Importing these takes most of a rank's time. A server imports them once, before it has threads,
# and each rank is a fork of it.
_IMPORTED = ["torch.distributed", "torch._inductor.compile_fx", "attacca.torch"]


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
                environment = {**os.environ, **_ONE_THREAD, "RANK": str(rank),
                               "WORLD_SIZE": str(ranks), _STORE: str(folder / "store"),
                               "GLOO_SOCKET_IFNAME": "lo",
                               "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor{rank}")}
                output.touch()
                started.append(_forked(str(script), case, environment, str(output)))
            ends = _wait(started, begin, seconds)
        finally:
            for process in started:
                _end(process)
        return [Ended(process.exitcode if end else None, output.read_text(errors="replace"),
                      end or seconds)
                for process, output, end in zip(started, outputs, ends)]


def _forked(*args):
    """A process of the server of forks that calls :func:`_be_script`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    with mock.patch.dict(os.environ, _ONE_THREAD):
        multiprocessing.forkserver.ensure_running()
    process = context.Process(target=_be_script, args=args)
    process.start()
    return process


def _be_script(script, case, environment, output):
    """What a rank's process does: ``script case``, in a session of its own."""
    os.setsid()
    file = os.open(output, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script, case]
    runpy.run_path(script, run_name="__main__")


def _wait(started, begin, seconds):
    """The seconds after which each process ended; 0: it runs."""
    ends = [0.0] * len(started)
    while not all(ends) and time.monotonic() < begin + seconds:
        for i, process in enumerate(started):
            if not ends[i] and process.exitcode is not None:
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
        process.kill()  # it may not have a session yet
    process.join()


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
