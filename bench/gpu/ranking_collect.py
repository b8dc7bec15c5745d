"""Measuring candidates of many problems: kernels are built by all cores ahead of the timing."""

import collections
import json
import os
import queue
import random
import re
import select
import subprocess
import sys
import threading
import time
from datetime import date

import machine
from ranking_problems import COLUMNS, Names, problems, write_proposals, write_stamp

ROUNDS = 5
CLOSE = 2.0      # times the best expected time
MOST_CLOSE = 22  # templates that are timed for their expected times
AT_RANDOM = 4    # and of the others
MOST_PLACES = 3  # of the vendor library's proposals with a part of the tail, for each workspace
AHEAD = 30       # problems whose kernels are built before their turn
TIMING_CORES = 2
SILENCE = 60     # seconds


def timed(proposals):
    """The unfused path's candidates to time: all with the product alone, the first ones of each
    workspace with a part of the tail."""
    return [name for name, values in proposals.items()
            if "absorbed" not in name or not values or
            any(0 <= place < MOST_PLACES for place in values[-2:])]


class Child:
    """A process that answers JSON lines with JSON lines, started again where it died."""

    def __init__(self, words, prepare=None):
        self.words, self.prepare, self.process = words, prepare, None

    def start(self):
        self.stop()
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=self.prepare)
        self.unread = b""

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None

    def send(self, request):
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def line(self):
        """Raises RuntimeError where it died or keeps silent."""
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
            more = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                self.stop()
                raise RuntimeError("no answer")
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)


class Worker(Child):
    """`attacca tune-worker`."""

    def __init__(self, attacca, prepare=None):
        super().__init__([attacca, "tune-worker"], prepare)

    def serve(self, problem, candidates, rounds):
        """(microseconds of those that ran, why the others failed)."""
        self.send(problem.request(candidates, rounds))
        times, failed = {}, {}
        while True:
            said = self.line()
            if "seconds" in said:
                times[candidates[said["candidate"]]] = said["seconds"] * 1e6
            if "failed" in said:
                failed[candidates[said["candidate"]]] = said["failed"]
            if "error" in said:
                raise RuntimeError(said["error"])
            if "done" in said:
                return times, failed

    def rounds(self, request):
        """The seconds of each round of the candidates that ran."""
        self.send(request)
        seconds = {}
        while "done" not in (said := self.line()):
            if "error" in said:
                raise RuntimeError(said["error"])
            if "rounds" in said:
                seconds[request["candidates"][said["candidate"]]] = said["rounds"]
        return seconds


class Answers(Child):
    """A process that says something about itself, then answers each problem with a line."""

    def __init__(self, attacca, *subject):
        super().__init__([attacca, "bench", *subject])
        self.start()

    def start(self):
        super().start()
        self.meet(self.line())

    def meet(self, said):
        pass

    def describe(self, problem, **more):
        self.send(problem.request() | more)
        said = self.line()
        if "failed" in said:
            raise RuntimeError(said["failed"])
        return said


class Describer(Answers):
    """`attacca bench features` of a device, by the name that its driver gives."""

    def __init__(self, attacca, device):
        self.device = device
        super().__init__(attacca, "features", "--as", id_of(device))

    def meet(self, said):
        self.names, self.unfused_names = said["names"], said["unfused_names"]
        self.proposal_names = said["proposal_names"]
        self.templates = said["templates"]


def id_of(device):
    """The device's name in src/gpu/devices.def: "h100" of "NVIDIA H100 80GB HBM3"."""
    return re.split(r"[\s-]", device)[1].lower()


def chosen(expected, source):
    """Templates to time, of those with expected times."""
    ranked = sorted(expected, key=expected.get)
    close = [name for name in ranked[:MOST_CLOSE] if expected[name] <= CLOSE * expected[ranked[0]]]
    others = [name for name in ranked if name not in close]
    return close + source.sample(others, min(AT_RANDOM, len(others)))


