"""Products that are one with a collective, on gloo with CPU tensors: by the group's collectives, or
over a stand-in for symmetric memory. Results are compared with the whole product in f64.

Usage: collective_products_test.py [CASE]: with a case, the process is a rank.
"""
import os
import random
import sys
import unittest

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import ranks
import symmetric_stand_in

ROWS, DEPTH, COLUMNS, RUNS = 48, 48, 24, 10  # 1, 2, 3 and 4 ranks divide rows and depth


def made(dtype):
    """The whole operands, alike on all ranks."""
    import torch

    torch.manual_seed(0)
    shapes = {"x": (ROWS, DEPTH), "w": (DEPTH, COLUMNS), "w1": (COLUMNS, DEPTH), "bias": (COLUMNS,),
              "scale": (ROWS, 1), "res": (ROWS, COLUMNS)}
    weights = 6 * DEPTH ** -0.5  # what products are about as large as
    return {name: (torch.randn(shape) * (weights if name in ("w", "w1") else 1)).to(dtype)
            for name, shape in shapes.items()}


ALL_REDUCED = ("all_reduce", "uneven")
SCATTERED = ("reduce_scatter", "scattered residual")
PULLED = (*SCATTERED, "all_reduce")
PIECES = ((512, 2), (6, 3), (2, 2))  # from so many rows of a rank on, so many pieces


class Calls:
    """This rank's calls and the whole results that they are compared with."""

    def __init__(self, rank, count, dtype, exact_sum=False, **options):
        import torch
        import torch.nn.functional as F

        import attacca.torch

        whole = made(dtype)
        x, w, w1, bias, scale, res = whole.values()
        rows = {name: each.chunk(count)[rank] for name, each in whole.items() if len(each) == ROWS}
        by_columns, by_rows = x.chunk(count, 1)[rank], w.chunk(count)[rank]
        wide = {name: each.double() for name, each in whole.items()}
        product, other = wide["x"] @ wide["w"], wide["x"] @ wide["w1"].t()
        gate = F.silu(product) * other * wide["scale"] + wide["bias"]
        residual = torch.tanh(product) + wide["res"]
        silu = F.silu(product + wide["bias"]) + wide["res"]
        gelu = F.gelu(2 * product) * wide["bias"]
        torch_ = attacca.torch
        summing = {"exact_sum": exact_sum, **options}
        self.calls = {
            "gate": (lambda: torch_.all_gather_matmul(
                rows["x"], (w, w1.t()), "silu(acc0) * acc1 * col(a) + row(b)", b=bias, a=scale,
                **options), gate),
            "transposed": (lambda: torch_.all_gather_matmul(
                rows["x"], w.t().contiguous().t(),
                lambda acc, bias, res: F.silu(acc + bias) + res, bias=bias, res=res, **options),
                silu),
            "reduce_scatter": (lambda: torch_.matmul_reduce_scatter(
                by_columns, by_rows, "2 * acc", "gelu(acc) * row(bias)", bias=bias, **summing),
                gelu.chunk(count)[rank]),
            "scattered residual": (lambda: torch_.matmul_reduce_scatter(
                by_columns, by_rows, after=lambda acc, res: torch.tanh(acc) + res,
                res=rows["res"], **summing), residual.chunk(count)[rank]),
            "all_reduce": (lambda: torch_.matmul_all_reduce(
                by_columns, by_rows, after="tanh(acc) + full(res)", res=res, **summing), residual),
            "uneven": (lambda: torch_.matmul_all_reduce(
                by_columns[:7], by_rows, after="tanh(acc) + full(a)", a=res[:7], **summing),
                residual[:7])}
        self.tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.06}[dtype]

    def check(self, name):
        """The result, after it was compared."""
        import torch

        call, wanted = self.calls[name]
        result = call()
        torch.testing.assert_close(result.double(), wanted, rtol=self.tolerance,
                                   atol=self.tolerance, msg=lambda text: f"{name}: {text}")
        return result


def check_alike(result):
    """The result is the same on all ranks, bit for bit."""
    import torch
    import torch.distributed as dist

    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, result)
    assert all(torch.equal(each, every[0]) for each in every), "ranks differ"


def by_collectives():
    import torch

    rank, count = ranks.join()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for exact_sum in (False, True):
            calls = Calls(rank, count, dtype, exact_sum)
            for name in calls.calls:
                first = calls.check(name)
                assert torch.equal(first, calls.check(name)), f"{name} differs from run to run"
                if name in ALL_REDUCED:
                    check_alike(first)


def sent(way, name):
    """How many signals a rank sends another for a piece of its rows: one for each time that they
    travel, but where the kernel that adds reads them."""
    if name not in PULLED or way == "direct":
        return 0
    return (way == "pieces") + (name not in SCATTERED)


