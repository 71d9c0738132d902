"""One launch of an application under mpirun with the witness preloaded, and its planned death.

The kill is armed in the victim itself, as a kernel timer that starts with one of its checkpoint calls, so that
microseconds can be aimed at; one in the middle of a flush comes from this side, which sees the version's folder grow in the store.
A victim that comes to its end before either dies there (witness.c).
This side waits for the victim's end on a process handle, kills the agent in the same moment where that is asked for, and then sees
the launcher out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from applications import Application
from node import Node, process_handle, wait_for_end, wait_until

LAUNCHERS = {"openmpi": ("mpirun.openmpi", "mpirun"), "mpich": ("mpiexec.mpich", "mpiexec.hydra")}
START_SECONDS_MAX = 120
END_SECONDS_MAX = 60  # for a launcher to end once one of its ranks is dead


class LaunchError(Exception):
    """A launch that did not go as a launch must go; the text is for people."""


@dataclasses.dataclass(frozen=True)
class Kill:
    """SIGKILL to `rank`, so many seconds after its checkpoint call of `version` began; for a flush, once that is seen under way."""

    rank: int
    version: int
    seconds: float
    moment: str  # what is aimed at: "random", "checkpoint" or "flush"
    with_agent: bool = False
    with_memory: bool = False  # the agent and the pool too, as at a reboot

    @property
    def takes_agent(self) -> bool:
        return self.with_agent or self.with_memory


@dataclasses.dataclass
class Launch:
    """What came of one launch."""

    number: int
    kill: Kill | None
    killed: bool = False
    hit: str = ""  # where the victim was when it died, as seen in its shared mapping and in the store
    agent_killed: bool = False
    died: float = 0  # when the victim and what died with it were killed, as seen from here; seconds since 1970
    exit_code: int = 0
    output: str = ""
    seconds: float = 0
    log: Path = Path()
    events: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def of(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.events if entry["event"] == event]


class StoreWatch:
    """Notes when each version became complete in the store: the time of its version record.

    Old versions are removed while the job goes on, so look() is called every few milliseconds.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self.durable: dict[tuple[str, int, int], float] = {}  # (job, version, attempt) to seconds since 1970

    def look(self) -> None:
        for record in self._store.glob("jobs/*/names/*/*-*-*/version"):
            with contextlib.suppress(OSError, ValueError):
                version, attempt, _ = record.parent.name.split("-")
                key = (record.parents[3].name, int(version), int(attempt))
                if key not in self.durable:
                    self.durable[key] = record.stat().st_mtime_ns * 1e-9

    def has_begun(self, job: str, version: int) -> bool:
        """Whether something of it lies in the store."""
        return any(self._store.glob(f"jobs/{job}/names/*/{version}-*"))


