"""Arguments of products that are one with a collective, on gloo with CPU tensors: what is refused,
on every rank before a collective runs, and empty tensors.

Usage: collective_arguments_test.py [CASE]: with a case, the process is a rank.
"""
import os
import sys
import unittest

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import ranks
import symmetric_stand_in


def check_refused(*cases):
    """Each call is an error that says this, and runs no collective."""
    from unittest import mock

    import torch.distributed as dist

    import attacca

    names = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "all_to_all_single")
    stop = {name: mock.Mock(side_effect=AssertionError(f"{name} ran")) for name in names}
    with mock.patch.multiple(dist, **stop):
        for call, what in cases:
            try:
                call()
            except attacca.Error as error:
                assert what in str(error), f"{error}, not {what}"
                assert error.where and error.fix, error
            else:
                raise AssertionError(f"no error: {what}")


def functions():
    import attacca.torch

    return (attacca.torch.all_gather_matmul, attacca.torch.matmul_reduce_scatter,
            attacca.torch.matmul_all_reduce)


def refused():
    import torch

    _, count = ranks.join()
    x, w = torch.randn(10, 16), torch.randn(16, 12)
    gather, scatter, _ = functions()
    check_refused(
        (lambda: scatter(x, w), f"10 rows cannot be cut into {count} equal parts"),
        (lambda: gather(x, w.t()), "a has shape (10, 16) and b (12, 16)"),
        (lambda: gather(x, (w, w, w), "acc0"), "3 weights"),
        (lambda: gather(x, (w, w[:, 1:]), "acc0 * acc1"), "b (16, 11)"),
        (lambda: gather(x, w.double()), "b torch.float64"),
        (lambda: gather(x, w, "acc, 2 * acc"), "several results"),
        (lambda: gather(x, w, "acc + row(bias)"), "operand bias is missing"),
        (lambda: gather(x, w, "acc", bias=w[0]), "the epilogue names no operand bias"),
        (lambda: scatter(x[:8], w, after="acc + row(bias)"), "operand bias is missing"),
        (lambda: gather(x, w, exchange="piece"), "unknown exchange piece"),
        (lambda: gather(x, w, exchange="direct"), "exchange is 'direct', and the ranks of the"),
        (lambda: scatter(x[:8], w, exchange="awaiting"), "exchange is 'awaiting', and the"),
        (lambda: scatter(x[:8], w, exact_sum=1), "exact_sum is 1"),
        (lambda: gather(x, w, mode="f64"), "mode"),
        (lambda: gather(x.detach().requires_grad_(), w), "requires a gradient"))


