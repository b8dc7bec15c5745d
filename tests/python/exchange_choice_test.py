"""Which way ranks exchange rows: measured, alike on all ranks. On gloo with CPU tensors and a
stand-in for symmetric memory; results are compared with the whole product in f64.

Usage: exchange_choice_test.py [CASE]: with a case, the process is a rank.
"""
import os
import sys
import types
import unittest
from unittest import mock

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import ranks
import symmetric_stand_in

DEPTH, COLUMNS = 24, 20
FUNCTIONS = ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce")
DIED = 3
TIMINGS = 1 + 7  # of a way in one measurement: of one call, and of the turns


def join():
    """This rank and the number of ranks, the group, and its memory."""
    import torch.distributed as dist

    rank, count = ranks.join()
    group = dist.group.WORLD
    return rank, count, group, symmetric_stand_in.share(group)


def call(function, rank, count, rows, **options):
    """A call of so many rows, and what it computes, in f64."""
    import torch

    import attacca.torch

    torch.manual_seed(rows)
    x = torch.randn(rows, DEPTH, dtype=torch.float64)
    w = torch.randn(DEPTH, COLUMNS, dtype=torch.float64)
    run = getattr(attacca.torch, function)
    if function == "all_gather_matmul":
        mine = x.chunk(count)[rank]
        return (lambda: run(mine, w, "silu(acc)", **options)), torch.nn.functional.silu(x @ w)
    a, b, wanted = x.chunk(count, 1)[rank], w.chunk(count)[rank], torch.tanh(x @ w)
    if function == "matmul_reduce_scatter":
        wanted = wanted.chunk(count)[rank]
    return (lambda: run(a, b, after="tanh(acc)", **options)), wanted


def check(function, rank, count, rows, **options):
    import torch

    run, wanted = call(function, rank, count, rows, **options)
    torch.testing.assert_close(run(), wanted)


class Clock:
    """Stands for clock.once: a way's time is what the test says, whatever it takes."""

    def __init__(self, seconds):
        from attacca.torch._parallel import clock

        self.seconds, self.calls, self.turn = list(seconds), 0, {}
        clock.once = self

    def __call__(self, launch, count, cuda):
        # The ways are partial(compute, way).
        kind = type(launch.args[0]).__name__
        name = "whole" if kind in ("InOrder", "Whole") else kind.lower()
        self.calls += 1
        for _ in range(count):
            launch()
        return self.seconds[("whole", "direct", "pieces", "awaiting", "pulled").index(name)]


def newest(group):
    from attacca.torch._parallel.choice import choices

    return list(choices(group).values())[-1]


def alike(value):
    import torch.distributed as dist

    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, value)
    assert all(each == every[0] for each in every), every


