"""How much memory of its own a process has, and the most that it had while something ran."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path


def private_bytes(process: int) -> int:
    """Resident memory that no file backs and no other process shares; 0 when the process has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


class Most:
    """The largest value of something while a block runs."""

    def __init__(self, value: Callable[[], int]) -> None:
        self.value, self.most, self.ends = value, 0, threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self.ends.wait(0.005):
            self.most = max(self.most, self.value())

    def __enter__(self) -> "Most":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.thread.join()
