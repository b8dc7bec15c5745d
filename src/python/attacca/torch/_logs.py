"""Messages while compiling, which ``TORCH_LOGS="+attacca"`` and ``torch._logging.set_logs`` switch
on."""
from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

log = logging.getLogger("attacca.torch")


def register() -> None:
    """Makes the logger known to torch's settings by the name "attacca".

    ``TORCH_LOGS`` finds it without, as the name of a package;
    ``torch._logging.set_logs(attacca=...)`` does not.
    """
    with contextlib.suppress(Exception):  # not public: without it messages are those of any logger
        from torch._logging import _internal

        if not _internal.log_registry.is_log("attacca"):
            _internal.register_log("attacca", "attacca")


def decided(fused: Iterable[tuple[str, str]], left: Iterable[tuple[str, str]], what: str) -> None:
    """Logs a graph: ``what`` for the whole, each region and product with its reason at the level
    DEBUG."""
    log.info("%s", what)
    for word, each in (("fused", fused), ("left", left)):
        for name, reason in each:
            log.debug("%s %s: %s", word, name, reason)
