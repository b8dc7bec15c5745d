#!/usr/bin/env python3
"""How good the choice of a kernel for grouped products is without measuring, by recorded times:

    bench/gpu/grouped_choices.py collect --graphs /tmp/layers --device h100   # where a GPU is
    bench/gpu/grouped_choices.py evaluate                                     # anywhere

`collect` has `attacca tune` time the templates and the unfused path for each graph of a folder,
such as model_layers.py writes, and adds a line for each to --data: the graph, the device's name for
--as, and microseconds by candidate, its fastest variant's. `evaluate` prints what the cost model
chooses, and how many times as long that takes as the fastest; it needs the templates that were
timed, of which those that are not here are left out, as those are that were not timed."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
from statistics import geometric_mean

import program

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/grouped.jsonl")
UNFUSED = "unfused"


def template_of(candidate):
    """Its name without settings."""
    return candidate.split(" ")[0]


def fastest(trials):
    """Microseconds by template, of what could be timed."""
    found = {}
    for trial in trials:
        if "us" in trial:
            name = template_of(trial["candidate"])
            found[name] = min(found.get(name, trial["us"]), trial["us"])
    return found


def collect(args):
    with tempfile.TemporaryDirectory() as folder, open(args.data, "a", encoding="utf-8") as file:
        environment = program.without_choices(folder)
        for path in sorted(pathlib.Path(args.graphs).glob("*.attacca")):
            said = program.answer(args.attacca, "tune", str(path), "--json", "--budget", "40",
                                  env=environment)
            tuned = json.loads(said)["tuned"][0]
            line = {"graph": path.read_text(encoding="utf-8"), "device": args.device,
                    "us": {name: round(us, 2)
                           for name, us in fastest(tuned["candidates"]).items()}}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{path.stem}: {tuned['winner']}, {tuned['us']:.1f} us", flush=True)
    return 0


def ranking(attacca, graph, device):
    """All that can compute the graph here, the model's choices first."""
    with tempfile.NamedTemporaryFile("w", suffix=".attacca", encoding="utf-8") as file:
        file.write(graph)
        file.flush()
        said = program.answer(attacca, "explain", file.name, "--device", "cuda", "--as", device,
                              "--json")
    made = json.loads(said)["candidates"][0]
    names = [each["template"] for each in made["ranked"]]
    # Its place among the others counts where those before it were not timed.
    unfused = made["unfused"]
    before = 0 if unfused["preferred"] else max(1, sum(
        each["expected_us"] < unfused["expected_us"] for each in made["ranked"]))
    return [*names[:before], UNFUSED, *names[before:]]


def evaluate(args):
    ratios = []
    with open(args.data, encoding="utf-8") as file:
        for record in map(json.loads, file):
            ranked = ranking(args.attacca, record["graph"], record["device"])
            us = {each: record["us"][each] for each in ranked if each in record["us"]}
            name, best = next(iter(us)), min(us, key=us.get)
            ratios.append(us[name] / us[best])
            print(f"{ratios[-1]:.2f}  {name} took {us[name]:.1f} us, {best} {us[best]:.1f} us")
    print(f"the choice takes {geometric_mean(ratios):.3f} times as long as the fastest in the "
          f"geometric mean of {len(ratios)} problems, at most {max(ratios):.2f} times")
    return 0


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    program.add_option(parser)
    parser.add_argument("--data", default=DATA, help="a file of recorded times")
    kinds = parser.add_subparsers(required=True)
    collecting = kinds.add_parser("collect")
    collecting.add_argument("--graphs", required=True, help="a folder of graphs of one region each")
    collecting.add_argument("--device", required=True, help="its name for --as")
    collecting.set_defaults(run=collect)
    kinds.add_parser("evaluate").set_defaults(run=evaluate)
    args = parser.parse_args(words)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
