"""What one process found and others may read: JSON files, whole or not there, of this user alone."""
from __future__ import annotations

import json
import os
import pathlib
import stat
from typing import Any


def keep(path: pathlib.Path, value: Any) -> None:
    """Writes the file, or leaves it where the folder cannot be written: what is kept can be found again."""
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
    """What the file holds; None where it cannot be read, or where another user may have written it."""
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
