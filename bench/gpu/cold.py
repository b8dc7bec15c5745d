#!/usr/bin/env python3
"""The time of a new epilogue before its first launch, of a known one in a new process, and of a
launch on the host: `attacca bench cold` and `attacca bench launch`, many times. Writes OUT.csv (one
row for each build) while it runs, then OUT.md. Without a GPU kernels are built, not loaded."""

import argparse
import json
import os
import statistics
import tempfile
import time

import csv_run
import machine
import pages
import program

# Distinct in operators and operands, so that none is in a cache already.
EPILOGUES = [
    "silu(acc + row(bias))", "gelu_tanh(acc + row(bias))", "gelu(acc + row(bias))",
    "relu(acc + row(bias))", "silu(acc + row(bias)) * full(res)", "acc + row(bias) + full(res)",
    "gelu_tanh(acc) * full(res)", "tanh(acc * scalar(s))", "sigmoid(acc + col(c))",
    "softplus(acc)", "mish(acc + row(bias))", "hardswish(acc)", "elu(acc + row(bias))",
    "acc * row(scale) + row(bias)", "relu(acc * row(scale) + row(bias))", "abs(acc) + full(res)",
    "max(acc + row(bias), full(res))", "min(max(acc, 0), 6)", "exp(acc - col(c))",
    "silu(acc * col(c) * row(scale))", "quick_gelu(acc + row(bias))", "sqrt(abs(acc)) * full(res)",
    "acc / (1 + exp(-acc)) + full(res)", "tanh(acc / 30) * 30", "relu(acc) * relu(acc)",
]
# One of each kind; those that were not built are skipped.
TEMPLATES = [
    "cutlass_tn_128x256x64_2x1_coop_f1", "cutlass_tn_128x128x64_2x1_pingpong_f1",
    "cutlass_tn_128x112x64_2x1_pingpong_f1", "cutlass_tn_64x16x128_1x1_pingpong_swap_f1",
    "cutlass_tn_128x128x64_2x1_streamk_f1",
]
PARTS = ["emit_ms", "nvrtc_ms", "splice_ms", "assemble_ms", "cache_ms", "module_ms", "total_ms"]
COLUMNS = ["kind", "template", "epilogue", *PARTS, "process_ms", "failed"]


class Runner:
    def __init__(self, path, out):
        self.path = path
        self.file = open(out, "w", newline="", encoding="utf-8")
        self.csv = None

    def begin(self, first):
        """`first`: the machine, as `attacca bench cold` names it."""
        self.csv = csv_run.begin(self.file, COLUMNS, {
            "device": first["device"] or "a machine without a GPU (kernels were not loaded)",
            "tools": f"{first['tools']}, {os.cpu_count()} cores", "date": machine.today(),
            **{key: f"{first[key]:.1f}" for key in ("catalog_ms", "tools_ms")}})

    def note(self, kind, line, part, **more):
        row = {"kind": kind, "template": line["template"], "epilogue": line["epilogue"],
               "failed": line.get("failed", ""), **line.get(part, {}), **more}
        self.csv.writerow(csv_run.rounded(row))
        self.file.flush()

    def note_launches(self, found):
        """Facts below the rows."""
        for what, us in found:
            self.file.write(f"# launch: {what} = {pages.number(us, 2)}\n")
        self.file.flush()

    def ask(self, *arguments):
        """(the JSON lines that one process printed, its milliseconds)."""
        begin = time.monotonic()
        said = program.answer(self.path, "bench", *arguments, timeout=300)
        spent = (time.monotonic() - begin) * 1e3
        return [json.loads(line) for line in said.splitlines()], spent


def kinds(rows, kind):
    return [row for row in rows if row["kind"] == kind and not row["failed"]]


def options_of(name, values):
    return [part for value in values for part in (name, value)]


def available(runner, wanted):
    """The facts of the machine, and the templates among `wanted` that were built."""
    lines, _ = runner.ask("cold", "--epilogue", "acc", *options_of("--template", wanted))
    built = [line["template"] for line in lines[1:] if "failed" not in line]
    if not built:
        raise SystemExit(f"none of the templates was built: {lines[1]['failed']}")
    return lines[0], built


def measure_builds(runner, templates, epilogues, deadline):
    """Every epilogue in every template, each into an empty cache, in one process a template."""
    for template in templates:
        if time.monotonic() > deadline:
            return
        lines, _ = runner.ask("cold", "--template", template, *options_of("--epilogue", epilogues))
        for line in lines[1:]:
            for kind, part in (("cold", "first"), ("disk", "disk"), ("memory", "memory")):
                runner.note(kind, line, part)
                if "failed" in line:
                    break


def measure_processes(runner, templates, epilogues, deadline):
    """Each in a process of its own, which opens the libraries and has nothing in memory."""
    with tempfile.TemporaryDirectory() as folder:
        for index, epilogue in enumerate(epilogues):
            if time.monotonic() > deadline:
                return
            template = templates[index % len(templates)]
            for kind in ("new process, cold", "new process, disk"):
                lines, spent = runner.ask("cold", "--template", template, "--epilogue", epilogue,
                                          "--cache", folder)
                runner.note(kind, lines[1], "first", process_ms=spent)


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def cell(rows, key, part):
    values = [float(row[key]) for row in rows if row[key]]
    return pages.number(quantile(values, part), 2) if values else "-"


