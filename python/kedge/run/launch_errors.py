"""What a launcher says on standard error: passed on as it comes, while the first line that refuses the launch is kept.

The ranks' own standard error comes the same way.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading

_BYTES = 65536
_LINE_MAX = 4096
_LAST_SECONDS = 1.0  # for what the launcher has written before its end


class LaunchErrors:
    """A pipe for one launch. `write_end` goes to the launcher, `begin` follows when it runs, `refusal` when it has ended."""

    def __init__(self, refusals: re.Pattern[bytes], to: int = 2) -> None:
        """`refusals`: how a line begins that refuses a launch; its first group that matches is the reason."""
        self._refusals, self._to = refusals, to
        self._read_end, self.write_end = os.pipe()
        self._refusal = ""
        # Whoever outlives the launcher may hold the pipe for as long as it likes.
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def begin(self) -> None:
        """The launcher has its end."""
        os.close(self.write_end)
        self._thread.start()

    def refusal(self) -> str:
        """Why the launcher has started nothing, in its words; empty: it does not say so."""
        self._thread.join(_LAST_SECONDS)
        return self._refusal

    def _pass_on(self) -> None:
        line = b""
        with contextlib.suppress(OSError):
            while chunk := os.read(self._read_end, _BYTES):
                _write_all(self._to, chunk)
                *whole, line = (line + chunk).split(b"\n")
                for one in whole:
                    self._look(one)
                line = line[:_LINE_MAX]
            self._look(line)
        os.close(self._read_end)

    def _look(self, line: bytes) -> None:
        if not self._refusal and (found := self._refusals.match(line)):
            self._refusal = next(filter(None, found.groups())).decode(errors="replace").strip()


def _write_all(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data):]
