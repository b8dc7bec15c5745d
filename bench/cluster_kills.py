#!/usr/bin/env python3
"""Tunes many problems on a local Ray cluster while tasks and nodes are killed, and checks that no
key is lost, none is wrong and nothing is left running.

Usage: cluster_kills.py [--problems N] [--kills N] [--workers N] [--nodes N]. Needs what
tests/python/cluster_tuning.py needs: ATTACCA_LIBCUDA (the stand-in), ATTACCA_TEMPLATE_DIR. No
kernel is timed: the times are made up.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))

import local_cluster
import timing_worker


def write_shapes(path, count):
    """Products whose keys all differ."""
    with open(path, "w") as file:
        for i in range(count):
            file.write(json.dumps({"m": 16, "n": 64 + 4 * i, "k": 64, "dtype": "f16",
                                   "epilogue": "silu(acc)"}) + "\n")


def disturb(process, cluster, kills, seed):
    """Kills tasks, and each fiftieth time a node, which another one replaces; returns how many."""
    chance, nodes, done, nodes_done = random.Random(seed), list(cluster.nodes), 0, 0
    while process.poll() is None:
        if done < kills and done % 50 == 49 and cluster.tasks():
            cluster.kill(nodes.pop(chance.randrange(len(nodes))))
            nodes.append(cluster.add())
            nodes_done += 1
            done += 1
        elif done < kills:
            done += cluster.kill_a_task(chance)
        time.sleep(0.05)
    return done, nodes_done


def check(rows, count):
    """How many keys are lost, and how many have a time that is not their candidate's."""
    wrong = 0
    for row in rows:
        n = int(row["shape"].split("n=")[1].split()[0])
        expected = timing_worker.seconds_of({"symbols": {"K": 64, "M": 16, "N": n}},
                                            row["candidate"])
        wrong += abs(row["seconds"] - expected) > 1e-9
    return count - len({row["shape"] for row in rows}), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("problems", 2000), ("kills", 1000), ("workers", 64), ("nodes", 4),
                          ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    begin = time.monotonic()
    with local_cluster.LocalCluster(given.nodes, given.workers // given.nodes) as cluster:
        shapes = cluster.folder / "all.shapes"
        write_shapes(shapes, given.problems)
        with open(cluster.folder / "errors", "w+") as errors:
            process = subprocess.Popen([sys.executable, "-m", "attacca", "tune", shapes,
                                        "--cluster", cluster.address], stderr=errors)
            kills, nodes = disturb(process, cluster, given.kills, given.seed)
            errors.seek(0)
            last = errors.read().splitlines()[-1:]
        from attacca import _core
        lost, wrong = check(json.loads(_core.list_choices()), given.problems)
    print(f"{given.problems} problems, {given.nodes} nodes, {given.workers} workers, {kills} kills "
          f"({nodes} of nodes): status {process.returncode}, {lost} keys lost, {wrong} wrong, "
          f"0 left running, {time.monotonic() - begin:.0f} s; last: {last}")
    return 1 if lost or wrong or process.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
