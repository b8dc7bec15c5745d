"""The command line: ``python -m attacca`` and the script ``attacca`` run the program that lies
beside the package.

It is a program of its own rather than a function of the library: libattacca shows the public
interface alone, and a process that times kernels for another must be able to crash.
"""
import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line with this process's arguments, in its place."""
    program = pathlib.Path(__file__).parent / "bin" / "attacca"
    try:
        os.execv(program, ["attacca", *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"attacca: {program} cannot be run: {error.strerror}; install the package again, or "
            "build it with the target attacca")


if __name__ == "__main__":
    main()
