"""The command line: ``python -m attacca`` and the script ``attacca`` run ``bin/attacca``, a program
in the package's folder; ``attacca tune ... --cluster`` is Python's.

It is a separate program rather than a function of the library, because libattacca exports the
public interface alone, and because a process that times kernels for another one may crash.
"""
import os
import pathlib
import sys
from typing import NoReturn

from . import _tune_command


def main() -> NoReturn:
    """Replaces this process by the command line, with the same arguments."""
    if _tune_command.is_asked_for(sys.argv[1:]):
        sys.exit(_tune_command.run(sys.argv[1:]))
    program = pathlib.Path(__file__).parent / "bin" / "attacca"
    try:
        os.execv(program, ["attacca", *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"attacca: {program} cannot be run: {error.strerror}; install the package again, or "
            "build it with the target attacca")


if __name__ == "__main__":
    main()
