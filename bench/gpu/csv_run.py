"""Cases one after the other into a CSV, until the time is up."""

import contextlib
import csv
import sys
import time


def first_line(error):
    return next(iter(str(error).splitlines()), type(error).__name__)


def run(cases, measure, columns, path, minutes):
    """The rows that measure(case) gave, written as they come; `path` "-": to standard output. A case that
    raises RuntimeError is named on standard error and left out, as are those that there was no time for."""
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
                print(f"{case}: {first_line(error)}", file=sys.stderr)
            out.flush()
    return rows
