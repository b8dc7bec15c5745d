#!/usr/bin/env python3
"""How tuning grows with the number of problems and of GPUs: docs/benchmarks/tuning-growth.md.

Usage: tuning_growth.py database|scheduler|page [--minutes N]. The first two measure for at most so
long and write their rows of docs/benchmarks/tuning-growth.csv, the last writes the page. Needs what
tests/python/cluster_tuning.py needs: ATTACCA_LIBCUDA (the stand-in), ATTACCA_TEMPLATE_DIR.

database: made-up choices enter a tuning database and leave it, by Attacca's own code.
scheduler: attacca.tune's driver and Ray, on this machine. A task sleeps for a part of a measured
tuning time and returns what a tuning returns; a worker stands for a GPU.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench/gpu"), str(ROOT / "tests/python")]

import csv_run
import processor

DATA = ROOT / "docs/benchmarks/tuning-growth.csv"
COLUMNS = ["part", "run", "count", "name", "value"]
CHOICES = ROOT / "src/tune/shipped/nvidia_h200.choices"
QUICK = ROOT / "docs/benchmarks/first-call.csv"
PAUSE = 3600  # a longer gap between two choices is not a tuning
TWO_GPUS = 1796000000  # later choices were made by two GPUs at the same time
BATCH = 1000  # choices stored at once
SIZES = (10**3, 10**4, 10**5, 10**6)
WORKERS = 32
GPUS = 1000
GRAPH = "graph g(x: bf16[M, {k}], w: bf16[{n}, {k}]) {{\n  return silu(x @ transpose(w))\n}}"


def shipped():
    """The choices that come with Attacca, as rows of a database."""
    return [json.loads(line) for line in CHOICES.read_text().splitlines()[1:]]


def thorough_times():
    """Seconds of thorough tunings on an H200: what passed between two choices that it made."""
    made = sorted(row["made"] for row in shipped() if row["made"] < TWO_GPUS)
    gaps = [after - before for before, after in zip(made, made[1:])]
    return [gap for gap in gaps if gap < PAUSE]


def quick_times():
    """Seconds of quick tunings on a GPU."""
    return [float(row["tuned_seconds"]) for row in csv_run.read(QUICK)[1]]


def mean(values):
    return sum(values) / len(values)


# ---- The database


def made_up_rows(tools, first, count):
    """Choices whose keys all differ: problems and candidates as they were measured, other sizes."""
    models = shipped()
    for i in range(first, first + count):
        model = models[i % len(models)]
        yield {"device": "Fake 0", "tools": tools, "problem": model["problem"],
               "shape": f"m<=16 n={64 + i} batch=1 k=4096", "candidate": "unfused",
               "seconds": model["seconds"], "unfused_seconds": model["unfused_seconds"],
               "made": model["made"], "quick": False}


def timed(function):
    begin = time.perf_counter()
    found = function()
    return time.perf_counter() - begin, found


def reading(what):
    """Seconds and peak megabytes of a process that reads the database."""
    run = subprocess.run([sys.executable, __file__, "read", "--what", what], check=True,
                         capture_output=True, text=True)
    return json.loads(run.stdout)


def read(what):
    """In a process of its own: what `reading` returns."""
    from attacca import _core
    from attacca._problems import machine, problems_of, rows_of
    here = machine("cuda")
    if what == "list":
        seconds, _ = timed(lambda: rows_of(here))
    elif what == "export":
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.choices")
            seconds, _ = timed(lambda: _core.write_choices(here.device, here.tools, path))
            size = os.path.getsize(path)
        return {"seconds": seconds, "bytes": size, "megabytes": peak()}
    else:
        graph = _core.Graph.parse(GRAPH.format(n=64, k=64))
        text = problems_of(graph, "cuda", "fp32", {"M": 16})[0].text
        times = [timed(lambda: _core.tune_problem(text, "cuda", "known", 0))[0]
                 for _ in range(200)]
        seconds = sorted(times)[len(times) // 2]
    return {"seconds": seconds, "megabytes": peak()}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def database(minutes):
    end, found = time.monotonic() + 60 * minutes, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ATTACCA_CACHE_DIR"], os.environ["ATTACCA_LIBCUBLASLT"] = folder, "/nowhere/x"
        from attacca._problems import machine, store
        tools, stored, inserting = machine("cuda").tools, 0, 0.0
        for size in SIZES:
            while stored < size:
                rows = list(made_up_rows(tools, stored, BATCH))
                seconds, _ = timed(lambda rows=rows: store(rows))
                stored, inserting = stored + BATCH, inserting + seconds
            values = {"insert_seconds": inserting, "last_batch_seconds": seconds,
                      "bytes": sum(path.stat().st_size
                                   for path in pathlib.Path(folder).glob("tuned.sqlite*"))}
            for what in ("find", "list", "export"):
                values.update({f"{what}_{name}": value for name, value in reading(what).items()})
            found += [{"part": "database", "run": size, "count": size, "name": name,
                       "value": f"{value:.6g}"} for name, value in values.items()]
            print(size, values, flush=True)
            if time.monotonic() > end:
                break
    return found


# ---- The scheduler


def drawn(count, times):
    """As many of the times, at random."""
    chance = random.Random(count)
    return [chance.choice(times) for _ in range(count)]


def simulate(problem, _tuning, _seconds):
    """In place of task.tune: sleeps as long as the problem's text says."""
    import socket

    from attacca._cluster.task import Finished
    from attacca._problems import Machine
    begin = time.monotonic()
    told = json.loads(problem.text)
    time.sleep(told["sleep"])
    row = {"device": "Simulated", "tools": "attacca 0", "problem": problem.key.problem,
           "shape": problem.key.shape, "candidate": "unfused", "seconds": 2e-5,
           "unfused_seconds": 2e-5, "made": 1, "quick": False}
    trials = [{"candidate": f"wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16 swizzle={i}",
               "final": i < 8, "seconds": (20 + i) * 1e-6} for i in range(60)]
    found = {"candidate": "unfused", "source": "measured", "seconds": 2e-5,
             "unfused_seconds": 2e-5, "modelled": trials[1]["candidate"], "trials": trials,
             "choice": row}
    return Finished(problem.key, socket.gethostname(), time.monotonic() - begin, found, "",
                    Machine("Simulated", 90, "attacca 0"))


