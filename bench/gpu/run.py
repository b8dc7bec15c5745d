#!/usr/bin/env python3
"""Measures pages of docs/benchmarks on this machine's GPU and writes them again. Without --pages:
those of a short run, within ten minutes; the command of every other page is printed.

    bench/gpu/run.py --attacca build/src/cli/attacca
    bench/gpu/run.py --attacca build/src/cli/attacca --pages gpu-gates gpu-mixed --scale 2
    bench/gpu/run.py --attacca build/src/cli/attacca --references
"""

import argparse
import os
import subprocess
import sys

import documented
import program

HERE = os.path.dirname(os.path.abspath(__file__))


def step(text, values):
    """Whether it succeeded. The reason of a failure is printed, and the other steps run."""
    script, *arguments = (word.format(**values) for word in text.split())
    if subprocess.run([sys.executable, os.path.join(HERE, script), *arguments],
                      check=False).returncode == 0:
        return True
    print(f"failed: {text}", file=sys.stderr)
    return False


def measure(page, options):
    data = os.path.join(options.out, page.name)
    path, _, how = page.needs.partition(":")
    if path and not os.path.exists(path):
        print(f"{page.name}: not measured: no {path};{how}", file=sys.stderr)
        return True
    # peers.py goes on with a CSV that exists, whose rows may be of other kernels.
    if not options.go_on and os.path.exists(data + ".csv"):
        os.remove(data + ".csv")
    values = {"attacca": options.attacca, "library": options.library, "data": data,
              "minutes": page.minutes * options.scale}
    return all([step(text, values) for text in page.steps])


def main(arguments=None):
    names = [page.name for page in documented.PAGES if page.steps]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    program.add_option(parser)
    parser.add_argument("--library", help="libattacca.so; by default the program's own")
    parser.add_argument("--pages", nargs="*", choices=names, default=[], metavar="PAGE",
                        help=", ".join(names))
    parser.add_argument("--references", action="store_true",
                        help="the pages with the reference systems' benchmarks: "
                        + ", ".join(documented.REFERENCES))
    parser.add_argument("--scale", type=float, default=1,
                        help="multiplies the minutes of each page")
    parser.add_argument("--go-on", action="store_true",
                        help="keep the cases that a CSV has already")
    parser.add_argument("--out", default=documented.FOLDER)
    options = parser.parse_args(arguments)
    options.library = options.library or program.library_beside(options.attacca) or "libattacca.so"
    os.makedirs(options.out, exist_ok=True)
    asked = {*options.pages, *(documented.REFERENCES if options.references else ())}
    chosen = [page for page in documented.PAGES
              if (page.name in asked if asked else page.usual)]
    done = [measure(page, options) for page in chosen]
    for page in documented.PAGES:
        if page not in chosen:
            print(f"{page.name}.md: not measured; {documented.command(page)}")
    if os.path.abspath(options.out) == os.path.abspath(os.path.join(documented.ROOT,
                                                                    documented.FOLDER)):
        documented.main()
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
