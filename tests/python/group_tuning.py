"""``attacca.tune(group=...)``: ranks of gloo share out the problems and leave with the same
choices; an error of one is an error of all.

Usage: group_tuning.py [CASE]: with a case, the process is a rank. Needs the stand-in for the driver
(ATTACCA_LIBCUDA) and templates (ATTACCA_TEMPLATE_DIR). timing_worker.py makes up the times.
"""
import collections
import io
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

import ranks

HERE = pathlib.Path(__file__).resolve().parent
# Three problems for each M: the first two regions are equal.
GRAPH = """graph g(x: f16[M, 60], w: f16[60, 60]) {
  a = silu(x @ transpose(w))
  b = silu(a @ transpose(w))
  c = tanh(b @ w)
  return d = relu(c @ w) + c
}"""
OTHER = "graph g(x: f16[M, 60], w: f16[60, 60]) { return gelu(x @ w) }"
SIZES = [5, 16, 200, 3000]
PROBLEMS_OF_EACH = 3


def begin():
    """Joins the group. Two ranks have a tuning database together, as on one machine."""
    folder = pathlib.Path(os.environ["FOLDER"])
    rank, count = ranks.join()
    os.environ.update(ATTACCA_CACHE_DIR=str(folder / f"machine{rank // 2}"),
                      ATTACCA_LIBCUBLASLT="/nowhere/x",
                      ATTACCA_TUNE_WORKER=str(HERE / "timing_worker.py"),
                      TIMING_LOG=str(folder / f"log{rank}"))
    return folder, rank, count


def gathered(value):
    import torch.distributed as dist
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def timed(folder):
    """How often each value of M was timed, by any rank."""
    import torch.distributed as dist
    dist.barrier()
    lines = [line for path in folder.glob("log*") for line in path.read_text().splitlines()]
    return collections.Counter(json.loads(line)["M"] for line in lines)


def exported(folder, rank):
    import attacca
    path = folder / f"{rank}.choices"
    attacca.export_choices(path)
    return path.read_bytes()


def agree():
    folder, rank, count = begin()
    import torch.distributed as dist

    import attacca
    world = dist.group.WORLD
    if rank == count - 1:  # its machine knows a size that the others do not
        attacca.tune(GRAPH, M=SIZES[0], progress=False)
    before = timed(folder)
    assert before == {SIZES[0]: PROBLEMS_OF_EACH}, before
    shown = io.StringIO()
    found = attacca.tune(GRAPH, M=SIZES, group=world, progress=shown)
    assert [each.sizes for each in found] == [{"M": m} for m in SIZES]
    assert all(each == found for each in gathered(found))
    assert {d.source for each in found[1:] for d in each.decisions} == {"measured"}, found
    assert {d.source for d in found[0].decisions} == {"database"}, found[0]
    assert all(d.seconds > 0 for each in found for d in each.decisions)
    assert ("tune" in shown.getvalue()) == (rank == 0)
    once = timed(folder)
    assert once == dict.fromkeys(SIZES, PROBLEMS_OF_EACH), once
    files = gathered(exported(folder, rank))
    assert files[0].count(b"\n") == 1 + PROBLEMS_OF_EACH * len(SIZES)
    assert all(file == files[0] for file in files), "the ranks' choices differ"
    attacca.tune(GRAPH, M=SIZES, group=world, progress=False)
    assert timed(folder) == once, "known sizes were timed again"
    assert set(gathered(exported(folder, rank))) == {files[0]}
    again = attacca.tune(GRAPH, M=SIZES[:2], group=world, again=True, progress=False)
    assert [each.decisions for each in again] == [
        tuple(d._replace(source="measured") for d in each.decisions) for each in found[:2]]
    assert timed(folder)[SIZES[0]] == 2 * PROBLEMS_OF_EACH
    assert len(set(gathered(exported(folder, rank)))) == 1
    # A quick tuning replaces no thorough choice, of whatever machine.
    attacca.tune(GRAPH, M=SIZES[0], group=world, again=True, seconds=4, progress=False)
    after = gathered(exported(folder, rank))
    assert len(set(after)) == 1 and b'"quick"' not in after[0]
    plan = attacca.compile(GRAPH, device="cuda")
    assert {d.source for d in plan.prepare(M=200).decisions} == {"database"}
    check_shares(folder, rank, count)
    check_subgroup(rank, count)
    ranks.leave("agreed")


def check_shares(folder, rank, count):
    """Each rank measures as many of the problems that are not known."""
    import torch.distributed as dist

    import attacca
    own = folder / f"log{rank}"
    sizes = [1 << i for i in range(2 * count)]
    attacca.tune(OTHER, M=sizes[::2], group=dist.group.WORLD, progress=False)
    before = own.read_text().count("\n")
    attacca.tune(OTHER, M=sizes, group=dist.group.WORLD, progress=False)
    assert own.read_text().count("\n") == before + 1