class Launcher:
    """Starts an application on a node; at most one launch at a time."""

    def __init__(self, build: Path, node: Node, mpi: str, ranks: int, progress: Callable[[str], None]) -> None:
        self._build = build
        self._node = node
        self._mpi = mpi
        self._ranks = ranks
        self._progress = progress
        self.watch = StoreWatch(node.store)
        program = next(filter(None, map(shutil.which, LAUNCHERS[mpi])), None)
        if program is None:
            raise LaunchError(f"no MPI launcher: looked for {' and '.join(LAUNCHERS[mpi])} on PATH")
        self._launcher = program

    def program(self, application: Application) -> Path:
        return self._build / "examples" / (application.program + ("-mpich" if self._mpi == "mpich" else ""))

    def run(self, application: Application, job: str, number: int, kill: Kill | None = None) -> Launch:
        """Runs to the end, or to the planned death; raises LaunchError when it ends in any other way."""
        folder = self._node.folder / job / str(number)
        folder.mkdir(parents=True)
        launch = Launch(number, kill, log=folder / "log")
        began = time.monotonic()
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                self._command(application, folder, kill), cwd=folder, env=self._node.mpi_environment(job), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )
            with contextlib.ExitStack() as handles:
                try:
                    self._see_out(process, application, launch, folder, handles)
                finally:
                    self._end(process, folder)
        launch.exit_code = process.returncode
        launch.seconds = time.monotonic() - began
        launch.output = (folder / "output").read_text(errors="replace")
        launch.events = _events(folder)
        self.watch.look()
        if not launch.killed and launch.exit_code != 0:
            raise LaunchError(f"{application.program} ended with {launch.exit_code}:\n{launch.output[-4000:]}")
        return launch

    def _command(self, application: Application, folder: Path, kill: Kill | None) -> list[str]:
        variables = {"LD_PRELOAD": str(self._build / "examples" / "libkedge-witness.so"), "WITNESS_FOLDER": str(folder)}
        if kill is not None:
            by_timer = f"{kill.version} {kill.seconds:.9f}"
            variables["WITNESS_KILL"] = f"{kill.rank} {by_timer if kill.moment != 'flush' else '-1 0'}"
        command = [self._launcher, "-n", str(self._ranks)]
        for name, value in variables.items():
            command += ["-x", f"{name}={value}"] if self._mpi == "openmpi" else ["-genv", name, value]
        return [*command, str(self.program(application)), *application.arguments(folder / "log")]

    def _see_out(self, process: subprocess.Popen[bytes], application: Application, launch: Launch, folder: Path,
                 handles: contextlib.ExitStack) -> None:
        kill = launch.kill
        victim = None
        agent = None
        reported = time.monotonic()
        started = time.monotonic()
        while process.poll() is None:
            self.watch.look()
            if kill is not None and victim is None:
                victim = self._victim(folder, kill.rank, handles)
                if victim is None and time.monotonic() - started > START_SECONDS_MAX:
                    raise LaunchError(f"{application.program} did not start within {START_SECONDS_MAX} s")
            if kill is not None and kill.takes_agent and agent is None and _newest_version(folder) > 0:
                agent = self._agent(handles)
            if kill is not None and victim is not None and launch.died == 0 and self._flush_has_begun(kill, folder):
                launch.died = time.time()
                launch.agent_killed = kill.takes_agent and self._node.kill_agent(agent)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(victim, signal.SIGKILL)
            if victim is not None and wait_for_end(victim, 0.003):
                if launch.died == 0:
                    assert kill is not None
                    launch.agent_killed = kill.takes_agent and self._node.kill_agent(agent)
                    launch.died = time.time()
                self._victim_died(process, launch, folder)
                return
            if victim is None:
                time.sleep(0.003)
            if time.monotonic() - reported > 2:
                reported = time.monotonic()
                self._progress(f"{reported - started:3.0f} s: checkpoint {_newest_version(folder)} of {application.steps} steps")
        if kill is not None and process.returncode != 0:  # it died before a handle of it was had
            launch.agent_killed = kill.takes_agent and self._node.kill_agent()
            launch.died = time.time()
            self._victim_died(process, launch, folder)

    def _victim(self, folder: Path, rank: int, handles: contextlib.ExitStack) -> int | None:
        with contextlib.suppress(OSError, IndexError, ValueError):
            first = json.loads((folder / f"{rank}.jsonl").read_text().splitlines()[0])
            return handles.enter_context(process_handle(first["pid"]))
        return None

    def _flush_has_begun(self, kill: Kill, folder: Path) -> bool:
        """Whether a flush is aimed at, the victim has left its checkpoint call, and something of the version is in the store."""
        if kill.moment != "flush" or not self.watch.has_begun(folder.parent.name, kill.version):
            return False
        return any(event["event"] == "checkpoint" and event["rank"] == kill.rank and event["version"] == kill.version
                   for event in _events(folder))

    def _agent(self, handles: contextlib.ExitStack) -> int | None:
        agent = self._node.agent()
        with contextlib.suppress(OSError):
            return None if agent is None else handles.enter_context(process_handle(agent))
        return None

    def _victim_died(self, process: subprocess.Popen[bytes], launch: Launch, folder: Path) -> None:
        kill = launch.kill
        assert kill is not None
        launch.killed = True
        if kill.with_memory:
            self._node.lose_memory()
        if not wait_until(lambda: process.poll() is not None, END_SECONDS_MAX):
            raise LaunchError(f"the launcher still runs {END_SECONDS_MAX} s after rank {kill.rank} was killed; with its processes:\n"
                              + "\n".join(_family(process.pid)))
        self.watch.look()
        launch.hit = self._where(launch, folder)

    def _where(self, launch: Launch, folder: Path) -> str:
        """Where the victim was, in words: in a checkpoint call, or computing, and whether a flush was under way."""
        kill = launch.kill
        assert kill is not None
        died = launch.died
        word = (folder / f"{kill.rank}.where").read_bytes().rstrip(b"\0").decode()
        if word == "checkpoint":
            return f"in checkpoint {kill.version}"
        taken = [event for event in _events(folder) if event["event"] == "checkpoint" and event["rank"] == kill.rank]
        if not taken:
            return "before its first checkpoint"
        newest = taken[-1]["version"]
        if newest == kill.version and kill.moment != "flush" and not launch.agent_killed:
            died = taken[-1]["began"] + kill.seconds  # by the victim's own timer, closer than what is seen from here
        job = folder.parent.name
        durable = [seconds for (name, version, _), seconds in self.watch.durable.items() if (name, version) == (job, newest)]
        flushing = not durable or max(durable) > died
        return f"in the flush of {newest}" if flushing else f"computing after {newest}"

    def _end(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Leaves no process of this launch behind, whatever happened."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for event in _events(folder):
            if event["event"] == "start" and _is_rank_of(event["pid"], folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(event["pid"], signal.SIGKILL)


def _family(process: int) -> list[str]:
    """A line for a process and each that it has started: id, state, where it waits in the kernel, and command."""
    lines = []
    with contextlib.suppress(OSError):
        folder = Path(f"/proc/{process}")
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100]
        state = (folder / "stat").read_text().rpartition(") ")[2].split()[0]
        waits = (folder / "wchan").read_text()
        lines.append(f"  {process} {state} {waits} {command}")
        for task in (folder / "task").iterdir():
            for child in (task / "children").read_text().split():
                lines += _family(int(child))
    return lines


def _is_rank_of(process: int, folder: Path) -> bool:
    """Whether this process id still belongs to a rank of the launch in `folder`, which its environment names."""
    with contextlib.suppress(OSError):
        return f"WITNESS_FOLDER={folder}\0".encode() in Path(f"/proc/{process}/environ").read_bytes()
    return False


def _events(folder: Path) -> list[dict[str, Any]]:
    events = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            with contextlib.suppress(ValueError):  # a line cut short by the kill
                events.append(json.loads(line))
    return events


def _newest_version(folder: Path) -> int:
    versions = [event["version"] for event in _events(folder) if event["event"] in ("checkpoint", "restart")]
    return max(versions, default=0)