def shared():
    """By the exchanges over symmetric memory: equal bit for bit, and from run to run."""
    import torch
    import torch.distributed as dist

    from attacca.torch._parallel import summing

    rank, count = ranks.join()
    random.seed(rank)
    memory = symmetric_stand_in.share(dist.group.WORLD)
    for dtype in (torch.float64, torch.bfloat16):
        whole = Calls(rank, count, dtype, True, exchange="whole")
        results = {}
        for run in range(RUNS):
            summing._LEAST, summing._PIECES = PIECES[run // 2 % 3]
            for way in ("pieces", "direct", "pulled"):
                calls = Calls(rank, count, dtype, bool(run % 2), exchange=way)
                for name in calls.calls:
                    if way == "pulled" and name not in PULLED:
                        continue
                    signals, begun, grown = len(memory.signals), memory.begun, memory.grown
                    result = calls.check(name)
                    key = (way, name, summing.pieces_of(ROWS // count))
                    assert torch.equal(results.setdefault(key, result), result), name
                    pieces = summing.pieces_of(ROWS // count) if way == "pieces" else 1
                    sends = (count - 1) * sent(way, name) * pieces
                    assert len(memory.signals) - signals == sends, (way, name)
                    assert memory.begun - begun == memory.grown - grown, name
        for (way, name, _), result in results.items():
            torch.testing.assert_close(result, whole.check(name), rtol=calls.tolerance,
                                       atol=calls.tolerance, msg=lambda text: f"{way}: {text}")
            if name in ALL_REDUCED:
                check_alike(result)
    memory.finish()


def in_turns():
    """Calls of all kinds one after the other, directly and as in CUDA graphs: those without a
    barrier before them leave each other's rows as they are."""
    import torch
    import torch.distributed as dist

    import attacca
    from attacca.torch._parallel import summing, ways

    rank, count = ranks.join()
    random.seed(rank)
    memory, alike = symmetric_stand_in.share(dist.group.WORLD), random.Random(7)
    symmetric_stand_in.await_parts()
    summing._LEAST, summing._PIECES = PIECES[1]
    calls = {way: Calls(rank, count, torch.float64, True, exchange=way)
             for way in ("pieces", "direct", "pulled", "awaiting")}
    names = list(calls["direct"].calls)
    of_way = {"pulled": PULLED, "awaiting": ("transposed",)}
    for way, each in calls.items():
        for name in of_way.get(way, names):
            each.check(name)
    graphs, last, kept = 0, 0, False
    for _ in range(60):
        graphs += 1
        memory.graph = alike.choice((0, graphs))
        for _ in range(alike.randrange(1, 6)):
            way = alike.choice(list(calls))
            begun = memory.begun
            calls[way].check(alike.choice(of_way.get(way, names)))
            # A graph that was captured may run between any two direct calls.
            follows = memory.graph == last and not (memory.graph == 0 and kept)
            assert memory.begun - begun == (not follows), (way, memory.graph, last, kept)
            last, kept = memory.graph, kept or memory.graph > 0
    memory.graph = graphs + 1
    one = ways.exchanges(dist.group.WORLD, torch.device("cpu"), torch.float64, True)["direct"]
    try:
        one.collect(torch.zeros(1 << 16), torch.zeros(count, 1 << 16))
    except attacca.Error as error:
        assert "262144 are needed, which cannot be had while a CUDA graph" in str(error), error
    else:
        raise AssertionError("memory grew while a graph was captured")
    memory.finish()


def awaiting():
    """By one launch, or in pieces where there is none; some ranks may have one, others not."""
    import torch
    import torch.distributed as dist

    import attacca.torch
    from attacca.torch._parallel import ways

    rank, count = ranks.join()
    random.seed(rank)
    memory = symmetric_stand_in.share(dist.group.WORLD)
    prepared = symmetric_stand_in.await_parts()
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.bfloat16, 0.06)):
        x, w, w1, bias, _, res = made(dtype).values()
        wide = [each.double() for each in (x, w, w1, bias, res)]
        scale = made(torch.float64)["scale"]
        gate = torch.nn.functional.silu(wide[0] @ wide[1]) * (wide[0] @ wide[2].t()) * scale
        mine, by_columns = x.chunk(count)[rank], w.t().contiguous().t()
        for call, wanted in (
                (lambda way: attacca.torch.all_gather_matmul(
                    mine, (by_columns, w1.t()), "silu(acc0) * acc1 * col(scale)", scale=scale,
                    exchange=way), gate),
                (lambda way: attacca.torch.all_gather_matmul(
                    mine, w, "acc + row(bias) + full(res)", bias=bias, res=res, exchange=way),
                 wide[0] @ wide[1] + wide[3] + wide[4])):
            before = sum(each.runs for each in prepared)
            for _ in range(RUNS):
                torch.testing.assert_close(call("awaiting").double(), wanted, rtol=tolerance,
                                           atol=tolerance)
            assert sum(each.runs for each in prepared) == before + RUNS
            torch.testing.assert_close(call("pieces").double(), wanted, rtol=tolerance,
                                       atol=tolerance)
    # Rank 0 has a launch, the others have none: of a call, and of an exchange.
    every = made(torch.float64)
    x, w, res = every["x"], every["w"], every["res"]
    if rank > 0:
        res = res.t().contiguous().t()
    before = sum(each.runs for each in prepared)
    for _ in range(RUNS):
        y = attacca.torch.all_gather_matmul(x.chunk(count)[rank], w, "acc + full(res)", res=res,
                                            exchange="awaiting")
        torch.testing.assert_close(y, x @ w + res)
    assert sum(each.runs for each in prepared) == before + (RUNS if rank == 0 else 0)
    one = ways.exchanges(dist.group.WORLD, torch.device("cpu"), torch.float64, False)
    x = made(torch.float64)["x"]
    mine, others = x.chunk(count)[rank].contiguous(), []

    class Consume:
        can_await = rank == 0

        def __call__(self, part, begin):
            others.append((begin, part.clone()))

        def awaiting(self, parts, begins, words, most_ms):
            def launch():
                for word in words:
                    symmetric_stand_in.wait_for(lambda word=word: word.tolist() == [1])
                others.extend((begin, part.clone()) for begin, part in zip(begins, parts))
            return launch
    one["awaiting"].gather(mine, Consume())
    rows = torch.cat([part for _, part in sorted(others, key=lambda each: each[0])])
    torch.testing.assert_close(rows, x)
    memory.finish()


def sums():
    """A sum that the backend adds has the roundings of the unfused path, an exact one a single
    rounding: behind the residual."""
    import torch
    import torch.distributed as dist

    import attacca.torch

    rank, count = ranks.join()
    torch.manual_seed(3)
    every = [(torch.randn(64, 48).bfloat16(), torch.randn(48, 40).bfloat16())
             for _ in range(count)]
    res = torch.randn(64, 40).bfloat16()
    x, w = every[rank]
    parts = [(a.float() @ b.float()).bfloat16() for a, b in every]
    wanted = sum(part.double() for part in parts) + res.double()
    added = parts[rank].clone()
    dist.all_reduce(added)
    eager = (added + res).double()

    def computed(**options):
        return attacca.torch.matmul_all_reduce(x, w, after="acc + full(res)", res=res,
                                               **options).double()
    exact, whole = computed(exact_sum=True), computed(exchange="whole")
    # A product's terms may be added in another order: some parts are rounded otherwise.
    assert ((exact - wanted.bfloat16().double()) != 0).double().mean() < 0.02
    assert (whole - wanted).norm() <= (eager - wanted).norm() * 1.02
    assert (exact - wanted).norm() < (eager - wanted).norm()


def compiled():
    """Under torch.compile, with any number of rows and in a group of the mesh."""
    import torch
    from torch._dynamo.utils import counters
    from torch.distributed.device_mesh import init_device_mesh

    import attacca.torch

    rank, count = ranks.join()
    mesh = init_device_mesh("cpu", (count,))
    whole = {name: each.double() for name, each in made(torch.float32).items()}
    w, w1, bias = whole["w"], whole["w1"].t(), whole["bias"]

    def block(mine, by_rows):
        h = attacca.torch.all_gather_matmul(mine, (w, w1), "silu(acc0) * acc1 + row(bias)",
                                            group=mesh, bias=bias)
        h = h.chunk(count, 1)[rank]
        y = attacca.torch.matmul_reduce_scatter(
            h, by_rows, after=lambda acc, res: acc + torch.relu(res), group=mesh, res=mine)
        return attacca.torch.matmul_all_reduce(y.chunk(count, 1)[rank], w.chunk(count)[rank]), y

    torch.manual_seed(1)
    down = torch.randn(COLUMNS, DEPTH, dtype=torch.float64)
    run = torch.compile(block, fullgraph=True, dynamic=True)
    for rows in (2, 4, 6):
        x = whole["x"][:rows * count]
        with torch.no_grad():
            results = run(x.chunk(count)[rank], down.chunk(count)[rank])
        h = torch.nn.functional.silu(x @ w) * (x @ w1) + bias
        y = (h @ down + torch.relu(x)).chunk(count)[rank]
        every = [torch.empty_like(y) for _ in range(count)]
        torch.distributed.all_gather(every, y)
        ends = sum(each.chunk(count, 1)[other] @ w.chunk(count)[other]
                   for other, each in enumerate(every))
        torch.testing.assert_close(results[1], y)
        torch.testing.assert_close(results[0], ends)
    assert counters["stats"]["unique_graphs"] == 1, counters["stats"]


CASES = {"by collectives": by_collectives, "shared": shared, "awaiting": awaiting,
         "sums": sums, "compiled": compiled, "in turns": in_turns}


class CollectiveProducts(unittest.TestCase):
    def check(self, case, *counts):
        for count in counts:
            ranks.check(self, __file__, case, count)

    def test_by_collectives(self):
        self.check("by collectives", 1, 2, 3, 4)

    def test_over_symmetric_memory(self):
        self.check("shared", 2, 3)

    def test_calls_in_turns(self):
        self.check("in turns", 2, 4)

    def test_one_launch_that_awaits_rows(self):
        self.check("awaiting", 2, 4)

    def test_roundings_of_sums(self):
        self.check("sums", 4)

    def test_compiled(self):
        self.check("compiled", 2)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
        ranks.leave("compared")
    else:
        unittest.main()
