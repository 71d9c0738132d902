"""The nodes' agents, each in a step of its own: they outlive the application's step, and carry its checkpoints on.

The processes here are what holds those steps (srun, ssh), or the agents themselves. Where an agent runs already, it serves; ours
then ends at once. An agent that ended is started again before the next launch; until then the application starts its own.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from kedge.run.nodes import Answer
from kedge.run.notes import LaunchMark, Opened, jobs_opened
from kedge.run.progress import Newest, Prospects, newest_among
from kedge.run.shells import Shell, end_group, end_steps, run_on, start_step

_ANSWER_SECONDS = 30.0
_START_SECONDS = 30.0
_LOOK_SECONDS = 120.0
_DETACH_SECONDS = 5.0  # for an agent to see that the application's ranks have ended
_PATIENCE_SECONDS = 5  # for nodes that do not answer though they were not found dead
_PARALLEL = 32


class Agents:
    """Starts, asks and ends the agents of nodes."""

    def __init__(self, shell: Shell, tool: str, log: Path | None, *, start: bool = True) -> None:
        """`start` false: the application's ranks start their agents themselves; here they are only asked.

        ValueError: nothing is written to such a log (open_log()).
        """
        self._shell, self._tool, self._starts = shell, tool, start
        self._log = open_log(log) if log is not None and start else None
        self._steps: dict[str, subprocess.Popen[bytes]] = {}
        self._begun_again: set[str] = set()
        self._killed: set[str] = set()  # nodes whose agent was held here until it was killed
        self._asked: list[str] = []
        self._silent: list[str] = []

    def start(self, nodes: Iterable[str]) -> None:
        """On every node where none is held; returns when all these answer, or after a while: who does not is found out elsewhere."""
        if not self._starts:
            return
        names = [node for node in nodes if node not in self._steps or self._steps[node].poll() is not None]
        self._begun_again = {node for node in names if node in self._steps}
        self._note_killed()
        for node in names:
            self._steps[node] = self._start_one(node)
        self._asked, self._silent = list(names), []
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(self._await_answer, names))

    def _start_one(self, node: str) -> subprocess.Popen[bytes]:
        command = [self._tool, "agent", *([] if self._log else ["--log"])]
        return start_step(self._shell, node, command, self._log or subprocess.DEVNULL)

    def _await_answer(self, node: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            code = self._steps[node].poll()
            if self.status(node) is not None or code not in (None, 0):
                break
            if code == 0:  # another one served then, and has left since
                self._steps[node] = self._start_one(node)
            time.sleep(0.1)
        self._asked.remove(node)

    def _note_killed(self) -> None:
        self._killed |= {node for node, step in self._steps.items() if step.poll() not in (None, 0)}  # 0: another one serves

    def running(self, nodes: Iterable[str]) -> list[str]:
        """Whose agent is held here, and runs."""
        return [node for node in nodes if node in self._steps and self._steps[node].poll() is None]

    def ended(self, nodes: Iterable[str]) -> list[str]:
        """Whose step has ended though it was held: perhaps the node has."""
        return [node for node in nodes if node in self._steps and self._steps[node].poll() is not None]

    def status(self, node: str) -> Any:
        """The agent's own account (kedge status --json); None without an answer."""
        return Answer(*run_on(self._shell, node, [self._tool, "status", "--json"], _ANSWER_SECONDS)).status()

    def opened(self, node: str, mark: LaunchMark) -> list[Opened]:
        """Which jobs the ranks there have opened so far."""
        return jobs_opened([run_on(self._shell, node, mark.peeking(), _ANSWER_SECONDS)[1]])

    def halt(self, nodes: Iterable[str], job: str) -> bool:
        """Asks the job for a checkpoint now, and to end after it; whether the agent of its rank 0 has heard."""

        def ask(node: str) -> bool:
            code, output = run_on(self._shell, node, [self._tool, "halt", job, "--now", "--json"], _ANSWER_SECONDS)
            return code == 0 and any(entry["has_rank_0"] for entry in json.loads(output.splitlines()[-1])["jobs"])

        with ThreadPoolExecutor(_PARALLEL) as pool:
            return any(list(pool.map(ask, nodes)))

    @staticmethod
    def protected(answers: Iterable[Answer], job: str) -> tuple[bool, Newest]:
        """Whether the job's nodes protect each other, and the newest version of each name that survives the loss of one."""
        entries = entries_of(answers, job)
        versions = [version for entry in entries for version in entry["versions"] if not version["abandoned"]]
        survivors = [version for version in versions if {"level": "node", "reached": True} in version["levels"]]
        return any(entry["scheme"] != "none" for entry in entries), newest_among(survivors)

    def unanswered(self) -> list[str]:
        """Of the start or the look ahead under way: nodes whose agents do not answer yet; nodes that did not answer the look ahead
        before, which the one now waits for, come first."""
        return list(self._silent or self._asked)

    def look_ahead(
        self, nodes: Iterable[str], job: str, patience_seconds: float, mute: Iterable[str] = (), dead: Iterable[str] = ()
    ) -> Prospects | None:
        """What a launch on these nodes would find; None when nobody can say. A spare knows nothing of what the others have.

        `patience_seconds`: so long nodes that do not answer each other are asked again. `mute`: others, of which nobody knows
        what they hold. `dead`: these are asked as well, in case that their agents live, but not waited for. Without patience
        neither are agents that were started again just now: the others may look for them where they were, in vain.
        """
        names = list(nodes)
        hardly_awaited = {*dead, *(self._begun_again if patience_seconds == 0 else ())}
        self._asked = list(names)
        if patience_seconds == 0:
            self._silent = []

        def ask(node: str) -> tuple[int | None, str]:
            answer = run_on(self._shell, node, command, _LOOK_SECONDS + patience_seconds)
            self._asked.remove(node)
            return answer

        command = [self._tool, "rebuild", "--look", "--json", "--job", job, "--patience", f"{patience_seconds:g}s",
                   *(f"--left-out={node}" for node in sorted(hardly_awaited))]  # fmt: skip
        with ThreadPoolExecutor(_PARALLEL) as pool:
            answers = list(pool.map(ask, names))
        told = [json.loads(output.splitlines()[-1]) for code, output in answers if code == 0]
        without = [node for node, (code, _) in zip(names, answers, strict=True) if code != 0]
        self._silent = sorted({*without, *mute, *(node for answer in told for node in answer["silent_nodes"])})
        return Prospects.of(told, [*without, *mute]) if told else None

    def why_no_store(self, node: str) -> str:
        """Why jobs on the node cannot use the store, and what to do; empty: they can, or nobody says."""
        code, output = run_on(self._shell, node, [self._tool, "doctor", "--json"], _ANSWER_SECONDS)
        if code != 1:
            return ""
        findings = json.loads(output.splitlines()[-1])["findings"]
        return "; ".join(f"{of['found']}: {of['advice']}" for of in findings if of["subject"] == "store" and of["state"] == "BAD")

    def drain(self, nodes: Iterable[str], timeout_seconds: float, *, past_buffers: bool) -> dict[str, str]:
        """Until everything that the nodes owe to the store is there, or on the burst buffer before it; what did not get there, and why."""
        return self._on_all(nodes, ["wait", *(["--level", "store"] if past_buffers else [])], timeout_seconds)

    def rescue(self, nodes: Iterable[str], job: str, timeout_seconds: float) -> dict[str, str]:
        """The same for the newest versions that survive on the nodes, owed or not; what lost nodes had is rebuilt."""
        return self._on_all(nodes, ["drain", "--job", job, "--patience", f"{_PATIENCE_SECONDS}s"], timeout_seconds)

    def _on_all(self, nodes: Iterable[str], arguments: list[str], timeout_seconds: float) -> dict[str, str]:
        """Runs a command of Kedge with a time on all nodes; why those failed that did."""
        command = [self._tool, *arguments, "--timeout", f"{max(1, int(timeout_seconds))}s"]

        def run(node: str) -> str:
            code, output = run_on(self._shell, node, command, timeout_seconds + _ANSWER_SECONDS)
            return "" if code == 0 else why_it_failed(output)

        names = list(nodes)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return {node: why for node, why in zip(names, pool.map(run, names), strict=True) if why}

    def leave(self, nodes: Iterable[str], timeout_seconds: float = _ANSWER_SECONDS) -> dict[str, str]:
        """Agents that are held here end, with all that they have on their nodes, and so do those that ranks have started in their
        place; what stays there, and why. Nothing goes that neither a store nor a staging agent has, and an agent that somebody else
        has started stays."""

        def ask(node: str) -> str:
            end = time.monotonic() + _DETACH_SECONDS
            while (told := self.status(node)) and told["sessions"]:
                if time.monotonic() > end:
                    return "processes still use its agent"
                time.sleep(0.1)
            if told is None:
                return ""  # it has left
            code, output = run_on(self._shell, node, [self._tool, "agent", "--stop"], timeout_seconds)
            return "" if code == 0 and "--discard-only-copies" not in output else why_it_failed(output)

        self._note_killed()
        names = [node for node in nodes if node in {*self.running(nodes), *self._killed}]
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return {node: why for node, why in zip(names, pool.map(ask, names), strict=True) if why}

    def forget(self, nodes: Iterable[str]) -> None:
        """Of dead nodes: nothing more is expected of their steps."""
        for node in nodes:
            self._killed.discard(node)
            if step := self._steps.pop(node, None):
                end_group(step)

    def end(self) -> None:
        """Ends the steps. An agent that is told to stop leaves its state on the node for a successor."""
        end_steps(self._shell, self._steps.values())
        self._steps.clear()
        if self._log is not None:
            self._log.close()


def entries_of(answers: Iterable[Answer], job: str) -> list[Any]:
    """What the agents say of the job."""
    told = filter(None, (answer.status() for answer in answers))
    return [entry for status in told for entry in status["jobs"] if entry["job"] == job]


def open_log(path: Path) -> IO[bytes]:
    """For more to be written at its end. ValueError: it cannot be had, or others may have prepared it, where they may write."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        log = os.open(path, flags, 0o600)
    except OSError as error:
        why = "it is a symbolic link, and none is followed" if error.errno == errno.ELOOP else error.strerror
        raise ValueError(f"--agent-log {path}: {why}") from None
    found = os.fstat(log)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        os.close(log)
        raise ValueError(f"--agent-log {path}: it is no regular file of this user or of root (mode {found.st_mode:o}, owner {found.st_uid})")
    return open(log, "ab", buffering=0)


def why_it_failed(output: str) -> str:
    """What a command of Kedge has said was wrong, in a line; the last line where it did not get to say it."""
    lines = output.strip().splitlines()
    told = [line.removeprefix("kedge: ") for line in lines if line.startswith("kedge: ") and not line.startswith("kedge: warning: ")]
    return "; ".join(told) or (lines or ["no answer"])[-1]
