"""A file that a tool here writes and the tests compare."""
import pathlib
import re
import sys
import textwrap

COLUMNS = 100


def keep_current(path: pathlib.Path, text: str) -> int:
    """Writes `text`; with --check among the arguments, compares instead. The exit status."""
    if "--check" not in sys.argv:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        return 0
    print(f"{path} is not current: run tools/{pathlib.Path(sys.argv[0]).name}")
    return 1


def wrapped(signature: str) -> str:
    """In lines of at most 100 columns, broken after commas that are not in the innermost brackets,
    and aligned after the first parenthesis."""
    body = signature.lstrip()
    kept = re.sub(r"(?<!,) | (?=[^][]*\])", "\0", body)
    return textwrap.fill(kept, COLUMNS, initial_indent=" " * (len(signature) - len(body)),
                         subsequent_indent=" " * (signature.find("(") + 1),
                         break_on_hyphens=False).replace("\0", " ")
