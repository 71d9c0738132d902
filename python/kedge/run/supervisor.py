"""The loop of ``kedge run``: launch, watch, and decide what an end means.

A launch that ends with 0 has finished the job; one whose ranks were told to exit was halted, however it ended. Any other end
is a failure: the dead nodes are left out, spares take their places, and the next launch continues from the newest version that
survives. It is launched at once when the last one has made progress (a newer version that is complete in the store, or survives
the loss of a node) or nodes have died, after a growing pause otherwise, and not at all when several in a row have made none: then
the job itself is at fault, and says so. When the allocation ends, the job is asked for a last checkpoint, that is carried to the store, and
the exit code asks for the job to be queued again. Whatever ends before the job has finished, the newest version that survives
on the nodes goes to the store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from kedge.run.agents import Agents, entries_of
from kedge.run.allocation import Allocation, give_back
from kedge.run.buffers import Buffers
from kedge.run.launch_errors import LaunchErrors
from kedge.run.launchers import Launcher
from kedge.run.more_nodes import MoreNodes
from kedge.run.nodes import Answer, Health, Nodes, TooFewNodesError, by_reason
from kedge.run.notes import LaunchMark, Opened, begin_launch, jobs_opened, why_refused
from kedge.run.progress import Newest, Prospects, Versions, before_attempt, has_advanced, newest_of, newest_versions, numbers
from kedge.run.stages import Stages, show_stages
from kedge.run.staging import Staging

_POLL_SECONDS = 0.1
_ASK_AGAIN_SECONDS = 1.0
_KILL_SECONDS = 20.0  # for a launcher to see its ranks out after SIGTERM
_KILL_SECONDS_DEAD = 5.0  # the same where it would wait for dead nodes to answer
_SUCCESSORS_MAX = 20  # of one launch
_REPLACED = 79  # of fmirun
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # a shell's way to say so, and for a shared library the loader's


class ExitCode(enum.IntEnum):
    """Of kedge run itself."""

    FINISHED = 0
    GAVE_UP = 1
    USAGE = 2
    TOO_FEW_NODES = 3
    LOST = 4
    SILENT_NODES = 5
    REQUEUE = 75  # EX_TEMPFAIL: the time was over, and there is a checkpoint to continue from, or nobody can say
    HALTED = 76


@dataclasses.dataclass
class Limits:
    """When to stop trying, and how long to wait. Times are seconds."""

    restarts_max: int = 100
    launches_without_progress_max: int = 3
    back_off: float = 5.0
    back_off_max: float = 300.0
    heartbeat: float = 10.0
    patience: float = 15.0
    reserve: float = 300.0
    drain: float = 600.0
    release_nodes: bool = False
    begin_if_lost: bool = False
    requeue_code: int = int(ExitCode.REQUEUE)


@dataclasses.dataclass
class Launch:
    """One launch, for the report."""

    number: int
    nodes: list[str]
    exit_code: int = 0
    ended: bool = False  # by us, whatever the launcher's exit code says then
    refusal: str = ""  # in the launcher's words, why it has started nothing
    refused: str = ""  # in Kedge's words, why the ranks could not begin
    seconds: float = 0.0
    before: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds of each stage since the launch before had ended
    advanced: bool = False
    dead: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Report:
    """What came of the job; printed as JSON."""

    job: str
    outcome: str = ""
    reason: str = ""
    exit_code: int = 0
    versions: Versions = dataclasses.field(default_factory=dict)
    launches: list[Launch] = dataclasses.field(default_factory=list)
    after: dict[str, float] = dataclasses.field(default_factory=dict)  # as Launch.before, since the last launch had ended
    not_drained: dict[str, str] = dataclasses.field(default_factory=dict)
    freed: list[str] = dataclasses.field(default_factory=list)  # nodes whose checkpoints staging agents took over at the end
    node_seconds_saved: float = 0.0  # from then until these were in the store, times those nodes

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Supervisor:
    """Runs one job to its end. Everything that it does outside goes through the objects that it is given."""

    def __init__(
        self, *, tool: str, job: str, ranks: int, application: list[str], nodes: Nodes, launcher: Launcher, agents: Agents, buffers: Buffers | None,
        staging: Staging | None, more: MoreNodes | None, health: Health, allocation: Allocation, limits: Limits, output: IO[bytes] | None, say: Callable[[str], None],
    ) -> None:
        self._tool, self._job, self._ranks, self._application = tool, job, ranks, application
        self._nodes, self._launcher, self._agents, self._health = nodes, launcher, agents, health
        self._buffers, self._staging, self._more = buffers, staging, more
        self._allocation, self._limits, self._output, self._say = allocation, limits, output, say
        self._report = Report(job)
        self._stages = Stages(say)
        self._safe: Newest | None = None  # before the launch under way, or that which has ended last
        self._halting = False  # by us: the allocation ends

    def run(self) -> Report:
        """The whole job. Afterwards no process that it started runs."""
        try:
            self._loop()
        except TooFewNodesError as error:
            self._conclude("too few nodes", str(error), ExitCode.TOO_FEW_NODES, self._drain(rescue=True))
        finally:
            self._agents.end()
            if self._staging:
                self._staging.end(remove=self._report.outcome == "finished")
            if self._buffers:
                # They may have what is in no store.
                self._buffers.end(remove=self._report.outcome == "finished" and not (self._buffers.drains_to and self._report.not_drained))
        return self._report

    def _loop(self) -> None:
        answers = self._ask(self._nodes.in_use)
        self._safe = self._newest(answers, self._nodes.in_use)
        idle_launches = 0
        self._find_dead({}, answers)
        while True:
            if self._buffers:
                with self._stages.stage("burst buffers are started"):
                    self._buffers.start()
            if self._staging:
                with self._stages.stage("staging agents are started"):
                    self._staging.start()
            with self._stages.stage("agents are started", self._agents.unanswered):
                self._agents.start(self._nodes.in_use)
            with self._stages.stage("nodes are asked what a launch finds", self._agents.unanswered):
                found = self._look_ahead()
            if found and found.unknown:
                return self._unknown(found)
            if found and found.lost and not self._limits.begin_if_lost:
                return self._lost(found)
            launch = self._launch(found, mark := begin_launch(self._ranks))
            ended = time.monotonic()
            left = [node for node in launch.nodes if node not in launch.dead]
            answers = self._ask(left, mark)
            launch.refused = why_refused((answer.output for answer in answers.values()), time.monotonic() - ended)
            first = self._follow(jobs_opened(answer.output for answer in answers.values()))
            after = self._newest(answers, left)
            how = describe(launch)
            told_to_exit = self._was_told_to_exit(answers, left)
            if first:
                self._safe = before_attempt(after, first)
            launch.advanced = has_advanced(self._safe, after)
            if launch.exit_code == 0 and not launch.ended:
                if self._launcher.replaces_nodes:
                    launch.dead = self._say_dead(self._health.dead_among(left, answers))
                    self._nodes.leave_out(launch.dead)
                return self._finish(told_to_exit)
            if self._halting:
                return self._out_of_time(f"the application {how} when it was asked to stop")
            if told_to_exit:
                return self._halted(f"; the application {how}")
            self._safe = after if after is not None else self._safe
            idle_launches = 0 if launch.advanced else idle_launches + 1
            # Some of it may be gone with the nodes that died: the look ahead tells what is left.
            self._say(f"launch {launch.number} {how} after {launch.seconds:.0f} s, "
                      + (f"safe until then: {show(numbers(self._safe))}" if launch.advanced else "without progress"))
            # Where nodes have versions, the job goes on without a store.
            is_first = launch.number == 1 and not launch.advanced and not launch.ended and not (found and found.versions)
            if is_first and (trouble := self._agents.why_no_store(launch.nodes[0])):
                return self._give_up(f"the application {how}, and there is no store: {trouble}")
            if hopeless := why_hopeless(launch):
                return self._give_up(f"the last launch {how}: {hopeless}")
            if len(self._report.launches) > self._limits.restarts_max:
                times = len(self._report.launches)
                return self._give_up(f"it failed {'once' if times == 1 else f'{times} times'}; the last launch {how}")
            if idle_launches >= self._limits.launches_without_progress_max:
                return self._give_up(
                    f"{idle_launches} launches in a row ended without a newer complete version; the last one {how} "
                    f"after {launch.seconds:.0f} s"
                )
            launch.dead |= self._find_dead(launch.dead, answers)
            # Later on it may be for what died.
            if launch.refusal and launch.number == 1 and not launch.dead:
                return self._give_up(f"{self._launcher.kind} starts nothing: {launch.refusal}")
            # Where nodes died, the next launch is another one.
            if not self._pause(0 if launch.dead else idle_launches):
                return self._out_of_time("the time was over between two launches")

    def _ask(self, nodes: list[str], mark: LaunchMark | None = None) -> dict[str, Answer]:
        """These and the spares, which are looked at before they are needed: once for all that is to be known of them."""
        with self._stages.stage("nodes are asked how they are"):
            return self._health.ask([*nodes, *self._nodes.spares], mark)

    def _newest(self, answers: Mapping[str, Answer], nodes: list[str]) -> Newest | None:
        with self._stages.stage("the store is asked what is safe"):
            return newest_of(newest_versions(self._tool, self._job), self._agents.protected(_of(answers, nodes), self._job)[1])

    def _find_dead(self, known: dict[str, str], answers: Mapping[str, Answer]) -> dict[str, str]:
        with self._stages.stage("nodes are asked whether they live"):
            found = self._health.dead_among([node for node in self._nodes.in_use if node not in known], answers)
            # A node that is being drained is not taken.
            spares = self._health.dead_among(self._nodes.spares, answers) | self._health.dead_by_slurm(self._nodes.spares, leaving=True)
        self._bury(known | found | spares)
        return found

    def _bury(self, dead: dict[str, str]) -> None:
        self._nodes.bury(self._say_dead(dead))

    def _say_dead(self, dead: dict[str, str]) -> dict[str, str]:
        for why, nodes in by_reason(dead).items():
            who = f"node {nodes[0]} is" if len(nodes) == 1 else f"nodes {', '.join(nodes)} are"
            self._say(f"{who} left out: {why}")
        self._agents.forget(dead)
        return dead

    def _follow(self, opened: list[Opened]) -> int:
        """From here on the first job that the program has opened, where none has the name that it was given.

        The job's first attempt of this run, where another one was followed until now; else 0.
        """
        if not opened or any(of.job == self._job for of in opened):
            return 0
        job, attempt = opened[0]
        names = ", ".join(f"'{of.job}'" for of in opened)
        self._say(f"the program opens job{'s' if len(opened) > 1 else ''} {names}, not '{self._job}': from here on '{job}' is followed")
        self._job = self._report.job = job
        return attempt

    def _look_ahead(self) -> Prospects | None:
        """What the next launch will find. Before all is given up for lost, nodes that do not answer are asked again."""

        def look(patience_seconds: float, dead: Iterable[str] = ()) -> Prospects | None:
            return self._agents.look_ahead(self._nodes.in_use, self._job, patience_seconds, self._health.with_mute_agents, dead)

        found = look(0.0, self._nodes.dead)
        if not found or not (found.lost or found.unknown):
            return found
        if found.unknown:
            self._say(f"nodes that may have what the job continues from do not answer, and are waited for: {', '.join(found.silent)}")
        return look(self._limits.patience) or found

    def _launch(self, found: Prospects | None, mark: LaunchMark) -> Launch:
        nodes = list(self._nodes.in_use)
        launch = Launch(len(self._report.launches) + 1, nodes, before=self._stages.take())
        self._report.launches.append(launch)
        took = show_stages(launch.before)
        self._say(f"launch {launch.number}: {self._ranks} rank{'s' if self._ranks > 1 else ''} on {','.join(nodes)}; {describe_start(found)}"
                  + (f" (beforehand: {took})" if took else ""))
        began = time.monotonic()
        process, errors = self._start(self._launcher.command(nodes, self._ranks, self._application))
        try:
            self._watch(process, launch, mark)
            for _ in range(_SUCCESSORS_MAX):
                # What has died by a signal was killed: the ranks may run on.
                if (process.poll() or 0) >= 0 or self._halting or not (successor := self._launcher.successor()):
                    break
                self._say(f"the launcher has ended with {describe_exit(process.returncode)}: another one takes over")
                process, errors = self._start(successor)
                self._watch(process, launch, mark)
            launch.ended = process.poll() is None
        finally:
            waits_for_dead = bool(launch.dead) and self._launcher.kind != "srun"
            with self._stages.stage("the launcher ends its ranks"):
                end_launch(process, _KILL_SECONDS_DEAD if waits_for_dead else _KILL_SECONDS)
        launch.exit_code = process.returncode
        launch.refusal = errors.refusal() if process.returncode != 0 else ""
        launch.seconds = time.monotonic() - began
        return launch

    def _start(self, command: list[str]) -> tuple[subprocess.Popen[bytes], LaunchErrors]:
        errors = LaunchErrors(self._launcher.refusals())
        process = subprocess.Popen(
            command, env=self._launcher.environment(), stdin=subprocess.DEVNULL, stdout=self._output, stderr=errors.write_end,
            start_new_session=True,
        )
        errors.begin()
        return process, errors

    def _watch(self, process: subprocess.Popen[bytes], launch: Launch, mark: LaunchMark) -> None:
        """Until the launch has ended, or must be ended: a node of it is dead, or the time is over."""
        look = time.monotonic() + self._limits.heartbeat
        kill_at = float("inf")
        ask_at = float("inf")
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            self._take_in(launch)
            now = time.monotonic()
            if not self._halting and self._allocation.is_ending(self._limits.reserve):
                kill_at, ask_at = self._begin_halt(launch, mark)
            elif now >= ask_at:
                ask_at = self._ask_to_halt(launch, mark)
            if now >= kill_at or self._allocation.signals > 1:
                self._say("it has not ended by itself in time, and is ended")
                return
            if now >= look and not self._launcher.replaces_nodes:
                look = now + self._limits.heartbeat
                launch.dead = self._dead_in_run(launch.nodes)
                if launch.dead:
                    return

    def _take_in(self, launch: Launch) -> None:
        """Nodes that fmirun has asked for are the job's as any others."""
        known = {*self._nodes.in_use, *self._nodes.dead, *launch.nodes}
        for node in self._more.look(known, lambda node: self._agents.start([node])) if self._more else []:
            launch.nodes.append(node)
            self._nodes.in_use.append(node)

    def _dead_in_run(self, nodes: list[str]) -> dict[str, str]:
        found = self._health.failing_probe(nodes)
        # A step that ended tells of a dead node, or of an agent that the application has replaced by now.
        suspects = [node for node in self._agents.ended(nodes) if node not in found]
        return found | (self._health.dead_among(suspects) if suspects else {})

    def _begin_halt(self, launch: Launch, mark: LaunchMark) -> tuple[float, float]:
        """Asks for the last checkpoint; until when the application may take, and when it is to be asked again."""
        self._halting = True
        left = self._allocation.seconds_left()
        why = "it was told to stop" if self._allocation.signals else f"{left:.0f} s are left" if left is not None else "it ends"
        self._say(f"the allocation ends ({why}): asking for a last checkpoint")
        # Half of what is left belongs to the application, half to carrying its checkpoint to the store.
        kill_at = time.monotonic() + 0.5 * (min(left, self._limits.reserve) if left is not None else self._limits.reserve)
        ask_at = self._ask_to_halt(launch, mark)
        if ask_at < float("inf"):
            self._say("no agent knows of the job's rank 0 yet: it is asked when it has begun")
        return kill_at, ask_at

    def _ask_to_halt(self, launch: Launch, mark: LaunchMark) -> float:
        """When to ask again: rank 0 may not have begun with Kedge yet."""
        self._follow(self._agents.opened(launch.nodes[0], mark))
        return float("inf") if self._agents.halt(launch.nodes, self._job) else time.monotonic() + _ASK_AGAIN_SECONDS

    def _pause(self, idle_launches: int) -> bool:
        """Before the next launch; False when the time is over."""
        pause = min(self._limits.back_off * 2.0 ** (idle_launches - 1), self._limits.back_off_max) if idle_launches > 0 else 0.0
        if pause > 0:
            self._say(f"the next launch begins in {pause:.0f} s")
        end = time.monotonic() + pause
        with self._stages.stage("the pause after a launch without progress") if pause > 0 else contextlib.nullcontext():
            while not (is_ending := self._allocation.is_ending(self._limits.reserve)) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
        return not is_ending

    def _was_told_to_exit(self, answers: Mapping[str, Answer], nodes: list[str]) -> bool:
        return any(entry["told_to_exit"] for entry in entries_of(_of(answers, nodes), self._job))

    def _finish(self, told_to_exit: bool) -> None:
        if told_to_exit:
            return self._out_of_time("the application took its last checkpoint and ended") if self._halting else self._halted()
        began = self._free_nodes()
        stored = self._drain(rescue=False)
        self._report.node_seconds_saved = round(len(self._report.freed) * (time.monotonic() - began), 3)
        if self._report.not_drained:
            return self._conclude("finished", "the application finished, but not all is in the store", ExitCode.GAVE_UP, stored)
        # Nobody continues from what lies on the nodes, and nobody is left to free it.
        for node, why in self._agents.leave(self._nodes.in_use).items():
            self._say(f"the agent of node {node} leaves its files there: {why}")
        self._conclude("finished", "the application finished", ExitCode.FINISHED, stored)

    def _out_of_time(self, reason: str) -> None:
        stored = self._drain(rescue=True)
        if stored == {}:
            return self._conclude("out of time", f"{reason}; it leaves no checkpoint to continue from", ExitCode.GAVE_UP, stored)
        self._conclude("out of time", reason, self._limits.requeue_code, stored)

    def _halted(self, how: str = "") -> None:
        self._conclude("halted", "somebody asked it to (kedge halt)" + how, ExitCode.HALTED, self._drain(rescue=True))

    def _lost(self, found: Prospects) -> None:
        reason = f"there is no checkpoint left to continue from, and there were some ({show_missing(found.lost, self._job)}); --if-lost=begin begins anew"
        self._conclude("lost", reason, ExitCode.LOST, self._drain(rescue=True))

    def _unknown(self, found: Prospects) -> None:
        reason = (
            f"no answer from {', '.join(found.silent)}, which may have a checkpoint to continue from; without them there is none "
            f"({show_missing(found.unknown, self._job)}). Nothing is known to be lost: run the job again when they answer"
        )
        self._conclude("silent nodes", reason, ExitCode.SILENT_NODES, self._drain(rescue=True))

    def _give_up(self, reason: str) -> None:
        self._conclude("gave up", reason, ExitCode.GAVE_UP, self._drain(rescue=True))

    def _free_nodes(self) -> float:
        """Staging agents take over what the nodes have, which the job needs no longer. When that was done."""
        if self._staging:
            running = self._agents.running(self._nodes.in_use)
            with self._stages.stage("staging agents take over what the nodes have"):
                kept = self._agents.leave(running, self._drain_seconds())
            freed = self._report.freed = [node for node in running if node not in kept]
            self._say(f"{len(freed)} of {len(self._nodes.in_use)} nodes are free: staging agents have what is not in the store yet")
            if self._limits.release_nodes and (why := give_back(freed)):
                self._say(f"SLURM does not take these nodes back: {why}")
        return time.monotonic()

    def _drain_seconds(self) -> float:
        left = self._allocation.seconds_left()
        return self._limits.drain if left is None else max(1.0, min(self._limits.drain, left - 5.0))

    def _drain(self, *, rescue: bool) -> Newest | None:
        """What the nodes owe to the store gets there; with `rescue` also what survives on them and was not meant for it.

        The newest versions that the store has then; None when it cannot be read.
        """
        end = time.monotonic() + self._drain_seconds()
        with self._stages.stage("what the nodes have goes to the store"):
            answers = self._health.ask(self._nodes.in_use) if rescue else {}
            dead = self._health.dead_among(self._nodes.in_use, answers) if rescue else {}
            nodes = [node for node in self._nodes.in_use if node not in dead and node not in self._report.freed]
            failed: dict[str, str] = {}
            if rescue and all(self._agents.protected(_of(answers, nodes), self._job)):
                failed = self._agents.rescue(nodes, self._job, max(1.0, end - time.monotonic()))
            nodes += self._staging.running() if self._staging else []
            # Burst buffers of the run end with it.
            drains = self._buffers is not None and self._buffers.drains_to != ""
            self._report.not_drained = dead | failed | self._agents.drain(nodes, max(1.0, end - time.monotonic()), past_buffers=drains)
        for node, why in self._report.not_drained.items():
            self._say(f"not everything of node {node} is in the store: {why}")
        return newest_versions(self._tool, self._job)

    def _conclude(self, outcome: str, reason: str, code: int, stored: Newest | None) -> None:
        report = self._report
        report.outcome, report.reason, report.exit_code = outcome, reason, int(code)
        report.versions = numbers(stored)
        if report.launches:  # its last versions may have come to the store since
            report.launches[-1].advanced |= has_advanced(self._safe, stored)
        report.after = self._stages.take()
        self._say(f"{outcome}: {reason}; newest in the store: {show(report.versions)}")


