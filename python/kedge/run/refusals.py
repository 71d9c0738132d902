"""Why Kedge has refused a launch, where it would refuse the next one as well: a rank has left the reason on its node.

The file is the library's (src/os/process/launch_note.h). It is read, and removed, by the question that each node is asked after a
launch anyway. An application may live with a refusal: it counts when the launch has failed soon after.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from typing import NamedTuple

_SOON_SECONDS = 10.0
_KEY = "refused_seconds_ago"
# Before the command: a line of JSON, where there is a note. Of the virtual nodes of one machine one has it.
_READ = (
    'note=/dev/shm/kedge-$(id -u)/refusal-$0; mine=$note.$$; if mv "$note" "$mine" 2>/dev/null; then '
    'printf \'{"' + _KEY + '": %s, "note": %s}\\n\' $(($(date +%s) - $(stat -c %Y "$mine"))) "$(cat "$mine")"; rm -f "$mine"; fi; '
    'exec "$@"'
)


class Launch(NamedTuple):
    """What tells the notes of one launch from all others."""

    token: str

    def asking(self, command: list[str]) -> list[str]:
        """The same command, whose output begins with the node's note."""
        return ["sh", "-c", _READ, self.token, *command]


def begin_launch(ranks: int) -> Launch:
    """For the ranks that are launched next: their environment has it from here."""
    launch = Launch(secrets.token_hex(16))
    os.environ |= {"KEDGE_RUN_LAUNCH": launch.token, "KEDGE_RUN_RANKS": str(ranks)}
    return launch


def why_refused(outputs: Iterable[str], seconds_since_end: float) -> str:
    """What the nodes' notes say, of the output of `asking`; empty: nothing, or nothing that has ended the launch."""
    for line in (line for output in outputs for line in output.splitlines() if line.startswith('{"' + _KEY)):
        told = json.loads(line)
        if told[_KEY] - seconds_since_end <= _SOON_SECONDS:
            return str(told["note"]["why"])
    return ""