def check_subgroup(rank, count):
    import torch.distributed as dist

    import attacca
    part = dist.new_group([0, 1])
    if rank < 2:
        assert attacca.tune(OTHER, M=7, group=part, progress=False)[0].decisions[0].seconds > 0
    else:
        fails("not a rank of the group", attacca.tune, OTHER, M=7, group=part, progress=False)


def fails(text, function, *args, **keywords):
    import attacca
    try:
        function(*args, **keywords)
    except attacca.Error as error:
        assert text in str(error), error
        return str(error)
    raise AssertionError(f"no error; it should say: {text}")


def errors():
    """What one rank does wrong, all hear of; then the group works as before."""
    folder, rank, _ = begin()
    import torch.distributed as dist

    import attacca
    given = {"group": dist.group.WORLD, "progress": False}

    def by_rank(*values):
        return values[rank]
    texts = [
        fails("graph on rank 1 is not that of rank 0", attacca.tune, by_rank(GRAPH, OTHER), M=5,
              **given),
        fails("sizes on rank 1", attacca.tune, GRAPH, M=by_rank([5, 16], [16, 5]), **given),
        fails("again on rank 1", attacca.tune, GRAPH, M=5, again=by_rank(False, True), **given),
        fails("rank 1: unknown mode fp23", attacca.tune, GRAPH, M=5, mode=by_rank("fp32", "fp23"),
              **given),
        fails("rank 0: size M has no value", attacca.tune, GRAPH, **by_rank({}, {"M": 5}), **given),
        fails("rank 1: progress is", attacca.tune, GRAPH, M=5, group=dist.group.WORLD,
              progress=by_rank(False, 7)),
        fails("rank 1: the device is cpu", attacca.tune, GRAPH, M=5, device=by_rank("cuda", "cpu"),
              **given),
        fails("rank 0: device is a list", attacca.tune, GRAPH, M=5, device=by_rank([], "cuda"),
              **given),
        fails("the device of rank 1 is Fake 1, that of rank 0 Fake 0", attacca.tune, GRAPH, M=5,
              device=f"cuda:{rank}", **given)]
    worker = os.environ["ATTACCA_TUNE_WORKER"]
    os.environ["ATTACCA_TUNE_WORKER"] = by_rank(worker, "/nowhere/worker")
    texts.append(fails("rank 1: no candidate ran", attacca.tune, GRAPH, M=5, again=True, **given))
    os.environ["ATTACCA_TUNE_WORKER"] = worker
    cache = os.environ["ATTACCA_CACHE_DIR"]
    os.environ["ATTACCA_CACHE_DIR"] = by_rank(cache, "/proc/nowhere")
    texts.append(fails("rank 1: the tuning database failed", attacca.tune, GRAPH, M=5, **given))
    os.environ["ATTACCA_CACHE_DIR"] = cache
    both = gathered(texts)
    assert both[0] == both[1], both
    fails("group is a int", attacca.tune, GRAPH, M=5, group=3)
    attacca.tune(GRAPH, M=5, **given)
    assert timed(folder)[5] >= PROBLEMS_OF_EACH
    ranks.leave("all heard")


def dying():
    """The last rank dies while it tunes."""
    _, rank, count = begin()
    import torch.distributed as dist

    import attacca
    from attacca import _core
    if rank == count - 1:
        _core.tune_problem = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    fails("a rank ended or did not answer", attacca.tune, GRAPH, M=SIZES, progress=False,
          group=dist.group.WORLD)
    print(f"heard after {time.monotonic() - begun:.1f} s", flush=True)
    os._exit(0)


def traced(rows, function=None):
    """A graph of a product and its epilogue on tensors that only claim to be on a GPU."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    with FakeTensorMode():
        x, w = (torch.empty(n, 60, device="cuda", dtype=torch.bfloat16) for n in (rows, 60))
        return make_fx(function or (lambda x, w: torch.relu(x @ w.t())), tracing_mode="fake")(x, w)


def verdicts():
    """Rank 0 decides for all what torch.compile's backend fuses, and with which kernels."""
    folder, rank, _ = begin()
    import torch
    import torch.distributed as dist

    import attacca.torch
    from attacca.torch import _rewrite
    os.environ["ATTACCA_CACHE_DIR"] = str(folder / f"alone{rank}")
    if rank:  # it cannot time anything
        os.environ["ATTACCA_TUNE_WORKER"] = "/nowhere/worker"
    options = _rewrite.Options(compare=False, tuning_seconds=6, group=dist.group.WORLD).check()
    kept = [_rewrite.rewrite(traced(rows).graph, options) for rows in range(1, 1100, 100)]
    assert set(kept) == {0, 1}, (kept, attacca.torch.report().graphs)
    assert all(each == kept for each in gathered(kept))
    files = gathered(exported(folder, rank))
    assert files[0] == files[1] and files[0].count(b"\n") > 5, files
    reports = gathered([str(each) for each in attacca.torch.report().graphs])
    assert reports[0] == reports[1], reports
    assert (folder / "log0").exists() and not (folder / "log1").exists()
    check_a_choice_of_another_machine(folder, rank)
    other = traced(24, lambda x, w: torch.tanh(x @ w.t()))
    assert _rewrite.rewrite((other if rank else traced(24)).graph, options) == 0
    assert "the ranks' regions differ" in str(attacca.torch.report().graphs[-1].left)

    def fail(*_):
        raise RuntimeError("no time")
    if rank == 0:
        _rewrite._judge_all = fail
    fails("rank 0: RuntimeError: no time", _rewrite.rewrite, traced(24).graph, options)
    fails("group is a int", _rewrite.Options.of, {"group": 3})
    fails("group", _rewrite.Options.of, {"group": dist.group.WORLD, "policy": "always",
                                         "compare": False, "tuning": "known"})
    assert attacca.torch.Pass(options).uuid() is None
    ranks.leave("decided alike")


