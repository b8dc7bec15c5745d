"""Random ONNX graphs of every row of src/import/onnx/ops.def, run by Attacca and by ONNX Runtime.

Where the two disagree, the operator text decides: differences.py lists each such case with its
reason, and what is not listed there fails. ATTACCA_SEED and ATTACCA_GRAPHS choose other graphs and
how many; ATTACCA_ROW limits them to one op; with ATTACCA_DEVICE=cuda they run on a GPU.
"""
from __future__ import annotations

import collections
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto as T

import attacca
import generators
import generators_dag
import generators_index  # noqa: F401  registers its generators
import generators_layers  # noqa: F401
import generators_microsoft  # noqa: F401
import generators_shape
from cases import Case, Row, model_of, table, values_of
from compare import disagreement, inexact
from differences import DIFFERENCES, explained

SOURCE = Path(__file__).resolve().parents[2]
OLDEST = 7  # ONNX Runtime's kernels begin here, with exceptions
NEWEST = 24

MANY = Row("(many ops)", 1, 10**6, "test")  # no row of the table: graphs of several ops

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4


class Tally:
    """What happened to the graphs of one row."""

    def __init__(self) -> None:
        self.compared = self.runs = 0
        self.dtypes: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.without_oracle: collections.Counter[str] = collections.Counter()


def generate(row: Row, seed: list[int]) -> Case:
    rng = np.random.default_rng(seed)
    if row is MANY:
        case = Case(rng, row, 13)
        generators_dag.dag(case)
        return case
    case = Case(rng, row, int(rng.integers(row.first, min(row.last, NEWEST) + 1)))
    if row.first >= OLDEST or row.last > OLDEST:
        case.opset = max(case.opset, min(OLDEST, row.last)) if case.maybe(0.7) else case.opset
    if row.domain:
        case.opset = NEWEST
    if row.known:
        generators_shape.known(case)
    else:
        of_domain = generators.GENERATORS.get(f"{row.domain}.{row.name}")
        (of_domain or generators.GENERATORS[row.name])(case)
    return case


# Ops whose older and newer opsets differ in nothing but their types.
UNCHANGED = {*generators.UNARY, *generators.ATTRIBUTES} - {"Selu", "Swish"}


def model(case: Case) -> Any:
    return model_of(case, case.opset, case.nodes)


def oracle_of(case: Case) -> Any:
    """A session, or why there is none. Where ONNX Runtime has no kernel for the opset, the same
    graph in another."""
    spellings = [(case.opset, case.nodes)]
    if case.modern is not None:
        spellings.append(case.modern)
    elif case.opset > NEWEST:
        spellings = [(NEWEST, case.nodes)]  # the newest adds types
    elif case.row.name in UNCHANGED:
        spellings += [(opset, case.nodes) for opset in (7, 13, 17, 21) if opset >= case.row.first]
    narrow = case.dtype == T.BFLOAT16 and not case.chained
    for opset, nodes, wide in [(*each, wide) for wide in (False, narrow) for each in spellings]:
        try:
            made = model_of(case, opset, nodes, wide).SerializeToString()
            return onnxruntime.InferenceSession(made, options)
        except Exception as error:  # its classes are not public
            reason = str(error)
    return reason


def sizes_of(case: Case) -> list[dict[str, int]]:
    """The symbols' sizes of several runs."""
    if not case.sizes:
        return [{}]
    more = [{name: int(case.rng.integers(0, 9)) for name in case.sizes} for _ in range(2)]
    return [case.sizes, *more]


def text_of(case: Case) -> str:
    from onnx import printer
    return printer.to_text(model(case))


def compile_model(data: bytes, mode: str) -> Any:
    if os.environ.get("ATTACCA_DEVICE") == "cuda":
        from on_gpu import GpuPlan
        return GpuPlan(data, mode)
    return attacca.compile(data, mode=mode, threads=1)