def table_of(every):
    lines = []
    for kind, title in [("cold", "new epilogue"),
                        ("new process, cold", "new epilogue, new process"),
                        ("disk", "known, from disk"),
                        ("new process, disk", "known, from disk, new process"),
                        ("memory", "known, from memory")]:
        rows = kinds(every, kind)
        if rows:
            lines.append([title, len(rows), *(cell(rows, key, 0.5) for key in PARTS),
                          cell(rows, "total_ms", 0.9)])
    return pages.table(["", "builds", "emit", "NVRTC", "splice", "assemble", "cache", "module load",
                        "total p50", "total p90"], lines)


def table_by_template(every):
    lines = []
    for template in dict.fromkeys(row["template"] for row in kinds(every, "cold")):
        rows = [row for row in kinds(every, "cold") if row["template"] == template]
        lines.append([f"`{template}`", len(rows), cell(rows, "splice_ms", 0.5),
                      cell(rows, "assemble_ms", 0.5), cell(rows, "total_ms", 0.5),
                      cell(rows, "total_ms", 0.9)])
    return pages.table(["template", "builds", "splice", "assemble", "total p50", "total p90"],
                       lines)


def launches(runner, templates):
    """[(what, microseconds of the host for a launch)], PyTorch's launches too."""
    found = []
    try:
        lines, _ = runner.ask("launch", "--m", "16", "--n", "256", "--k", "256", "--epilogue",
                              "silu(acc + row(bias))", *options_of("--template", templates))
    except RuntimeError as error:
        return [(f"`attacca bench launch` failed: {error}", None)]
    found.append(("an empty kernel, by the driver", lines[0]["empty_kernel_us"]))
    for line in lines[1:]:
        name = f"`{line.get('template') or line.get('plan') or 'plan'}`"
        if "failed" in line:
            found.append((f"{name}: {line['failed']}", None))
        elif "plan_us" in line:
            found.append((f"a plan (C and C++ API) that runs {name}", line["plan_us"]))
        else:
            found.append((f"{name}, the same addresses again", line["same_operands_us"]))
            if "changing_operands_us" in line:
                found.append((f"{name}, other addresses each time", line["changing_operands_us"]))
    return found + torch_launches()


def torch_launches():
    try:
        import torch
        import torch.nn.functional as F
        x, w = (torch.randn(rows, 256, device="cuda").bfloat16() for rows in (16, 256))
        bias = torch.randn(256, device="cuda").bfloat16()
        out = torch.empty(16, 256, device="cuda", dtype=torch.bfloat16)
        contenders = {
            "`torch.mm(x, w, out=out)`": lambda: torch.mm(x, w.t(), out=out),
            "`F.silu(F.linear(x, w, bias))`": lambda: F.silu(F.linear(x, w, bias)),
        }
        found = []
        with torch.inference_mode():
            for name, launch in contenders.items():
                batches = []
                for _ in range(50):
                    begin = time.perf_counter()
                    for _ in range(200):
                        launch()
                    batches.append((time.perf_counter() - begin) / 200 * 1e6)
                    torch.cuda.synchronize()
                found.append((name, statistics.median(batches)))
        return found
    except Exception as error:  # pylint: disable=broad-exception-caught
        return [(f"PyTorch: {error}", None)]


def page(facts, rows):
    failed = [row for row in rows if row["failed"]]
    epilogues = len({row["epilogue"] for row in kinds(rows, "cold")})
    host = [one.rpartition(" = ")[::2] for one in facts.get("launch", "").split("; ") if one]
    tools = (f"; opening the compilers, whose versions are part of a kernel's key, "
             f"{facts['tools_ms']} ms") if "tools_ms" in facts else ""
    lines = [
        "# Cold and warm: what an epilogue costs before its kernel runs", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/cold.py`; every build is a row of the "
        "CSV beside this page.", "",
        *([facts["note"], ""] if "note" in facts else []),
        f"{epilogues} epilogues in each template. *New*: an empty cache. *From disk*: a new cache "
        "object on the folder that the first build filled. *Total* ends when the kernel can be "
        "launched. Milliseconds, medians where nothing else is said. Opening the template "
        f"directory takes {facts['catalog_ms']} ms, once a process{tools}.", "",
        *table_of(rows), "", "New epilogues by template:", "", *table_by_template(rows), "",
        *pages.listed("Failed:", [f"`{row['epilogue']}` in `{row['template']}`: {row['failed']}"
                                  for row in failed[:20]])]
    if host:
        lines += ["## The host's time for a launch", "",
                  "16 x 256 x 256, 200 launches between two waits, median of 50 such batches, "
                  "microseconds a launch. PyTorch's includes Python.", "",
                  *pages.table(["launch", "us"], host), ""]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    program.add_option(parser)
    parser.add_argument("--out", default="docs/benchmarks/gpu-cold", help="without .md and .csv")
    parser.add_argument("--minutes", type=float, default=2, help="stops cleanly after these")
    parser.add_argument("--epilogues", type=int, default=len(EPILOGUES), help="the first so many")
    parser.add_argument("--templates", nargs="+", default=TEMPLATES)
    parser.add_argument("--page", action="store_true", help="writes the page again, from OUT.csv")
    options = parser.parse_args(arguments)
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    if not options.page:
        measure(options)
    pages.write(options.out + ".md", page(*csv_run.read(options.out + ".csv")))


def measure(options):
    deadline = time.monotonic() + options.minutes * 60
    epilogues = EPILOGUES[:options.epilogues]
    runner = Runner(options.attacca, options.out + ".csv")
    first, templates = available(runner, options.templates)
    runner.begin(first)
    measure_processes(runner, templates, epilogues[:10], deadline)
    measure_builds(runner, templates, epilogues, deadline)
    if first["device"]:
        runner.note_launches(launches(runner, templates[:2]))


if __name__ == "__main__":
    main()