def no_tensors():
    """Of each function: what is no tensor, or has no such axes, and what is no epilogue."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate

    _, count = ranks.join()
    x, w = torch.randn(8, 16), torch.randn(16, 12)
    spread = DTensor.from_local(x, init_device_mesh("cpu", (count,)), [Replicate()])
    for run in functions():
        check_refused(
            (lambda run=run: run([[1.0]], w), "a is a list"),
            (lambda run=run: run(x.numpy(), w), "a is a ndarray"),
            (lambda run=run: run(x[0, 0], w), "a has shape ()"),
            (lambda run=run: run(x[0], w), "a has shape (16,)"),
            (lambda run=run: run(spread, w), "a DTensor"),
            (lambda run=run: run(x.to(torch.complex64), w.to(torch.complex64)),
             "dtype torch.complex64 is not supported, at a"),
            (lambda run=run: run(x, w.numpy()), "b is a ndarray"),
            (lambda run=run: run(x, None), "b is None"),
            (lambda run=run: run(x, ()), "0 weights"),
            (lambda run=run: run(x, w[:, 0]), "and b (16,)"),
            (lambda run=run: run(x, w[None]), "and b (1, 16, 12)"),
            (lambda run=run: run(x, (w, [w])), "b is a list"),
            (lambda run=run: run(x, w.to("meta")), "and b on meta"),
            (lambda run=run: run(x, w, 3), "epilogue is 3"),
            (lambda run=run: run(x, w, None), "epilogue is None"),
            (lambda run=run: run(x, w, int), "epilogue is a type"),
            (lambda run=run: run(x, w, "acc\0"), "the epilogue has a NUL"),
            (lambda run=run: run(x, w, "acc + row(bias)", bias=w[0].numpy()), "bias is a ndarray"),
            (lambda run=run: run(x, w, "acc + row(bias)", bias=2.0), "bias is 2.0"),
            (lambda run=run: run(x, w, "acc + row(bias)", bias=w[0].to("meta")),
             "and bias on meta"),
            (lambda run=run: run(x, w, "acc + row(bias)", bias=w[0].to(torch.int16)),
             "dtype torch.int16 is not supported, at bias"),
            (lambda run=run: run(x, w, "acc + row(mode)", mode=w[0]),
             "operand mode has the name of a parameter of " + run.__name__),
            (lambda run=run: run(x, w, lambda acc, group: acc + group, group=w[0]),
             "operand group has the name of a parameter"))
    for run in functions()[1:]:
        check_refused(
            (lambda run=run: run(x, w, after=3), "after is 3"),
            (lambda run=run: run(x, w, after="acc + row(bias)", bias=[1.0]), "bias is a list"),
            (lambda run=run: run(x, w, after="acc + row(bias)", bias=w[0].to(torch.int16)),
             "dtype torch.int16 is not supported, at bias"),
            (lambda run=run: run(x, w, "acc + row(after)", after=w[0]),
             "operand after has the name"),
            (lambda run=run: run(x, w, after=lambda acc, exact_sum: acc * exact_sum),
             "operand exact_sum has the name"))


def shapes():
    """Operands with other rows, columns or axes than their role has."""
    import torch

    ranks.join()
    x, w = torch.randn(8, 16), torch.randn(16, 12)
    gather, scatter, reduce = functions()
    at = {rows: torch.randn(rows, 12) for rows in (1, 4, 8, 16, 32)}

    def wrong(shape, role, where, *wanted):
        """Calls that read such an operand, with the message of each."""
        res, text = torch.randn(shape), f"acc + {role}(res)"
        given = {"epilogue": text} if where == "epilogue" else {"after": text}
        what = f"operand res has shape {tuple(shape)}, which does not fit {role}(res) in {where}"
        for run in wanted:
            rows = {gather: 16, scatter: 8 if where == "epilogue" else 4, reduce: 8}[run]
            fix = {"row": (12,), "scalar": ()}.get(role, (rows, 1 if role == "col" else 12))
            yield (lambda run=run: run(x, w, **given, res=res)), \
                f"{what}, at res: give {where} an operand of shape {fix}"

    every = (gather, scatter, reduce)
    for shape, role, where, of in (
            ((8, 12), "full", "after", (scatter,)), ((8, 1), "col", "after", (scatter,)),
            ((4, 12), "full", "after", (reduce,)), ((16, 12), "full", "after", (reduce,)),
            ((2, 12), "full", "after", (scatter, reduce)), ((0, 12), "full", "after", (reduce,)),
            ((1, 12), "full", "after", (scatter, reduce)), ((12,), "full", "after", (reduce,)),
            ((8, 12), "full", "epilogue", (gather,)), ((32, 12), "full", "epilogue", every),
            ((4, 12), "full", "epilogue", every), ((16, 12), "full", "epilogue", every[1:]),
            ((8, 1), "col", "epilogue", (gather,)), ((8, 12), "col", "epilogue", every),
            ((2, 4, 12), "full", "epilogue", every), ((8, 11), "full", "epilogue", every),
            ((1, 12), "row", "epilogue", every), ((11,), "row", "epilogue", every),
            ((1,), "scalar", "epilogue", every)):
        check_refused(*wrong(shape, role, where, *of))
    # One operand for both epilogues, of which one has all rows and the other the rank's.
    for rows in (4, 8):
        check_refused((lambda rows=rows: scatter(x, w, "acc + full(res)", "acc * full(res)",
                                                 res=at[rows]), "operand res has shape"))
    check_refused(
        (lambda: scatter(x, w, after=lambda acc, res: acc + res, res=at[8]), "in after"),
        (lambda: gather(x, w, lambda acc, res: acc + res, res=at[8]), "in epilogue"))
    # Leading axes may be as a has them, or one.
    batch, wide = x.view(4, 2, 16), torch.randn(2, 4, 12)
    check_refused(
        (lambda: scatter(batch, w, after="acc + full(res)", res=at[8].view(4, 2, 12)),
         "give after an operand of shape (2, 2, 12)"),
        (lambda: reduce(batch, w, "acc + full(res)", res=wide),
         "give epilogue an operand of shape (4, 2, 12)"),
        (lambda: gather(batch, w, "acc + full(res)", res=at[16].view(4, 4, 12)),
         "give epilogue an operand of shape (8, 2, 12)"))
    for run, rows, after in ((gather, 16, "epilogue"), (scatter, 4, "after"), (reduce, 8, "after")):
        for scale in (torch.randn(rows, 1), torch.randn(rows // 2, 2, 1)):
            given = {after: "acc + full(res) * col(scale)", "scale": scale}
            for res in (at[rows], at[rows].view(-1, 2, 12)):
                y = run(batch, w, **given, res=res)
                flat = run(x, w, **{**given, "scale": scale.view(rows, 1)}, res=at[rows])
                torch.testing.assert_close(y, flat.view(rows // 2, 2, 12))


def empty():
    """No rows, columns or terms, in all ways."""
    import torch
    import torch.distributed as dist

    rank, count = ranks.join()
    memory = symmetric_stand_in.share(dist.group.WORLD)
    symmetric_stand_in.await_parts()
    gather, scatter, reduce = functions()
    for lead, depth, columns in (((0,), 16, 12), ((4,), 0, 12), ((4,), 16, 0), ((0,), 0, 0),
                                 ((2, 0), 16, 12), ((0, 3), 16, 12), ((2, 3), 0, 12),
                                 ((2, 3), 16, 0), ((2, 0), 0, 0)):
        rows, *others = lead
        x, w = torch.randn(*lead, depth), torch.randn(depth, columns)
        dist.broadcast(x, 0)
        dist.broadcast(w, 0)
        res = torch.ones(rows * count, *others, columns)
        product = x @ w + 1
        for way in ("whole", "direct", "pieces", "awaiting", "pulled", "measured"):
            options = {"res": res, "exchange": way}
            if way != "pulled":
                y = gather(x, w, "acc + full(res)", **options)
                torch.testing.assert_close(y, torch.cat([product] * count))
            if way == "awaiting":
                continue
            for exact_sum in (False, True):
                options = {"exact_sum": exact_sum, "exchange": way}
                y = reduce(x, w, "acc + 1", "acc + full(res)", res=res[:rows], **options)
                torch.testing.assert_close(y, count * product + 1)
                y = scatter(x, w, "acc + 1", "acc + full(res)", res=res[:rows // count], **options)
                torch.testing.assert_close(y, (count * product + 1).chunk(count)[rank])
        torch._dynamo.reset()
        run = torch.compile(lambda x, w: (gather(x, w), reduce(x, w)), fullgraph=True,
                            backend="aot_eager")
        for y, wanted in zip(run(x, w), (torch.cat([product - 1] * count), count * (product - 1))):
            torch.testing.assert_close(y, wanted)
    memory.finish()


def capturing():
    """Ways over symmetric memory in a group's first call while a CUDA graph is captured."""
    import torch

    from attacca.torch._parallel import ways

    ranks.join()
    x, w = torch.randn(8, 16), torch.randn(16, 12)

    def check(why, fix):
        check_refused(*[(lambda run=run, way=way: run(x, w, exchange=way),
                         f"exchange is {way!r}, and {why}, at exchange: {fix}")
                        for run in functions() for way in ("direct", "pieces")])
    is_capturing, ways.is_capturing = ways.is_capturing, lambda device: True
    check("a CUDA graph is captured in the first call of the group", "call it once before")
    functions()[0](x, w)
    ways.is_capturing = is_capturing
    functions()[0](x, w)
    check("the ranks of the group are not GPUs of one host that read each other's memory",
          "give \"measured\"")


