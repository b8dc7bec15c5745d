"""A file that a tool here writes and the tests compare."""
import pathlib
import sys


def keep_current(path: pathlib.Path, text: str) -> int:
    """Writes `text`; with --check among the arguments, compares instead. The exit status."""
    if "--check" not in sys.argv:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        return 0
    print(f"{path} is not current: run tools/{pathlib.Path(sys.argv[0]).name}")
    return 1
