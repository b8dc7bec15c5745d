"""What one process found and others may read: JSON files, whole or not there."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any


def keep(path: pathlib.Path, value: Any) -> None:
    """Writes the file, or leaves it where the folder cannot be written: what is kept can be found again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(value))
        partial.replace(path)
    except OSError:
        pass


def recall(path: pathlib.Path) -> Any:
    """What the file holds; None where it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
