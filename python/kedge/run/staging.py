"""Staging agents of a run: agents on nodes of their own that write the application's checkpoints to the store.

They find each other with the application's nodes in a folder that all nodes see (staging.folder). One that has ended is started
again before the next launch; until then each node writes its own.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kedge.run.shells import Shell, end_steps, run_on, start_step

_START_SECONDS = 30.0
_STOP_SECONDS = 120.0


class Staging:
    """The staging agents of one run."""

    def __init__(self, shell: Shell, tool: str, nodes: list[str], folder: Path, say: Callable[[str], None]) -> None:
        """`folder` is this run's alone, and all nodes see it: addresses, a secret and logs."""
        self._shell, self._tool, self._nodes, self._folder, self._say = shell, tool, nodes, folder, say
        self._steps: dict[str, subprocess.Popen[bytes]] = {}

    def variables(self) -> dict[str, str]:
        """For the application, and for these agents."""
        return {"KEDGE_STAGING_FOLDER": str(self._folder)}

    def start(self) -> None:
        """All that do not run; returns when they serve. OSError: one does not begin. One that does not begin again is told only."""
        missing = [node for node in self._nodes if node not in self._steps or self._steps[node].poll() is not None]
        if not missing:
            return
        has_begun = bool(self._steps)
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        for node in missing:
            if node in self._steps:
                self._say(f"the staging agent on node {node} has ended, and is started again")
            self._address(node).unlink(missing_ok=True)
            with self._log(node).open("ab") as log:
                self._steps[node] = start_step(self._shell, node, [self._tool, "agent", "--staging"], log)
        problems = list(filter(None, map(self._await, missing)))
        if problems and not has_begun:
            raise OSError("; ".join(problems))
        for problem in problems:
            self._say(problem)

    def running(self) -> list[str]:
        """The nodes whose staging agents run."""
        return [node for node, step in self._steps.items() if step.poll() is None]

    def end(self, *, remove: bool) -> None:
        """Ends them, as soon as what they carry is in the store; with `remove` the folder goes, too."""
        if running := self.running():
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(lambda node: run_on(self._shell, node, [self._tool, "agent", "--stop"], _STOP_SECONDS), running))
        end_steps(self._shell, list(self._steps.values()))
        self._steps.clear()
        if remove:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _await(self, node: str) -> str:
        """Why it does not serve; empty: it does."""
        end = time.monotonic() + _START_SECONDS
        while not self._address(node).exists():
            if self._steps[node].poll() is not None or time.monotonic() > end:
                lines = self._log(node).read_text(errors="replace").strip().splitlines()
                return f"the staging agent does not begin on node {node}: {(lines or ['no word from it'])[-1]}"
            time.sleep(0.05)
        return ""

    def _address(self, node: str) -> Path:
        return self._folder / f"{node}.staging"

    def _log(self, node: str) -> Path:
        return self._folder / f"{node}.log"
