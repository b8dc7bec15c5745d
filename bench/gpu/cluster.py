#!/usr/bin/env python3
"""How much faster tuning through Ray is on several GPUs of this machine than on one: the layers of
a transformer (Qwen2.5 7B) with several numbers of rows, each time by a new Ray cluster from an
empty tuning database and without compiled kernels.

    cluster.py --gpus 1,2 --turns 2

The numbers of GPUs take turns. A time is that of the whole of attacca.tune(); starting Ray and its
workers is timed apart. Prints, too, how long the tasks took in all, and whether every database has
the same keys. Attacca's package and Ray must be importable.
"""
import argparse
import io
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import program

# The attention's input, the layer's and the gates' differ, so that no products are one launch.
LAYER = """graph layer(x: bf16[M, 3584], attention: bf16[M, 3584], normed: bf16[M, 3584],
            residual: bf16[M, 3584], qkv: bf16[4608, 3584], bias: bf16[4608],
            out: bf16[3584, 3584], gate: bf16[18944, 3584], up: bf16[18944, 3584],
            down: bf16[3584, 18944]) {
  heads = x @ transpose(qkv) + bias
  mixed = attention @ transpose(out) + residual
  hidden = silu(normed @ transpose(gate)) * (normed @ transpose(up))
  y = hidden @ transpose(down) + residual
  return heads, mixed, y
}"""
MEGABYTE = 2**20
ROWS = "1,4,16,64,128,256,512,1024,2048,4096"


def integers(text):
    return [int(part) for part in text.split(",")]


def counted(count, what):
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


# ---- One tuning, in a process of its own


def start_ray(gpus, folder):
    """A cluster on this machine with a worker started for each GPU."""
    import ray
    ray.init(num_gpus=gpus, num_cpus=gpus, include_dashboard=False, log_to_driver=False,
             configure_logging=False, object_store_memory=100 * MEGABYTE, _temp_dir=folder)

    def overlap():  # so that each is run by a worker of its own
        time.sleep(0.2)
    ray.get([ray.remote(overlap).options(num_gpus=1).remote() for _ in range(gpus)])


def keys_in(path):
    """The keys in a file that attacca.tune(export=) wrote: rows after a line of facts."""
    rows = map(json.loads, path.read_text().splitlines()[1:])
    return sorted([row["problem"], row["shape"]] for row in rows)


def tune(gpus, rows, folder):
    """Tunes in this process. What it took, and what it found."""
    begin = time.perf_counter()
    start_ray(gpus, str(folder / "ray"))
    import attacca
    progress, choices = io.StringIO(), folder / "all.choices"
    ready = time.perf_counter()
    tuned = attacca.tune(LAYER, M=rows, cluster="auto", progress=progress, export=choices)
    end = time.perf_counter()
    tasks = [float(each) for each in re.findall(r" in ([0-9.]+) s: ", progress.getvalue())]
    failed = [f"failed: {decision.remark}" for each in tuned for decision in each.decisions
              if decision.source == "failed"]
    return {"start": ready - begin, "seconds": end - ready, "tasks": tasks, "failed": failed,
            "keys": keys_in(choices)}


def measure(gpus, rows):
    """tune() in a new process, with a new folder for all that Attacca and Ray keep."""
    with tempfile.TemporaryDirectory(prefix="ray") as name:
        folder = pathlib.Path(name)
        environment = {**program.without_choices(folder), "RAY_USAGE_STATS_ENABLED": "0"}
        environment.pop("RAY_ADDRESS", None)
        out = folder / "found.json"
        subprocess.run([sys.executable, __file__, "--one", str(out), "--gpus", str(gpus), "--rows",
                        ",".join(map(str, rows))], check=True, env=environment)
        return json.loads(out.read_text())


# ---- All of them


def said(turn, gpus, found):
    tasks = found["tasks"]
    return (f"turn {turn}, {counted(gpus, 'GPU')}: {found['seconds']:.2f} s; "
            f"{counted(len(found['keys']), 'problem')}, {len(found['failed'])} failed; tasks took "
            f"{sum(tasks):.1f} s in all, {max(tasks, default=0):.1f} s the longest; Ray started in "
            f"{found['start']:.1f} s")


def summary(found):
    """`found`: by number of GPUs, what each turn found. The lines, and whether all is well."""
    means = {gpus: statistics.mean(each["seconds"] for each in turns)
             for gpus, turns in found.items()}
    first = next(iter(means))
    lines = [f"{counted(gpus, 'GPU')}: {seconds:.2f} s, {means[first] / seconds:.2f} times as fast "
             f"as with {first}" for gpus, seconds in means.items()]
    every = [each for turns in found.values() for each in turns]
    failed = sorted({reason for each in every for reason in each["failed"]})
    same = all(each["keys"] == every[0]["keys"] for each in every)
    lines += failed
    lines.append(f"{counted(len(every[0]['keys']), 'problem')}; the databases' keys "
                 f"{'are the same' if same else 'DIFFER'}")
    return lines, same and not failed and bool(every[0]["keys"])


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpus", type=integers, default=[1, 2], help="numbers of GPUs")
    parser.add_argument("--turns", type=int, default=2, help="tunings with each number")
    parser.add_argument("--rows", type=integers, default=integers(ROWS),
                        help="numbers of rows, four problems each")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.one:
        args.one.write_text(json.dumps(tune(args.gpus[0], args.rows, args.one.parent)))
        return 0
    print(f"{machine.device_name()}, driver {machine.driver_version()}; {machine.today()}; M of "
          f"{', '.join(map(str, args.rows))}", flush=True)
    found = {gpus: [] for gpus in args.gpus}
    for turn in range(1, args.turns + 1):
        for gpus, turns in found.items():
            turns.append(measure(gpus, args.rows))
            print(said(turn, gpus, turns[-1]), flush=True)
    lines, well = summary(found)
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
