"""Burst buffers of a run: ``kedge-buffer`` on nodes of its own, for files of the application.

The N-th of these nodes has the server bufferN, in a step that ends with the run; a server that has ended is started again before
the next launch, with the files it had. What the application needs to reach them is in its environment (KEDGE_BUFFER_...).
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kedge.run.shells import Shell, end_steps, run_on, start_step

_START_SECONDS = 30.0
_REMOVE_SECONDS = 120.0
_OWNER = "run"


@dataclass
class _Server:
    node: str
    name: str
    step: subprocess.Popen[bytes] | None = None


class Buffers:
    """The servers of one run."""

    def __init__(
        self, shell: Shell, program: Path, nodes: list[str], options: list[str], files: str, folder: Path, say: Callable[[str], None]
    ) -> None:
        """Both folders are this run's alone: `files` on each of the nodes, and `folder`, which all nodes see: addresses and logs."""
        self._shell, self._program, self._options, self._say = shell, program, options, say
        self._files, self._folder = files, folder
        self._servers = [_Server(node, f"buffer{i}") for i, node in enumerate(nodes)]
        self._has_begun = False

    def variables(self) -> dict[str, str]:
        """For the application, and for commands on its nodes."""
        return {"KEDGE_BUFFER_FOLDER": str(self._folder), "KEDGE_BUFFER_OWNER": _OWNER, "KEDGE_BUFFER_SECRET": str(self._secret())}

    def start(self) -> None:
        """All that do not run; returns when they serve. OSError: one does not begin. One that does not begin again is told only."""
        missing = [server for server in self._servers if server.step is None or server.step.poll() is not None]
        if not missing:
            return
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        for server in missing:
            if server.step is not None:
                self._say(f"burst buffer {server.name} on node {server.node} has ended, and is started again")
            self._address(server).unlink(missing_ok=True)
            self._start_one(server)
        problems = list(filter(None, map(self._await, missing)))
        if problems and not self._has_begun:
            raise OSError("; ".join(problems))
        for problem in problems:
            self._say(problem)
        self._has_begun = True

    def end(self, *, remove: bool) -> None:
        """Ends the servers; with `remove` their files go, too: nobody is left who would."""
        running = [server for server in self._servers if server.step is not None]
        end_steps(self._shell, [server.step for server in running if server.step])
        for server in running:
            server.step = None
        if not remove or not running:
            return
        nodes = sorted({server.node for server in running})
        with ThreadPoolExecutor(len(nodes)) as pool:
            removed = pool.map(lambda node: run_on(self._shell, node, ["rm", "-rf", "--", self._files], _REMOVE_SECONDS), nodes)
            for node, (code, output) in zip(nodes, removed, strict=True):
                if code != 0:
                    self._say(f"files of burst buffers stay in {self._files} of node {node}: {output.strip()}")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_one(self, server: _Server) -> None:
        command = [
            str(self._program), "--name", server.name, "--path", f"{self._files}/{server.name}", "--folder", str(self._folder),
            "--owner", f"{_OWNER}:{self._secret()}", *self._options,
        ]
        with self._log(server).open("ab") as log:
            server.step = start_step(self._shell, server.node, command, log)

    def _await(self, server: _Server) -> str:
        """Why it does not serve; empty: it does."""
        end = time.monotonic() + _START_SECONDS
        assert server.step is not None
        while not self._address(server).exists():
            if server.step.poll() is not None or time.monotonic() > end:
                lines = self._log(server).read_text(errors="replace").strip().splitlines()
                return f"burst buffer {server.name} does not begin on node {server.node}: {(lines or ['no word from it'])[-1]}"
            time.sleep(0.05)
        return ""

    def _secret(self) -> Path:
        return self._folder / "secret"

    def _address(self, server: _Server) -> Path:
        return self._folder / f"{server.name}.buffer"

    def _log(self, server: _Server) -> Path:
        return self._folder / f"{server.name}.log"