def slowest_decides():
    """Every rank's clock says something else, and all decide by the slowest."""
    rank, count, group, memory = join()
    last = rank == count - 1
    # Seconds of whole, direct, pieces, and pulled, which is for sums.
    for number, (mine, others, of_gather, of_sum) in enumerate((
            ((3.0, 2.0, 1.0, 9.0), (3.0, 1.0, 2.0, 9.0), "direct", "direct"),
            ((3.0, 2.5, 1.0, 0.5), (3.0, 1.0, 2.0, 0.6), "pieces", "pulled"),
            ((1.0, 0.5, 0.6, 1.1), (1.0, 2.0, 3.0, 0.5), "whole", "whole"),
            ((1.0, 0.98, 0.99, 0.98), (1.0, 0.98, 0.98, 0.9), "whole", "whole"),  # in the margin
            ((1.0, 0.96, 0.9, 0.97), (1.0, 0.96, 0.99, 0.9), "direct", "direct"))):
        for function in FUNCTIONS:
            rows, gathers = 32 << number, function == "all_gather_matmul"
            way, timings = (of_gather, 3 * TIMINGS) if gathers else (of_sum, 4 * TIMINGS)
            *seconds, pulled = mine if last else others
            clock = Clock((*seconds, 0.0, pulled))
            check(function, rank, count, rows)
            choice = newest(group)
            assert (choice.direct, choice.captured, choice.rows) == (way, way, rows), choice
            assert clock.calls == timings, clock.calls
            alike((choice.direct, {name: tuple(each) for name, each in choice.seconds.items()}))
            # Known choices, also for a few rows more, need no clock.
            signals, opened = len(memory.signals), memory.opened
            check(function, rank, count, rows)
            check(function, rank, count, rows + rows // 8)
            assert clock.calls == timings, clock.calls
            assert (memory.opened > opened) == (way != "whole")
            sends = not gathers and (way == "pieces" or way == "pulled"
                                     and function == "matmul_all_reduce")
            assert (len(memory.signals) > signals) == sends
            # With other rows, another dtype or other options it is another call.
            check(function, rank, count, rows + rows // 4)
            assert clock.calls == 2 * timings, clock.calls
            check(function, rank, count, rows, mode="eager")
            assert clock.calls == 3 * timings, clock.calls
    memory.finish()


def by_real_clocks():
    import attacca.torch
    from attacca.torch._ops.region import all_loaded
    from attacca.torch._parallel.choice import choices

    rank, count, group, memory = join()
    attacca.torch.reset()
    for function in FUNCTIONS:
        for rows in (4 * count, 4 * count, 32 * count):
            check(function, rank, count, rows)
    check("matmul_all_reduce", rank, count, 4 * count - 1)  # the ranks' number does not divide it
    found = choices(group)
    assert len(found) == 7, found
    alike([(str(device), each.function, each.rows, each.cut, choice.captured, choice.direct)
           for (device, each), choice in found.items()])
    # What is measured does not count as calls.
    assert sum(each.calls for each in all_loaded() if "graph tail" not in each.graph) == 10
    memory.finish()


def without_clocks():
    """By the number of rows while capturing and with tuning="model"."""
    from attacca.torch._parallel import choice

    rank, count, group, memory = join()
    clock = Clock((1.0, 0.5, 0.4))
    is_capturing = choice.is_capturing
    for function in FUNCTIONS:
        for rows, way in ((64, "whole"), (2048, "pieces")):
            opened = memory.opened
            check(function, rank, count, rows, tuning="model")
            assert (memory.opened > opened) == (way != "whole")
            choice.is_capturing = lambda device: True
            check(function, rank, count, rows)
            choice.is_capturing = is_capturing
            assert clock.calls == 0 and not choice.choices(group)
    check("all_gather_matmul", rank, count, 64)
    called, opened = clock.calls, memory.opened
    assert called and newest(group).direct == "pieces"
    choice.is_capturing = lambda device: True
    check("all_gather_matmul", rank, count, 64)  # known
    assert clock.calls == called and memory.opened > opened
    memory.finish()


def others_calls():
    """Ranks whose calls differ: an error on all, at once."""
    import attacca

    rank, count, _, _ = join()
    run, _ = call("all_gather_matmul", rank, count, 4 * count if rank else 6 * count)
    try:
        run()
    except attacca.Error as error:
        assert f"rank {0 if rank else 1} calls all_gather_matmul" in str(error), error
    else:
        raise AssertionError("no error")


def a_rank_dies():
    """A rank that dies while measuring: the others end with an error."""
    rank, count, _, _ = join()

    def dying(launch, times, cuda):
        launch()
        if rank == count - 1:
            os._exit(DIED)
        return 1.0
    from attacca.torch._parallel import clock

    clock.once = dying
    run, _ = call("matmul_all_reduce", rank, count, 4 * count)
    try:
        run()
    except Exception as error:  # noqa: BLE001  the backend's or Attacca's
        print("ended:", type(error).__name__, flush=True)
        os._exit(0)
    raise AssertionError("no error")


def by_one_launch():
    """A launch that awaits rows is among the ways if all ranks have one."""
    rank, count, group, memory = join()
    prepared = symmetric_stand_in.await_parts()
    for rows, ways in ((32, ["whole", "direct", "pieces", "awaiting"]),
                       (64, ["whole", "direct", "pieces"])):
        if rows == 64 and rank == 1:
            from attacca.torch._parallel import ops

            ops._ByRows.in_parts = lambda *arguments: None
        Clock((1.0, 0.8, 0.7, 0.5))
        check("all_gather_matmul", rank, count, rows)
        check("all_gather_matmul", rank, count, rows)
        choice = newest(group)
        assert (list(choice.seconds), choice.direct) == (ways, ways[-1]), choice
        alike(choice.direct)
    assert sum(each.runs for each in prepared) >= 2
    memory.finish()


CASES = {"slowest decides": slowest_decides, "by one launch": by_one_launch,
         "by real clocks": by_real_clocks, "without clocks": without_clocks,
         "others' calls": others_calls, "a rank dies": a_rank_dies}


class ExchangeChoice(unittest.TestCase):
    def check(self, case, *counts):
        for count in counts:
            ranks.check(self, __file__, case, count)

    def test_the_slowest_rank_decides(self):
        self.check("slowest decides", 2, 4)

    def test_a_launch_that_awaits_rows(self):
        self.check("by one launch", 2, 4)

    def test_by_real_clocks(self):
        self.check("by real clocks", 2, 4)

    def test_without_clocks(self):
        self.check("without clocks", 2)

    def test_calls_that_differ(self):
        self.check("others' calls", 2, 4)

    def test_no_call_follows_one_of_a_comparison(self):
        """One rank could capture a comparison's calls, the other could not: both begin the next
        call with a barrier."""
        import torch

        from attacca.torch._parallel import clock, workspace

        def barriers(captures):
            group = types.SimpleNamespace(rank=lambda: 0, size=lambda: 2, group_name="group",
                                          _get_backend=lambda device: None)
            shared, memory = workspace.Workspace(group, torch.device("cpu")), mock.Mock()
            with mock.patch.object(shared, "_allocated", lambda size: (memory, None)), \
                    mock.patch.object(shared, "_capture", side_effect=[0, *captures, 0, 0]):
                with mock.patch.object(clock, "_comparison", 1):
                    for _ in (0, *captures):
                        shared.open(8)
                counts = []
                for _ in range(2):
                    memory.barrier.reset_mock()
                    shared.open(8)
                    counts.append(memory.barrier.call_count)
            return counts
        self.assertEqual(barriers([5, 6]), [1, 0])
        self.assertEqual(barriers([]), [1, 0])

    def test_a_rank_that_dies(self):
        for count in (2, 4):
            *others, last = ranks.run(__file__, "a rank dies", count, seconds=60)
            self.assertEqual(last.status, DIED, last.output)
            for ended in others:
                self.assertEqual(ended.status, 0, ended.output)
                self.assertIn("ended:", ended.output)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
        ranks.leave("compared")
    else:
        unittest.main()