def few_cores():
    """Of a process that builds beside one that times."""
    os.nice(15)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-TIMING_CORES] or cores)


class Ahead(threading.Thread):
    """Builds the kernels of problems before their turn."""

    def __init__(self, options):
        super().__init__(daemon=True)
        self.options = options
        self.ready = queue.Queue(AHEAD)
        self.built = set()

    def run(self):
        describer = Describer(self.options.attacca, machine.device_name())
        proposer = Answers(self.options.attacca, "proposals")
        builder = Worker(self.options.attacca, few_cores)
        source = random.Random(self.options.seed + 1)
        for problem in problems(self.options.seed):
            try:
                described = describer.describe(problem)
                candidates = chosen(described["expected"], source)
                proposals = proposer.describe(problem)["proposals"]
                key = (problem.family, problem.tail, problem.n % 8 == 0, problem.k % 8 == 0)
                new = [name for name in candidates if (key, name) not in self.built]
                if new:
                    builder.serve(problem, new, 0)
                self.built.update((key, name) for name in new)
            except (RuntimeError, OSError) as error:
                print(f"{problem}: {error}", file=sys.stderr)
                continue
            waves = {name: features[describer.names.index("log_waves")]
                     for name, features in described["features"].items()}
            self.ready.put((problem, proposals, candidates,
                            {name for name in waves if waves[name] > 0 and "dot_" not in name}))


def variants(worker, problem, best, times):
    """Times of the best template's orders of tiles, on the scale of the others."""
    names = [f"{best} swizzle={swizzle} raster={raster}"
             for raster in (1, 2) for swizzle in (1, 2, 4, 8)]
    again, _ = worker.serve(problem, [best, *names], ROUNDS)
    return {name: again[name] * times[best] / again[best] for name in names if name in again}


def measure(worker, problem, unfused, candidates, ordered, failures):
    """`ordered`: candidates whose tiles have an order; `failures`: counts by reason."""
    times, failed = worker.serve(problem, unfused + candidates, ROUNDS)
    failures.update(f"{name}: {why}"[:200] for name, why in failed.items())
    best = min((name for name in times if name in candidates), key=times.get, default=None)
    if best in ordered:
        times |= variants(worker, problem, best, times)
    bare = problem.bare()
    if bare:
        alone, _ = worker.serve(bare, ["unfused", "unfused algorithm=1"], ROUNDS)
        times |= {name.replace("unfused", "bare"): us for name, us in alone.items()}
    return times


def collect(options):
    deadline = time.monotonic() + options.minutes * 60
    ahead = Ahead(options)
    ahead.start()
    worker = Worker(options.attacca)
    names, done, waited, failures = Names(), 0, 0.0, collections.Counter()
    with open(options.csv[0], "w", encoding="utf-8") as file:
        describer = Describer(options.attacca, machine.device_name())
        print(write_stamp(describer.device, date.today(), describer.templates), file=file)
        describer.stop()
        print(*COLUMNS, sep=",", file=file)
        while time.monotonic() < deadline:
            begin = time.monotonic()
            problem, proposals, candidates, ordered = ahead.ready.get()
            waited += time.monotonic() - begin
            try:
                times = measure(worker, problem, timed(proposals), candidates, ordered, failures)
            except (RuntimeError, OSError) as error:
                print(f"{problem}: {error}", file=sys.stderr)
                continue
            known = {name: values for name, values in proposals.items() if name in times}
            print(*problem, names.encode(times), write_proposals(known), sep=",", file=file,
                  flush=True)
            done += 1
            if done % 25 == 0:
                print(f"{done} problems, {len(ahead.built)} kernels; waited {waited:.0f} s for "
                      f"kernels; {deadline - time.monotonic():.0f} s left", file=sys.stderr)
    worker.stop()
    for why, count in failures.most_common(20):
        print(f"{count} times {why}", file=sys.stderr)
    print(f"{done} problems; waited {waited:.0f} s for kernels", file=sys.stderr)
