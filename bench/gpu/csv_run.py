"""Cases one after the other into a CSV, until the time is up. '# key: value' lines at the top say
where and when; the pages are made from these CSVs alone."""

import contextlib
import csv
import os
import sys
import time


def one_line(error):
    """Its text without line breaks, at most 200 characters of it."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


def rounded(row):
    """Its floats with three digits."""
    return {key: f"{value:.3f}" if isinstance(value, float) else value
            for key, value in row.items()}


def begin(file, columns, facts):
    """Writes the facts and the header; returns the writer of the rows, which are dicts."""
    for key, value in facts.items():
        file.write(f"# {key}: {value}\n")
    writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    return writer


def write(path, columns, facts, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        begin(file, columns, facts).writerows(rows)


def run(cases, measure, columns, path, minutes, facts=None, failed=None):
    """The rows that measure(case) returned, each written at once; `path` "-": to standard output. A
    case that raises RuntimeError is named on standard error, and failed(case, reason), if given, is
    written as its row. Cases for which no time was left are named and left out."""
    if path != "-":
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    end, rows = time.monotonic() + 60 * minutes, []
    with contextlib.nullcontext(sys.stdout) if path == "-" else \
            open(path, "w", newline="", encoding="utf-8") as out:
        writer = begin(out, columns, facts or {})
        for number, case in enumerate(cases):
            if time.monotonic() > end:
                print(f"{len(cases) - number} of {len(cases)} cases left: out of time",
                      file=sys.stderr)
                break
            try:
                rows.append(measure(case))
                writer.writerow(rows[-1])
            except RuntimeError as error:
                print(f"{case}: {one_line(error)}", file=sys.stderr)
                if failed:
                    writer.writerow(failed(case, one_line(error)))
            out.flush()
    return rows


def read(*paths):
    """(facts, rows as texts) of all files. A fact that differs between files has all values,
    joined."""
    facts, rows = {}, []
    for path in paths:
        lines = []
        with open(path, newline="", encoding="utf-8") as file:
            for line in file:
                if line.startswith("# "):
                    key, _, value = line[2:].strip().partition(": ")
                    known = facts.setdefault(key, [])
                    if value not in known:
                        known.append(value)
                else:
                    lines.append(line)
        rows += csv.DictReader(lines)
    return {key: "; ".join(values) for key, values in facts.items()}, rows