def simulated_problems(sleeps):
    from attacca._problems import Key, Problem
    text = GRAPH.format(n=64, k=4096)
    class_ = shipped()[0]["problem"]
    keys = [Key(class_, f"m<=16 n={64 + i} batch=1 k=4096") for i in range(len(sleeps))]
    return {key: Problem(key, 1.0, json.dumps({"graph": text, "symbols": {"M": 16},
                                               "sleep": seconds}))
            for key, seconds in zip(keys, sleeps)}


def resident():
    """Megabytes of this process now."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def one_run(connection, name, sleeps):
    """Rows of a run of the driver."""
    from attacca._cluster import driver
    from attacca._problems import Machine
    problems = simulated_problems(sleeps)
    before, cpu = resident(), time.process_time()
    seconds, outcome = timed(lambda: driver.tune(
        connection, Machine("Simulated", 90, "attacca 0"), problems, None))
    assert len(outcome.rows) == len(problems) and not outcome.failures
    values = {"seconds": seconds, "ideal_seconds": max(sum(sleeps) / WORKERS, max(sleeps)),
              "driver_seconds": time.process_time() - cpu, "driver_megabytes": resident(),
              "driver_megabytes_more": resident() - before}
    print(name, len(sleeps), values, flush=True)
    return [{"part": "scheduler", "run": name, "count": len(sleeps), "name": key,
             "value": f"{value:.4g}"}
            for key, value in values.items()]


def runs_of(connection, minutes):
    """The rows of all runs that there is time for, after one that starts the workers."""
    end = time.monotonic() + 60 * minutes
    times = thorough_times()
    rate = GPUS / mean(times)  # tasks a second of so many GPUs
    one_run(connection, "start", [2.0] * (3 * WORKERS))
    found, speed = [], 0.0
    for name, count, per_second in (("none", 10**3, 0), ("none", 10**4, 0),
                                    ("tenth", 1000, rate / 10), ("all", 10**4, rate),
                                    ("none", 10**5, 0)):
        if speed:
            most = (end - time.monotonic()) * 0.9 * min(speed, per_second or speed)
            count = min(count, int(most) // 1000 * 1000)
        if count < 1000:
            print(f"{name}: no time is left for it", file=sys.stderr)
            continue
        scale = WORKERS / per_second / mean(times) if per_second else 0
        rows = one_run(connection, name, [
            scale * seconds for seconds in drawn(count, times)])
        found += rows
        if not per_second:
            speed = count / float(rows[0]["value"])
    return found


def scheduler(minutes):
    import local_cluster
    with local_cluster.LocalCluster(1, WORKERS) as cluster:
        from attacca._cluster import driver, task
        task.tune = simulate
        import ray
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        try:
            connection = driver.Cluster(driver.Request(cluster.address, None, True, 0))
            return runs_of(connection, minutes)
        finally:
            ray.shutdown()


# ---- The page


def facts():
    import ray
    return {"machine": f"{processor.name()}, {os.cpu_count()} cores, shared with other work",
            "versions": f"Python {platform.python_version()}, Ray {ray.__version__}",
            "date": time.strftime("%Y-%m-%d")}


def store_rows(part, rows):
    """Replaces a part of the data."""
    kept = [row for row in csv_run.read(DATA)[1] if row["part"] != part] if DATA.exists() else []
    csv_run.write(DATA, COLUMNS, facts(), kept + rows)


def values_of(rows, part):
    """By run and count: the values by name."""
    found = {}
    for row in rows:
        if row["part"] == part:
            found.setdefault((row["run"], int(row["count"])), {})[row["name"]] = float(row["value"])
    return found


def spelled(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def limits_of(count, gpus, times, per_second):
    """What a tuning takes at least, in seconds, by what limits it."""
    return {"the GPUs": count * mean(times) / gpus, "the longest": max(times),
            "the driver": count / per_second}


def database_lines(found):
    import pages
    return pages.table(
        ["choices", "megabytes", "store all, s", "store the last 1,000, ms", "find one, ms",
         "read all into Python, s", "its peak, MB", "export, s", "exported, MB", "its peak, MB"],
        [[f"{count:,}", pages.number(v["bytes"] / 1e6, 1), pages.number(v["insert_seconds"], 2),
          pages.number(1e3 * v["last_batch_seconds"], 0), pages.number(1e3 * v["find_seconds"], 2),
          pages.number(v["list_seconds"], 2), pages.number(v["list_megabytes"], 0),
          pages.number(v["export_seconds"], 2), pages.number(v["export_bytes"] / 1e6, 1),
          pages.number(v["export_megabytes"], 0)]
         for (_, count), v in sorted(found.items(), key=lambda item: item[0][1])], texts=0)


def scheduler_lines(found):
    import pages
    names = {"none": "nothing: tasks return at once", "tenth": f"as on {GPUS // 10} GPUs",
             "all": f"as on {GPUS:,} GPUs"}
    return pages.table(
        ["tasks sleep", "tasks", "s", "ideal, s", "s / ideal", "tasks a second",
         "driver's processor time, ms a task", "driver, MB"],
        [[names[run], f"{count:,}", pages.number(v["seconds"], 1),
          pages.number(v["ideal_seconds"] or None, 1),
          pages.number(v["seconds"] / v["ideal_seconds"], 3) if v["ideal_seconds"] else "-",
          pages.number(count / v["seconds"], 0), pages.number(1e3 * v["driver_seconds"] / count, 2),
          pages.number(v["driver_megabytes"], 0)]
         for (run, count), v in found.items()])


def growth_lines(rate):
    import pages
    lines = []
    for name, times in (("thorough", thorough_times()), ("quick", quick_times())):
        for count in SIZES:
            limits = [limits_of(count, gpus, times, rate) for gpus in (1, 8, 64, GPUS)]
            lines.append([f"{name}, {mean(times):.1f} s", f"{count:,}",
                          *(spelled(max(each.values())) for each in limits),
                          max(limits[-1], key=limits[-1].get)])
    return pages.table(["tuning, mean", "problems", "1 GPU", "8 GPUs", "64 GPUs", f"{GPUS:,} GPUs",
                        f"limit at {GPUS:,}"], lines)


def page(data=DATA):
    """Writes the page beside its data."""
    import pages
    known, rows = csv_run.read(data)
    base, runs = values_of(rows, "database"), values_of(rows, "scheduler")
    (_, most), free = max(((key, v) for key, v in runs.items() if key[0] == "none"),
                          key=lambda item: item[0][1])
    rate = most / free["seconds"]
    thorough, quick = thorough_times(), quick_times()
    last = base[max(base, key=lambda key: key[1])]
    largest = max(count for _, count in base)
    text = ["# How tuning grows", "", pages.paragraph(
        f"Made by `bench/tuning_growth.py`. {known['machine']}; {known['versions']}; "
        f"{known['date']}. No GPU was used. The tables of the database and of the scheduler are "
        "measured; the table of whole tunings is computed from them and from tuning times of "
        "GPUs."), "",
        *growth_lines(rate), "", pages.paragraph(
        f"One kind of GPU is tuned once for all its GPUs; each further kind takes the same again. "
        f"A *thorough* tuning takes {mean(thorough):.1f} s on average, {max(thorough)} s at most: "
        f"{len(thorough)} gaps between two choices that one H200 made for "
        "`src/tune/shipped/nvidia_h200.choices`, in whole seconds, kernels' compilation included. "
        f"A *quick* one takes {mean(quick):.2f} s: `tuned_seconds` of {len(quick)} cases on "
        f"one {csv_run.read(QUICK)[0]['device']} in [first-call.csv](first-call.csv), those that "
        "the cost model decided without timing included. The wall time is the largest of three: "
        "the sum of all times, divided by the "
        f"GPUs; the longest time; the driver's, which handed out {rate:.0f} tasks a second on this "
        "machine (below). What it takes to start a cluster is not in it. Where the driver is the "
        "limit, several drivers can tune parts of the problems: their choices are then exported "
        "and imported."), "",
        "## The database", "", pages.paragraph(
        "Made-up choices, with the problems of the shipped ones and other sizes, are stored 1,000 "
        "at a time, as a driver does that gets so many at once. *find one* is a whole decision of "
        "a problem that the database lacks, the search in it included."), "",
        *database_lines(base), "",
        "## The scheduler", "", pages.paragraph(
        f"`attacca.tune`'s driver gives tasks to Ray, all on this machine: {WORKERS} workers with "
        "one logical GPU each share its cores with the driver and with Ray's own processes. A task "
        "sleeps for a part of a thorough tuning's time, drawn at random, and returns 60 trials and "
        "a choice, which the driver stores. So that the driver has as much to do as with "
        f"{GPUS:,} GPUs, times are divided by {GPUS} / {WORKERS}: the tasks of a second are "
        "then as many. *ideal*: the sum of all times, divided by the workers."), "",
        *scheduler_lines(runs), "",
        "## Losses and limits", "", *(f"- {line}" for line in limits(runs, rate, last, largest))]
    pages.write(data.with_suffix(".md"), "\n".join(text))


def limits(runs, rate, last, largest):
    """What the tables say against us."""
    (_, count), free = max(((key, v) for key, v in runs.items() if key[0] == "none"),
                           key=lambda item: item[0][1])
    lines = [f"1,000 workers did not run here: {WORKERS} did, at the rate of tasks of 1,000. What "
             "1,000 nodes' heartbeats and connections cost the head of the cluster is not in it, "
             "nor is the network."]
    slower = [f"{tasks:,} tasks, {tasks / WORKERS:.0f} a worker, took "
              f"{v['seconds'] / v['ideal_seconds'] - 1:.0%} longer than ideal at the rate of "
              f"{GPUS if run == 'all' else GPUS // 10:,} GPUs"
              for (run, tasks), v in runs.items() if run != "none"]
    if slower:
        lines.append(f"{'; '.join(slower)}: workers, driver and Ray share the cores, and the last "
                     "tasks leave workers idle. The fewer problems a GPU has, the more the end "
                     "counts. The first table leaves both out.")
    needed = GPUS / mean(quick_times())
    if needed > rate:
        lines.append(f"Quick tunings on {GPUS:,} GPUs would need {needed:.0f} tasks a second; one "
                     f"driver on this machine handed out {rate:.0f}.")
    lines.append(f"{count:,} tasks were run, not a million. The driver keeps what it reports of "
                 "each problem until the end, "
                 f"{1024 * free['driver_megabytes_more'] / count:.1f} KB each: "
                 f"{free['driver_megabytes_more'] / count * 1e6 / 1024:.1f} GB for a million.")
    lines.append(f"With {largest:,} choices a driver's start reads the whole database: "
                 f"{last['list_seconds']:.0f} s and {last['list_megabytes'] / 1024:.1f} GB of "
                 "memory, whatever part of it the models need.")
    lines.append("A problem's class is stored as text with each choice, "
                 f"{last['bytes'] / largest:.0f} bytes a choice in all.")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["database", "scheduler", "page", "read"])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--what", help="for the process that `database` starts")
    given = parser.parse_args()
    if given.part == "read":
        print(json.dumps(read(given.what)))
    elif given.part == "page":
        page()
    else:
        measure = {"database": database, "scheduler": scheduler}[given.part]
        store_rows(given.part, measure(given.minutes))


if __name__ == "__main__":
    main()
