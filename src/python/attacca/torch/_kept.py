"""JSON files that one process writes, atomically, and later processes of the same user read."""
from __future__ import annotations

import json
import os
import pathlib
import stat
from typing import Any


def keep(path: pathlib.Path, value: Any) -> None:
    """Writes the file; does nothing if the folder cannot be written, since the value can be
    computed again."""
    try:
        for folder in reversed(path.parents):
            folder.mkdir(mode=0o700, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.unlink(missing_ok=True)
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(json.dumps(value))
        partial.replace(path)
    except OSError:
        pass


def recall(path: pathlib.Path) -> Any:
    """The value in the file; None if it cannot be read, or if another user may have written it."""
    try:
        if not all(_is_private(os.lstat(each)) for each in (path.parent, path)):
            return None
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _is_private(info: os.stat_result) -> bool:
    """As support/files/private_folder.hpp says; a link is not."""
    return (not stat.S_ISLNK(info.st_mode) and info.st_uid in (os.geteuid(), 0)
            and info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == 0)
