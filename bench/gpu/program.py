"""The command line program: its path, and running it."""

import os
import subprocess


def add_option(parser):
    parser.add_argument("--attacca", default=os.environ.get("ATTACCA", "build/src/cli/attacca"),
                        help="the program")


def answer(program, *words, timeout=None, env=None):
    """What it prints. Raises RuntimeError with the reason in one line if it fails or takes
    longer."""
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False,
                              timeout=timeout, env=env)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"no answer for {timeout} s") from late
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise RuntimeError(said or f"exit status {done.returncode}")
    return done.stdout


def without_choices(folder):
    """The environment for a program that keeps what it builds and tunes in the folder, from an
    empty database on, and knows no choice that is shipped."""
    return {**os.environ, "ATTACCA_CACHE_DIR": os.path.join(folder, "cache"),
            "ATTACCA_TUNED_DIR": os.path.join(folder, "none")}


def library_beside(path):
    """The program's own libattacca.so, in a build folder or installed; none where there is none."""
    folder = os.path.dirname(os.path.abspath(path))
    found = [os.path.join(folder, place, "libattacca.so") for place in ("../api", "../lib")]
    return next(filter(os.path.exists, found), None)
