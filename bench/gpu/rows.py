"""The CSV of a comparison: '# key: value' lines, a header, one row for each case, flushed row by
row."""

import csv
import os

import csv_run
from cases import Case
from csv_run import rounded

TIMES = ["bare_us", "eager_us", "inductor_us", "max_autotune_us", "cublaslt_us", "attacca_us",
         "attacca_fused_us", "attacca_unfused_us", "attacca_bare_us"]
PEERS = ["eager_us", "inductor_us", "max_autotune_us", "cublaslt_us"]
COLUMNS = ["epilogue", "m", "n", "k", "through", *TIMES, "selected", "fused_kernel", "notes"]


class Writer:
    """Appends to `path` if it exists (a run that goes on), else creates it."""

    def __init__(self, path, facts):
        self.done = {case_of(row) for row in read(path)[1]} if os.path.exists(path) else set()
        new = not os.path.exists(path) or os.path.getsize(path) == 0
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.file = open(path, "a", newline="", encoding="utf-8")
        self.csv = csv.DictWriter(self.file, COLUMNS, restval="", lineterminator="\n")
        for key, value in facts.items():
            self.file.write(f"# {key}: {value}\n")
        if new:
            self.csv.writeheader()
        self.file.flush()

    def write(self, row):
        self.csv.writerow(rounded(row))
        self.file.flush()


def case_of(row):
    return Case(row["epilogue"], row["m"], row["n"], row["k"])


def read(path):
    """(facts, rows): numbers as numbers, a missing time as None."""
    facts, rows = csv_run.read(path)
    for row in rows:
        for key in ("m", "n", "k"):
            row[key] = int(row[key])
        for key in TIMES:
            row[key] = float(row[key]) if row.get(key) else None
    return facts, rows
