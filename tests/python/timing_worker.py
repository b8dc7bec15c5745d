#!/usr/bin/env python3
"""A process that times kernels without building or launching them: ATTACCA_TUNE_WORKER names it.

src/tune/worker.hpp has the protocol. A candidate's time depends on its name and the sizes alone.
The file TIMING_LOG, if set, gets a line for each problem that this process is asked for: its sizes.

TIMING_SECONDS: how long an answer takes. TIMING_CRASH: a size of M whose first candidate kills this
process.
"""
import hashlib
import json
import os
import re
import signal
import sys
import time


def seconds_of(problem, candidate):
    sizes = problem["symbols"] or re.findall(r"\[[0-9, ]+\]", problem["graph"])
    digest = hashlib.sha256(json.dumps([sizes, candidate]).encode()).digest()
    return (100 + digest[0]) * 1e-6


def say(**line):
    print(json.dumps(line), flush=True)


def note(problem, noted):
    text = json.dumps(problem, sort_keys=True)
    if text not in noted and os.environ.get("TIMING_LOG"):
        noted.add(text)
        with open(os.environ["TIMING_LOG"], "a") as log:
            log.write(json.dumps(problem["symbols"]) + "\n")


def main():
    noted = set()
    for line in sys.stdin:
        request = json.loads(line)
        problem = request["problem"]
        note(problem, noted)
        time.sleep(float(os.environ.get("TIMING_SECONDS", 0)))
        for i, candidate in enumerate(request["candidates"]):
            say(begin=i)
            if i == 0 and os.environ.get("TIMING_CRASH") == str(problem["symbols"].get("M")):
                os.kill(os.getpid(), signal.SIGKILL)
            time_ = seconds_of(problem, candidate)
            say(candidate=i, seconds=time_, rounds=[time_] * max(request["rounds"], 1))
        say(done=True)


if __name__ == "__main__":
    main()