def check(case: Case, tally: Tally, seen: "collections.Counter[str]") -> str:
    """What is wrong, or nothing."""
    oracle = oracle_of(case)
    if isinstance(oracle, str):
        tally.without_oracle[oracle.splitlines()[0][:100]] += 1
        return ""
    mode = "eager" if case.maybe(0.2) else "fp32"
    try:
        plan = compile_model(model(case).SerializeToString(), mode)
    except attacca.Error as error:
        tally.refused[str(error).split("\n")[0][:110]] += 1
        return ""
    for sizes in sizes_of(case):
        values = values_of(case, case.rng, sizes)
        declared = {each.name for each in oracle.get_inputs()}
        feeds = {name: values[name.removesuffix("_f32")] for name in declared}
        try:
            want = oracle.run(None, feeds)
        except Exception as error:
            tally.without_oracle["running: " + str(error).splitlines()[0][:100]] += 1
            continue
        taken = {each.name for each in plan.inputs}
        try:
            got = plan(**{name: feed for name, feed in feeds.items() if name in taken})
        except attacca.Error as error:
            tally.refused["running: " + str(error).split("\n")[0][:100]] += 1
            continue
        got = list(got) if isinstance(got, tuple) else [got]
        tally.runs += 1
        for k, (mine, theirs) in enumerate(zip(got, want, strict=True)):
            wrong = disagreement(case, k, mine, theirs, values)
            reason = explained(case, k, mine, theirs, values) if wrong else None
            if reason is not None:
                seen[reason] += 1
            if not wrong or reason is not None:
                wrong = inexact(case, mine, values)
            if not wrong:
                continue
            return (f"mode {mode}, sizes {sizes}: output {k} {wrong}\n{text_of(case)}\n"
                    + "\n".join(f"{name} = {np.array_repr(value)[:1500]}"
                                for name, value in values.items()))
    tally.compared += 1
    tally.dtypes[T.DataType.Name(case.dtype)] += 1
    return ""


def main() -> int:
    seed, count = int(os.environ.get("ATTACCA_SEED", "7")), int(os.environ.get("ATTACCA_GRAPHS",
                                                                               "2400"))
    only, most = os.environ.get("ATTACCA_ROW"), int(os.environ.get("ATTACCA_FAILURES", "10"))
    rows = [row for row in table(SOURCE / "src/import/onnx/ops.def") if only in (None, row.name)]
    print(f"seed {seed}, {count} graphs over {len(rows)} rows")
    tallies = {row: Tally() for row in [*rows, MANY]}
    seen: collections.Counter[str] = collections.Counter()
    failures, begin, graphs = 0, time.process_time(), 0
    for i in range(count):
        row = rows[(i - i // 6 - 1) % len(rows)] if only or i % 6 else MANY
        case = generate(row, [seed, i])
        graphs += 1
        wrong = check(case, tallies[row], seen)
        if wrong:
            failures += 1
            print(f"graph {i} of seed {seed}, {row}: {wrong}\n")
            if failures >= most:
                break
    verbose = "-v" in sys.argv
    for row, tally in tallies.items():
        if tally.compared == 0 or verbose:
            print(f"{row}: {tally.compared} graphs compared, {tally.runs} runs, "
                  f"{dict(tally.dtypes)}")
            for reason, times in (tally.refused + tally.without_oracle).items():
                print(f"    {times} x {reason}")
        if tally.compared == 0 and count >= 10 * len(rows):
            failures += 1
    compared = sum(tally.compared for tally in tallies.values())
    refused = sum(sum(tally.refused.values()) for tally in tallies.values())
    if refused > graphs // 10:
        print("more than a tenth is refused")
        failures += 1
    dtypes = sum((tally.dtypes for tally in tallies.values()), collections.Counter())
    print("graphs by the dtype of their first input:", dict(dtypes))
    print(f"{graphs} graphs: {compared} compared, {refused} times refused, listed differences: "
          f"{sum(seen.values())}, {time.process_time() - begin:.1f} s of CPU")
    for reason, times in seen.most_common():
        print(f"  {times} x {reason}")
    for difference in DIFFERENCES:
        if verbose and difference.name not in seen:
            print(f"  not seen: {difference.name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