def groups():
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    x, w = torch.randn(8, 16), torch.randn(16, 12)

    def check_groups(what, *given):
        check_refused(*[(lambda run=run, group=group: run(x, w, group=group), what)
                        for run in functions() for group in given])
    check_groups("group is a NoneType", None)
    rank, count = ranks.join()
    others = list(range(1, count))
    of_others, mesh = dist.new_group(others), DeviceMesh("cpu", others)
    check_groups("group is a str", "world")
    check_groups("group is a mesh of 2 axes", init_device_mesh("cpu", (1, count)))
    if rank == 0:
        check_groups("this process is not a rank of the group", of_others, mesh)
    else:
        torch.testing.assert_close(functions()[0](x, w, group=of_others),
                                   functions()[0](x, w, group=mesh))


def other_group():
    """Compiled functions in a group of another size with the same name: an error that says what to
    do, which then helps."""
    import torch
    import torch.distributed as dist

    rank, count = ranks.join()
    x, w = torch.randn(8, 16), torch.randn(16, 12)
    gather, scatter, reduce = functions()
    calls = (lambda x: gather(x, w), lambda x: scatter(x, w),
             lambda x: reduce(x, w, after="2 * acc", exact_sum=True))
    compiled = [torch.compile(call, fullgraph=True) for call in calls]
    for run in compiled:
        run(x)
    store = os.environ["ATTACCA_TEST_STORE"]
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{store}{rank}", rank=0, world_size=1)
    check_refused(*[(lambda run=run: run(x), f"compiled for {count} ranks, and the group has 1, at "
                     "group: call torch._dynamo.reset()") for run in compiled])
    torch._dynamo.reset()
    for run, factor in zip(compiled, (1, 1, 2)):
        torch.testing.assert_close(run(x), factor * (x @ w))


CASES = {"refused": refused, "no tensors": no_tensors, "shapes": shapes, "empty": empty,
         "capturing": capturing, "groups": groups, "other group": other_group}


class CollectiveArguments(unittest.TestCase):
    def test_refused(self):
        ranks.check(self, __file__, "refused", 4)

    def test_no_tensors(self):
        ranks.check(self, __file__, "no tensors", 2)

    def test_shapes_of_operands(self):
        ranks.check(self, __file__, "shapes", 2)

    def test_empty_tensors(self):
        ranks.check(self, __file__, "empty", 2)

    def test_first_call_while_capturing(self):
        ranks.check(self, __file__, "capturing", 2)

    def test_groups(self):
        ranks.check(self, __file__, "groups", 3)

    def test_a_group_of_another_size(self):
        ranks.check(self, __file__, "other group", 2)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
        ranks.leave("compared")
    else:
        unittest.main()
