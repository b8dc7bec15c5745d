"""Attacca's side of a comparison, behind one small interface:

    contenders(case, buffers) -> {column: launch(i)}   to be timed in turns with the peers
    measured(case) -> {column: value}                  what was measured or chosen elsewhere
    completed(row) -> {column: value}                  what follows from a row's times

A contender's launch(i) works on set i of the buffers and returns the output. Each function raises
RuntimeError with the reason if it cannot do a case."""

import json

import program
import tuned_plan
from cases import EPILOGUES, GATES


class ThroughCli:
    """`attacca bench gemm` in a process of its own: the same data and graphs, not the same
    turns."""

    name = "cli"

    def __init__(self, path, limit=60):
        self.path, self.limit = path, limit

    def contenders(self, case, buffers):
        return {}

    def completed(self, row):
        return {}

    def measured(self, case):
        return columns_of(json.loads(program.answer(
            self.path, "bench", "gemm", "--m", str(case.m), "--n", str(case.columns), "--k",
            str(case.k),
            "--dtype", "bf16", "--epilogue", EPILOGUES[case.epilogue], "--b", case.layout,
            "--limit", str(self.limit), "--json", "--json-line", timeout=self.limit + 60)))


class ThroughCAbi:
    """Plans of the C library, tuned and then launched in this process. What was not selected (the
    fastest fused kernel where the unfused path won, or the other way round) was timed by the tuner
    alone: its column is the selected one's time here, scaled by the tuner's two times."""

    name = "c-abi"

    def __init__(self, path, worker, seconds=60):
        self.library, self.seconds = tuned_plan.open_library(path, worker), seconds
        self.plans = {}
        self.plan = self.tuned = None

    def plan_of(self, epilogue):
        if epilogue not in self.plans:
            self.plans[epilogue] = self.library.plan(
                EPILOGUES[epilogue], "always", self.seconds, layout=GATES.get(epilogue, "nk"))
        return self.plans[epilogue]

    def measured(self, case):
        self.plan = self.tuned = None
        self.plan = tuned_plan.TunedPlan(self.library, self.plan_of(case.epilogue),
                                         {"M": case.m, "N": case.columns, "K": case.k})
        self.tuned = columns_of_decision(self.plan.decision)
        return {key: self.tuned[key] for key in ("selected", "fused_kernel")}

    def contenders(self, case, buffers):
        if self.plan is None:
            raise RuntimeError("there is no plan")
        sets = [buffers.operands(i) for i in range(buffers.count)]
        return {"attacca_us": self.plan.launches(sets, buffers.out)}

    def completed(self, row):
        """The columns that follow from the row's attacca_us and the tuner's times."""
        if not self.tuned or not row.get("attacca_us"):
            return {}
        scale = row["attacca_us"] / self.tuned["attacca_us"]
        return {key: self.tuned[key] * scale for key in ("attacca_fused_us", "attacca_unfused_us")
                if self.tuned[key]}


def columns_of_decision(decision):
    """The columns, from one of attacca_instance_decisions_json's."""
    candidates = [{"candidate": trial["candidate"], "us": trial["seconds"] * 1e6}
                  for trial in decision["trials"] if "seconds" in trial]
    return columns_of({"candidates": candidates, "bare_us": None,
                       "unfused_us": decision["unfused_seconds"] * 1e6,
                       "selected": decision["candidate"],
                       "selected_us": decision["seconds"] * 1e6})


def columns_of(answer):
    """The columns of a row, from what `attacca bench gemm --json` printed."""
    timed = [each for each in answer["candidates"] if "us" in each]
    # Candidates of the last round come first, the best one first. Times of earlier rounds are not
    # comparable with theirs: the device then paused between launches and had another clock.
    best = next((each for each in timed if not each["candidate"].startswith("unfused")), None)
    if not answer["selected"].startswith("unfused"):
        best = {"candidate": answer["selected"], "us": answer["selected_us"]}
    return {
        "attacca_us": answer["selected_us"],
        "attacca_unfused_us": answer["unfused_us"] or None,
        "attacca_bare_us": answer["bare_us"],
        "attacca_fused_us": best["us"] if best else None,
        "selected": answer["selected"],
        "fused_kernel": best["candidate"] if best else "",
    }