def check_a_choice_of_another_machine(folder, rank):
    """What rank 0 tunes quickly does not replace what rank 1 has tuned thoroughly: all get that."""
    import torch.distributed as dist

    from attacca.torch import _rewrite
    before = {name: os.environ[name] for name in ("ATTACCA_CACHE_DIR", "ATTACCA_TUNE_WORKER")}
    os.environ.update(ATTACCA_CACHE_DIR=str(folder / f"other{rank}"),
                      ATTACCA_TUNE_WORKER=str(HERE / "timing_worker.py"))
    thorough = _rewrite.Options(compare=False, tuning_seconds=60)
    if rank:
        for rows in (24, 200):
            _rewrite.rewrite(traced(rows).graph, thorough)
    quick = thorough._replace(tuning_seconds=4.0, group=dist.group.WORLD).check()
    for rows in (24, 200, 700):
        _rewrite.rewrite(traced(rows).graph, quick)
    files = gathered(exported(folder, rank))
    assert files[0] == files[1], files
    assert (files[0].count(b"\n"), files[0].count(b'"quick"')) == (4, 1), files
    os.environ.update(before)


def fewer():
    """Rank 0 compiles a graph more than rank 1, which stays."""
    rank, _ = ranks.join(seconds=5)
    import torch.distributed as dist

    from attacca.torch import _rewrite
    options = _rewrite.Options(compare=False, tuning="model", group=dist.group.WORLD).check()
    _rewrite.rewrite(traced(24).graph, options)
    if rank:
        time.sleep(15)
    else:
        said = fails("graph 2 that this rank compiles with the group: a rank ended or did not "
                     "answer", _rewrite.rewrite, traced(24).graph, options)
        assert "compile the same graphs on all ranks" in said, said
        print("heard of it", flush=True)
    os._exit(0)


def invariant():
    """Batch-invariant problems are shared out like others."""
    folder, _, _ = begin()
    import torch.distributed as dist

    import attacca
    found = attacca.tune(GRAPH, M=SIZES, batch_invariant=True, group=dist.group.WORLD,
                         progress=False)
    each = gathered(found)
    assert all(one == each[0] for one in each), each
    assert timed(folder) == dict.fromkeys(SIZES, PROBLEMS_OF_EACH)
    plan = attacca.compile(GRAPH, device="cuda", batch_invariant=True)
    for tuned in found:
        planned = plan.prepare(**tuned.sizes).decisions
        assert {one.source for one in planned} == {"database"}, planned
        assert [one.candidate for one in planned] == [
            one.candidate for one in tuned.decisions], (planned, tuned)
    ranks.leave("one choice")


CASES = {"verdicts": verdicts, "agree": agree, "errors": errors, "dying": dying, "fewer": fewer,
         "invariant": invariant}


def run_case(case, count):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FOLDER"] = folder
        return ranks.run(__file__, case, count)


class GroupTuning(unittest.TestCase):
    def test_ranks_leave_with_the_same_choices(self):
        for ended in run_case("agree", 4):
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("agreed", ended.output)

    def test_an_error_of_one_is_an_error_of_all(self):
        for ended in run_case("errors", 2):
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("all heard", ended.output)

    def test_batch_invariant_choices_are_those_of_all_ranks(self):
        for ended in run_case("invariant", 3):
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("one choice", ended.output)

    def test_a_rank_that_dies_ends_the_others(self):
        *others, last = run_case("dying", 2)
        self.assertEqual(last.status, -signal.SIGKILL, last.output)
        for ended in others:
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("heard after", ended.output)


class Compiling(unittest.TestCase):
    def test_torch_compile_decides_alike(self):
        for ended in run_case("verdicts", 2):
            self.assertEqual(ended.status, 0, ended.output)
            self.assertIn("decided alike", ended.output)

    def test_a_rank_that_compiles_fewer_graphs_is_an_error_that_says_so(self):
        first, _ = run_case("fewer", 2)
        self.assertEqual(first.status, 0, first.output)
        self.assertIn("heard of it", first.output)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
    else:
        unittest.main()
