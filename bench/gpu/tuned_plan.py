"""A plan of the C library for certain sizes, tuned as it is prepared, and its launches on PyTorch's
tensors and current stream."""

import argparse
import os

from c_abi import Library


def option_parser(description, minutes, out="-", what="a CSV; -: standard output"):
    """With the options for Attacca's path, its tuning time, the time for all cases, and where rows
    go: their defaults are `minutes` and `out`, and `what` says what that is."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacca", required=True, help="the program: it times candidates")
    parser.add_argument("--library", required=True, help="libattacca.so")
    parser.add_argument("--limit", type=float, default=20, help="seconds of tuning a case")
    parser.add_argument("--out", default=out, help=what)
    parser.add_argument("--minutes", type=float, default=minutes)
    return parser


def open_library(path, program):
    # The tuner times candidates in a child process.
    os.environ.setdefault("ATTACCA_TUNE_WORKER", os.path.abspath(program))
    return Library(path)


def of_text(library, text, sizes, seconds):
    return TunedPlan(library, library.plan_of_text(text, "always", seconds), sizes)


class TunedPlan:
    """`decision`: the one for its first product, from attacca_instance_decisions_json."""

    def __init__(self, library, plan, sizes):
        self.library, self.plan = library, plan
        self.instance = library.instance(plan, sizes)
        self.decision = library.decisions(self.instance)[0]

    def columns(self):
        """The columns of a CSV that describe the decision."""
        return {"kernel": self.decision["candidate"],
                "unfused_us": f"{self.decision.get('unfused_seconds', 0) * 1e6:.2f}"}

    def launches(self, sets, outs):
        """launch(i) -> outs[i], from the operands sets[i]. It keeps references to all of them."""
        import torch
        size = self.library.workspace_bytes(self.instance)
        # 256-byte aligned, as all of PyTorch's memory.
        workspace = torch.empty(max(size, 1), device="cuda", dtype=torch.uint8)
        runs = [self.library.runner(self.instance, [each.data_ptr() for each in operands],
                                    [out.data_ptr()], workspace.data_ptr(), size)
                for operands, out in zip(sets, outs)]

        def launch(i, keep=(self, workspace, sets)):
            runs[i](torch.cuda.current_stream().cuda_stream)
            return outs[i]
        return launch
