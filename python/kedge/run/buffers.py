"""Burst buffers of a run: ``kedge-buffer`` on nodes of its own, for files of the application, or before its store.

The N-th of these nodes has the server bufferN; one that is started again has the files it had. What the application needs to reach
them is in its environment (KEDGE_BUFFER_...).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs

from kedge.run.servers import Server, Servers
from kedge.run.shells import Shell, end_steps, run_on

_REMOVE_SECONDS = 120.0
_OWNER = "run"


def store_behind(store: str) -> str:
    """The store that a burst buffer lies before (``bb://SERVER/PREFIX?drain=STORE``), a folder as an absolute path; empty: none does."""
    drains = parse_qs(store.partition("?")[2]).get("drain", []) if store.startswith("bb://") else []
    return "" if not drains else drains[0] if "://" in drains[0] else os.path.abspath(drains[0])


class Buffers(Servers):
    """The servers of one run."""

    kind, suffix = "burst buffer", "buffer"

    def __init__(
        self, shell: Shell, program: Path, nodes: list[str], options: list[str], files: str, folder: Path, drains_to: str,
        say: Callable[[str], None]
    ) -> None:  # fmt: skip
        """`files` is a folder on each of the nodes, and this run's alone. `drains_to`: a store; empty: they bring nothing anywhere."""
        super().__init__(shell, [Server(node, f"buffer{i}") for i, node in enumerate(nodes)], folder, say)
        self._program, self._options, self._files, self.drains_to = program, options, files, drains_to

    def variables(self) -> dict[str, str]:
        """For the application, and for commands on its nodes."""
        return {"KEDGE_BUFFER_FOLDER": str(self._folder), "KEDGE_BUFFER_OWNER": _OWNER, "KEDGE_BUFFER_SECRET": str(self._secret())}

    def end(self, *, remove: bool) -> None:
        """Ends the servers; with `remove` their files go, too: nobody is left who would."""
        steps = [server.step for server in self._servers if server.step]
        end_steps(self._shell, steps)
        if not remove or not steps:
            return
        nodes = sorted({server.node for server in self._servers})
        with ThreadPoolExecutor(len(nodes)) as pool:
            removed = pool.map(lambda node: run_on(self._shell, node, ["rm", "-rf", "--", self._files], _REMOVE_SECONDS), nodes)
            for node, (code, output) in zip(nodes, removed, strict=True):
                if code != 0:
                    self._say(f"files of burst buffers stay in {self._files} of node {node}: {output.strip()}")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, server: Server) -> list[str]:
        return [
            str(self._program), "--name", server.name, "--path", f"{self._files}/{server.name}", "--folder", str(self._folder),
            "--owner", f"{_OWNER}:{self._secret()}", *(["--drain", f"{_OWNER}:{self.drains_to.partition('?')[0]}"] if self.drains_to else []),
            *self._options,
        ]

    def _secret(self) -> Path:
        return self._folder / "secret"
