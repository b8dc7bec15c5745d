"""Cases one after the other into a CSV, until the time is up."""

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
    return {key: f"{value:.3f}" if isinstance(value, float) else value for key, value in row.items()}


def run(cases, measure, columns, path, minutes):
    """The rows that measure(case) gave, written as they come; `path` "-": to standard output. A case that
    raises RuntimeError is named on standard error and left out, as are those that there was no time for."""
    if path != "-":
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    end, rows = time.monotonic() + 60 * minutes, []
    with contextlib.nullcontext(sys.stdout) if path == "-" else \
            open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for number, case in enumerate(cases):
            if time.monotonic() > end:
                print(f"{len(cases) - number} of {len(cases)} cases left: out of time", file=sys.stderr)
                break
            try:
                rows.append(measure(case))
                writer.writerow(rows[-1])
            except RuntimeError as error:
                print(f"{case}: {one_line(error)}", file=sys.stderr)
            out.flush()
    return rows
