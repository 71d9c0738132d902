"""Staging agents of a run: agents on nodes of their own that write the application's checkpoints to the store.

They find each other with the application's nodes in a folder that all nodes see (staging.folder). Until one that has ended is
started again, each node writes its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kedge.run.servers import Server, Servers
from kedge.run.shells import Shell, end_steps, run_on

_STOP_SECONDS = 120.0


class Staging(Servers):
    """The staging agents of one run."""

    kind, suffix = "staging agent", "staging"

    def __init__(self, shell: Shell, tool: str, nodes: list[str], folder: Path, say: Callable[[str], None]) -> None:
        super().__init__(shell, [Server(node, node) for node in nodes], folder, say)
        self._tool = tool

    def variables(self) -> dict[str, str]:
        """For the application, and for these agents."""
        return {"KEDGE_STAGING_FOLDER": str(self._folder)}

    def end(self, *, remove: bool) -> None:
        """Ends them, as soon as what they carry is in the store; with `remove` the folder goes, too."""
        if running := self.running():
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(lambda node: run_on(self._shell, node, [self._tool, "agent", "--stop"], _STOP_SECONDS), running))
        end_steps(self._shell, [server.step for server in self._servers if server.step])
        if remove:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, server: Server) -> list[str]:
        return [self._tool, "agent", "--staging"]
