"""What the ranks of a launch have left on their nodes for ``kedge run``: why Kedge has refused, and which jobs they have opened.

The files are the library's (src/os/process/launch_note.h). They are read, and removed, by the question that each node is asked
after a launch anyway. A refusal is one where Kedge would refuse the next launch as well. An application may live with it: it counts
when the launch has failed soon after.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from typing import NamedTuple

_SOON_SECONDS = 10.0
_KEY = "refused_seconds_ago"
_OPENED = "opened"
# Before the command: a line of JSON for each note. Of the virtual nodes of one machine one has them.
_READ = (
    'notes=/dev/shm/kedge-$(id -u); mine=$notes/refusal-$0.$$; if mv "$notes/refusal-$0" "$mine" 2>/dev/null; then '
    'printf \'{"' + _KEY + '": %s, "note": %s}\\n\' $(($(date +%s) - $(stat -c %Y "$mine"))) "$(cat "$mine")"; rm -f "$mine"; fi; '
    'mine=$notes/jobs-$0.$$; if mv "$notes/jobs-$0" "$mine" 2>/dev/null; then cat "$mine"; rm -f "$mine"; fi; exec "$@"'
)
_PEEK = 'cat "/dev/shm/kedge-$(id -u)/jobs-$0" 2>/dev/null'


class LaunchMark(NamedTuple):
    """What tells the notes of one launch from all others."""

    token: str

    def asking(self, command: list[str]) -> list[str]:
        """The same command, whose output begins with the node's notes."""
        return ["sh", "-c", _READ, self.token, *command]

    def peeking(self) -> list[str]:
        """Prints which jobs the ranks of a node have opened so far; the note stays."""
        return ["sh", "-c", _PEEK, self.token]


class Opened(NamedTuple):
    """A job that ranks have opened."""

    job: str
    attempt: int


def begin_launch(ranks: int) -> LaunchMark:
    """For the ranks that are launched next: their environment has it from here."""
    mark = LaunchMark(secrets.token_hex(16))
    os.environ |= {"KEDGE_RUN_LAUNCH": mark.token, "KEDGE_RUN_RANKS": str(ranks)}
    return mark


def why_refused(outputs: Iterable[str], seconds_since_end: float) -> str:
    """What the nodes' notes say, of the output of `asking`; empty: nothing, or nothing that has ended the launch."""
    for line in _lines(outputs, _KEY):
        told = json.loads(line)
        if told[_KEY] - seconds_since_end <= _SOON_SECONDS:
            return str(told["note"]["why"])
    return ""


def jobs_opened(outputs: Iterable[str]) -> list[Opened]:
    """Of the output of `asking` or `peeking`, each once, the first that was opened first."""
    told = map(json.loads, _lines(outputs, _OPENED))
    return list(dict.fromkeys(Opened(str(entry[_OPENED]), int(entry["attempt"])) for entry in told))


def _lines(outputs: Iterable[str], key: str) -> Iterable[str]:
    return (line for output in outputs for line in output.splitlines() if line.startswith('{"' + key) and line.endswith("}"))
