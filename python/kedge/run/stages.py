"""What ``kedge run`` does between two launches: each stage is timed for the report, and none is silent for long."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator

QUIET_SECONDS = 2.0


class Stages:
    """The stages since the last take(), by name, in seconds; repeated ones are added up. One at a time."""

    def __init__(self, say: Callable[[str], None], quiet_seconds: float = QUIET_SECONDS) -> None:
        self._say, self._quiet_seconds = say, quiet_seconds
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str, silent: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
        """Times what is done in it. `name` completes "since 4 s: ..." in the lines that say that it still goes on.

        `silent`: who has not answered by now, which these lines say, too; called on another thread.
        """
        began = time.monotonic()
        over = threading.Event()
        teller = threading.Thread(target=self._tell, args=(name, silent, began, over), daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - began

    def _tell(self, name: str, silent: Callable[[], Iterable[str]], began: float, over: threading.Event) -> None:
        while not over.wait(self._quiet_seconds):
            names = ", ".join(silent())
            self._say(f"since {time.monotonic() - began:.0f} s: {name}" + (f"; no answer yet from {names}" if names else ""))

    def take(self) -> dict[str, float]:
        """What there is, which is forgotten with it."""
        seconds, self._seconds = self._seconds, {}
        return {name: round(spent, 3) for name, spent in seconds.items()}


def show_stages(stages: dict[str, float]) -> str:
    """For people, the longest first; what took no time is left out."""
    longest = sorted(((spent, name) for name, spent in stages.items() if spent >= 0.1), reverse=True)
    return ", ".join(f"{name} {spent:.1f} s" for spent, name in longest)
