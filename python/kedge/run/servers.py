"""Programs that serve a run from nodes of their own, and say in a folder that all nodes see where they are.

Each runs in a step that ends with the run. One that has ended is started again before the next launch.
"""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kedge.run.shells import Shell, start_step

_START_SECONDS = 30.0


@dataclass
class Server:
    """`name`: of its files in the folder."""

    node: str
    name: str
    step: subprocess.Popen[bytes] | None = None

    def runs(self) -> bool:
        return self.step is not None and self.step.poll() is None


class Servers(ABC):
    """Those of one kind, of one run."""

    kind: str  # for people
    suffix: str  # of the file in which one says where it is

    def __init__(self, shell: Shell, servers: list[Server], folder: Path, say: Callable[[str], None]) -> None:
        """`folder` is this run's alone, and all nodes see it: addresses, a secret and logs."""
        self._shell, self._servers, self._folder, self._say = shell, servers, folder, say
        self._has_begun = False

    def start(self) -> None:
        """All that do not run; returns when they serve. OSError: one does not begin. One that does not begin again is told only."""
        missing = [server for server in self._servers if not server.runs()]
        if not missing:
            return
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        for server in missing:
            if server.step is not None:
                self._say(f"the {self._called(server)} on node {server.node} has ended, and is started again")
            self._address(server).unlink(missing_ok=True)
            with self._log(server).open("ab") as log:
                server.step = start_step(self._shell, server.node, self._command(server), log)
        problems = list(filter(None, map(self._await, missing)))
        if problems and not self._has_begun:
            raise OSError("; ".join(problems))
        for problem in problems:
            self._say(problem)
        self._has_begun = True

    def running(self) -> list[str]:
        """The nodes whose servers run."""
        return [server.node for server in self._servers if server.runs()]

    @abstractmethod
    def _command(self, server: Server) -> list[str]:
        """What starts it."""

    def _called(self, server: Server) -> str:
        return f"{self.kind} {server.name}" if server.name != server.node else self.kind

    def _await(self, server: Server) -> str:
        """Why it does not serve; empty: it does."""
        end = time.monotonic() + _START_SECONDS
        while not self._address(server).exists():
            if not server.runs() or time.monotonic() > end:
                lines = self._log(server).read_text(errors="replace").strip().splitlines()
                return f"the {self._called(server)} does not begin on node {server.node}: {(lines or ['no word from it'])[-1]}"
            time.sleep(0.05)
        return ""

    def _address(self, server: Server) -> Path:
        return self._folder / f"{server.name}.{self.suffix}"

    def _log(self, server: Server) -> Path:
        return self._folder / f"{server.name}.log"
