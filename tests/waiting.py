"""Waiting for what comes true by itself, never longer than a test may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """What `condition` returns as soon as that is true; fails after so many seconds. Right after a large build the
    disk is busy for as long as a minute, and who syncs waits for it.

    What starts a program to find out is asked less often, so as not to take the processor from what is waited for."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if value := condition():
            return value
        now = time.monotonic()
        assert now < deadline, "it did not come true in time"
        time.sleep(min(0.2, max(0.02, 3 * (now - began))))
