"""The nodes: which are in use, which are spare, which are dead, and how that is found out.

A node is dead for this job once it was found dead: it is not asked again, because a node that comes and goes costs more
launches than it gives. A node that an operator drains is not taken, and not left while the application runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kedge.run.notes import LaunchMark
from kedge.run.shells import Shell, run_on
from kedge.run.slurm_daemon import why_no_step_starts

PROBE_SECONDS = 30.0
_AGAIN_SECONDS = 1.0
_PARALLEL = 32
# Exit codes of the tool: the agent is not there, or stands still.
_NO_AGENT = 3
_AGENT_IS_MUTE = 4
# Of sinfo %T, without its suffixes: nothing runs there.
_SLURM_DEAD = {"down", "fail", "failing", "error", "unknown", "powered_down", "powering_down", "reboot", "no_respond"}
_SLURM_LEAVING = {"drained", "draining", "maint"}


class TooFewNodesError(Exception):
    """The nodes that are left do not suffice."""


@dataclass
class Nodes:
    """The nodes of a job. `in_use[i]` runs the same ranks at every launch, as long as it lives."""

    in_use: list[str]
    spares: list[str]
    nodes_min: int
    dead: dict[str, str] = field(default_factory=dict)  # name to why

    def bury(self, found: dict[str, str]) -> None:
        """Takes dead nodes out; spares come in their places. TooFewNodesError when fewer than `nodes_min` are left."""
        self.leave_out(found)
        if len(self.in_use) < self.nodes_min:
            gone = "; ".join(f"{', '.join(nodes)}: {why}" for why, nodes in by_reason(self.dead).items())
            raise TooFewNodesError(f"{len(self.in_use)} nodes are left and {self.nodes_min} are needed ({gone})")

    def leave_out(self, found: dict[str, str]) -> None:
        """The same, however few are left."""
        self.dead.update(found)
        self.spares = [node for node in self.spares if node not in found]
        left: list[str] = []
        for node in self.in_use:
            if node not in found:
                left.append(node)
            elif self.spares:
                left.append(self.spares.pop(0))
        self.in_use = left


def by_reason(dead: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes of each reason: a wrong setting is the same on all of them."""
    reasons: dict[str, list[str]] = {}
    for node, why in dead.items():
        reasons.setdefault(why, []).append(node)
    return reasons


@dataclass(frozen=True)
class Answer:
    """What a node said to `kedge status --json`: exit code (None: it was not reached) and output, which begins with what a launch
    has left where it was asked for that."""

    code: int | None
    output: str

    def status(self) -> Any:
        """The agent's own account; None: there is none."""
        try:
            return json.loads(self.output.splitlines()[-1]) if self.code == 0 else None
        except (ValueError, IndexError):
            return None


class Health:
    """Asks nodes whether they live: SLURM's view, the agent's answer, and the user's own probe."""

    def __init__(self, shell: Shell, tool: str, probe: list[str], slurm: bool, patience_seconds: float) -> None:
        """`patience_seconds`: so long a node that is not reached is asked again, because links come back."""
        self._shell, self._tool, self._probe, self._slurm, self._patience_seconds = shell, tool, probe, slurm, patience_seconds
        self.with_mute_agents: set[str] = set()  # of the dead: their agents stood still, and keep what they hold

    def ask(self, nodes: Iterable[str], mark: LaunchMark | None = None) -> dict[str, Answer]:
        """How they are, all at once. Those that SLURM knows to be dead are not asked: that could take as long as one may wait.

        `mark`: they are asked for what it has left, too.
        """
        names = list(nodes)
        command = [self._tool, "status", "--json"]
        dead = self.dead_by_slurm(names)
        rest = [node for node in names if node not in dead]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            answers = pool.map(lambda node: Answer(*self._ask(node, mark.asking(command) if mark else command)), rest)
            return {node: Answer(None, why) for node, why in dead.items()} | dict(zip(rest, answers, strict=True))

    def dead_among(self, nodes: Iterable[str], answers: Mapping[str, Answer] | None = None) -> dict[str, str]:
        """The dead ones, and why; those without an answer are asked now."""
        names = list(nodes)
        known = dict(answers or {})
        known |= self.ask(node for node in names if node not in known)
        found = self.dead_by_slurm(names)
        rest = [node for node in names if node not in found]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found |= {node: why for node, why in zip(rest, pool.map(lambda node: self._why_dead(node, known[node]), rest), strict=True) if why}
        return found

    def failing_probe(self, nodes: Iterable[str]) -> dict[str, str]:
        """By SLURM and the user's probe alone: cheap enough to be asked while the application runs."""
        names = list(nodes)
        found = self.dead_by_slurm(names)
        rest = [node for node in names if node not in found] if self._probe else []
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found |= {node: why for node, why in zip(rest, pool.map(self._why_probe_fails, rest), strict=True) if why}
        return found

    def dead_by_slurm(self, nodes: Iterable[str], leaving: bool = False) -> dict[str, str]:
        """What sinfo calls down; with `leaving` also what is being drained. Nothing outside SLURM, or when it does not answer."""
        if not self._slurm:
            return {}
        names = set(nodes)
        try:
            done = subprocess.run(["sinfo", "-N", "-h", "-o", "%N %T"], capture_output=True, text=True, timeout=PROBE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return {}
        found = {}
        for line in done.stdout.splitlines():
            node, _, state = line.strip().partition(" ")
            plain = state.rstrip("*~#!%$@^-+").lower()
            unreachable = state.endswith("*")
            if node in names and (unreachable or plain in _SLURM_DEAD or (leaving and plain in _SLURM_LEAVING)):
                found[node] = f"SLURM's controller gets no answer from it ({state})" if unreachable else f"SLURM says that it is {plain}"
        return found

    def _why_dead(self, node: str, answer: Answer) -> str:
        # No agent is no dead node: these exit codes come from a tool that ran there.
        if answer.code == _AGENT_IS_MUTE:
            self.with_mute_agents.add(node)
        if answer.code not in (0, _NO_AGENT):
            return f"it cannot be asked: {_last_line(answer.output).removeprefix('kedge: ')}"
        return self._why_probe_fails(node)

    def _why_probe_fails(self, node: str) -> str:
        if not self._probe:
            return ""
        code, output = self._ask(node, self._probe)
        return "" if code == 0 else f"its health probe failed: {_last_line(output) or f'exit code {code}'}"

    def _ask(self, node: str, arguments: list[str]) -> tuple[int | None, str]:
        end = time.monotonic() + self._patience_seconds
        why_hopeless = ""

        def look() -> str:
            nonlocal why_hopeless
            why_hopeless = why_no_step_starts(node) if self._slurm else ""
            return why_hopeless

        while True:
            code, output = run_on(self._shell, node, arguments, PROBE_SECONDS, look)
            if code is not None or why_hopeless or time.monotonic() + _AGAIN_SECONDS > end:
                return code, output
            time.sleep(_AGAIN_SECONDS)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""


def expand_hosts(text: str) -> list[str]:
    """A list of hosts: names separated by commas, or a file with one a line (what follows a blank is ignored).

    ValueError says what is wrong with it.
    """
    if "/" in text or os.path.isfile(text):
        with open(text, encoding="utf-8") as file:
            lines = [line.split("#")[0].split() for line in file]
        hosts = [words[0].split(":")[0] for words in lines if words]
    else:
        hosts = [host.strip() for host in text.split(",") if host.strip()]
    if not hosts:
        raise ValueError(f"{text}: there is no host in it")
    if len(set(hosts)) != len(hosts):
        raise ValueError(f"{text}: a host stands there twice")
    return hosts