def _of(answers: Mapping[str, Answer], nodes: list[str]) -> list[Answer]:
    return [answers[node] for node in nodes if node in answers]


def end_launch(process: subprocess.Popen[bytes], patience_seconds: float) -> None:
    """Ends a launcher and its group; the launcher sees its ranks out, as long as it can and has time."""
    for number, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def describe(launch: Launch) -> str:
    """How a launch ended, for people."""
    if launch.ended:
        return "had to be ended" + (f" (dead: {', '.join(launch.dead)})" if launch.dead else "")
    return f"ended with {describe_exit(launch.exit_code)}" + (f" ({launch.refusal})" if launch.refusal else "")


def describe_exit(exit_code: int) -> str:
    """Above 128 a shell's way to say that a signal ended a program, and a launcher's own codes: nobody can tell which."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {exit_code}"
    return name if exit_code < 0 else f"exit code {exit_code} (as after {name})"


def why_hopeless(launch: Launch) -> str:
    """Why the next launch would end in the same way; empty: it may not."""
    if launch.ended or launch.refusal or launch.advanced:
        return ""
    if launch.refused:
        return f"Kedge refuses, and would refuse again: {launch.refused}"
    if launch.exit_code in (-signal.SIGILL, 128 + signal.SIGILL):
        return "the program has instructions that the processors here do not know"
    if launch.exit_code == _REPLACED:
        return "somebody has let another fmirun take over (fmirun --take-over)"
    if launch.exit_code == _NOT_EXECUTABLE:
        return "the program cannot be run"
    if launch.exit_code == _NOT_FOUND:
        return "a program that it runs, or a shared library that it needs, is not there"
    return ""


def describe_start(found: Prospects | None) -> str:
    """What a launch finds, for people."""
    if found is None:
        return "what it finds to continue from cannot be told beforehand"
    lost = f"lost, so it begins anew: {', '.join(sorted(found.lost))}" if found.lost else ""
    there = f"newest found to continue from: {show(found.versions)}" if found.versions else "" if lost else "nothing to continue from"
    return "; ".join(filter(None, (there, lost)))


def show_missing(missing: dict[str, str], job: str) -> str:
    """What cannot be had by checkpoint name, for people: a line, in which job and name are not said again."""
    return "; ".join(f"'{name}': {why.removeprefix(f'{job}/{name} ').strip()}" for name, why in missing.items()).replace("\n", "; ")


def show(versions: Versions) -> str:
    """Newest versions, for people."""
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or "none"


def say_on_stderr(text: str) -> None:
    """A line of progress."""
    print(f"kedge run: {text}", file=sys.stderr, flush=True)
