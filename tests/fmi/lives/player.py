"""Plays a life (life.py) on this machine, with virtual nodes and folders of its own, and notes what happens in its order.

Nothing is judged here (promises.py). All processes are known by a variable of their environment, and ended by process id.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from connections import end_connections
from lives.life import Fault, Life
from processes import kill_all

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
FMIRUN = BUILD / "bin" / "fmirun"
PROGRAM = BUILD / "test" / "fmi_steps"
MARK = "FMI_LIFE"

# Nothing has happened for so long: it hangs.
QUIET_SECONDS_MAX = 60.0
# For processes to end after fmirun, and for agents to leave when the job has ended: what they have lent to one that has died comes
# back after a minute.
END_SECONDS_MAX = 10.0
LEAVE_SECONDS_MAX = 120.0
# An fmirun that another one has replaced ends with this.
REPLACED = 79
# Nodes that may be asked for in a life.
MORE_MAX = 200
ONLY_COPIES = "versions that are on this node only are kept"
# Of loops within steps; an event counts them behind its step.
TURNS_MAX = 1000


@dataclass(frozen=True)
class Process:
    pid: int
    role: str  # rank, task, agent, fmirun
    rank: int
    node: str


@dataclass
class Launch:
    """One fmirun with its successors: what it was given, what befell it, and how the last one ended (None: it did not)."""

    nodes: list[str]
    spares: int
    lost: set[str] = field(default_factory=set)
    was_killed: bool = False  # with all that it had
    successor_after: float = 0  # seconds after the death of fmirun
    successors: list[subprocess.Popen[str]] = field(default_factory=list)  # that have come while it lives
    readers: list[threading.Thread] = field(default_factory=list)
    code: int | None = None
    said: list[str] = field(default_factory=list)


@dataclass
class Record:
    """What happened. Events are (what, rank or -1, step or -1), in their order: "at" and "back" of the program, "turn" and
    "turn-back", whose step is TURNS_MAX times the step, and the turn, and "memory" for a fault that took checkpoints along."""

    life: Life
    expected: str = ""
    launches: list[Launch] = field(default_factory=list)
    events: list[tuple[str, int, int]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)  # those that befell something
    killed: set[int] = field(default_factory=set)
    faulted_nodes: set[str] = field(default_factory=set)
    hang: str = ""
    left: list[str] = field(default_factory=list)
    was_stopped: bool = False  # from outside; nothing is known of its end


class Player:
    """One play of a life."""

    def __init__(self, life: Life, tell: Callable[[str], None], stopping: threading.Event) -> None:
        self.life, self.record, self.stopping = life, Record(life), stopping
        self.folder = Path(tempfile.mkdtemp(prefix="fl-"))
        self.names = [f"{self.folder.name}-{number}" for number in range(life.nodes + life.spares)]
        self.more = [f"{self.folder.name}-{number}" for number in range(len(self.names), len(self.names) + MORE_MAX)] if life.more else []
        (self.folder / "more").write_text("".join(f"{name}\n" for name in self.more))
        self.mark = f"{MARK}={self.folder.name}"
        self.state = self.folder / "state"
        self.run_folders = Path("/dev/shm") / f"kedge-{os.getuid()}"
        self.begin, self.quiet_since, self.lock = time.monotonic(), time.monotonic(), threading.Lock()
        self.next_at = self.begin  # the next fault
        self.stopped: list[tuple[float, int]] = []
        self.lost: set[str] = set()
        self.without_agent: set[str] = set()  # nodes whose agent was killed
        self._tell = tell

    def play(self) -> Record:
        try:
            self._reference()
            self._live()
            # Agents of a job that has not completed keep what the next launch goes on from.
            if self.record.launches[-1].code == 0 and not self.record.was_stopped:
                self.record.left += self._left_over()
            return self.record
        finally:
            kill_all([self.mark.encode()])
            for node in [*self.names, *self.more, f"{self.folder.name}-r"]:
                shutil.rmtree(self.run_folders / node, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)

    def tell(self, what: str) -> None:
        self._tell(f"{time.monotonic() - self.begin:8.3f} {what}")

    def _environment(self, keys: dict[str, str], **more: str) -> dict[str, str]:
        keys = {f"KEDGE_{name.replace('.', '_').upper()}": value for name, value in keys.items()}
        own = {
            "KEDGE_STORE_PATH": str(self.folder / "store"), "KEDGE_PLACEMENT_CALIBRATIONS": str(self.folder / "calibrations"),
            "KEDGE_POOL_SIZE": "64MiB", "KEDGE_AGENT_IDLE_TIMEOUT": "2s", "KEDGE_JOB_NAME": "life", MARK: self.folder.name,
        }
        return {name: value for name, value in os.environ.items() if not name.startswith(("KEDGE_", "FMI_"))} | own | keys | more

    def _program(self, pause: int) -> list[str]:
        how = ["jumping"] if self.life.jumping else ["careless"] if self.life.careless else []
        return [str(PROGRAM), str(self.life.program), str(self.life.steps), str(pause), *how]

    def _reference(self) -> None:
        """What the program finds where nothing happens, on one node."""
        words = [str(FMIRUN), "-n", str(self.life.ranks), "--interval", "1000000", *self._program(0)]
        variables = self._environment({}, KEDGE_NODE=f"{self.folder.name}-r", KEDGE_JOB_NAME="reference")
        done = subprocess.run(words, env=variables, cwd=self.folder, capture_output=True, text=True, timeout=1800, check=False)
        results = [line for line in done.stdout.splitlines() if line.startswith("result ")]
        if done.returncode != 0 or len(results) != 1:
            raise RuntimeError(f"nothing befell it, and it ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        self.record.expected = results[0]
        self.begin = self.quiet_since = time.monotonic()

    # ---- The job ----

    def _live(self) -> None:
        due = [*self.life.faults]
        self.next_at = self.begin + (due[0].after if due else 0)
        while True:
            launch = self._place()
            words = self._command(launch)
            while True:
                process = launch.successors.pop(0) if launch.successors else self._start(words, launch)
                self._watch(lambda process=process: process.poll() is None, due, launch)  # type: ignore[misc]
                if self.record.was_stopped or self.record.hang:
                    break
                launch.code = process.wait()
                self.tell(f"fmirun has ended with {launch.code}")
                if launch.successors:
                    # Or another successor has been faster.
                    if launch.code in (REPLACED, -signal.SIGKILL, 1):
                        continue
                    # It has ended with its job, and they find nothing.
                    for successor in launch.successors:
                        successor.wait()
                if launch.code != -signal.SIGKILL or launch.was_killed:
                    break
                successor_at = time.monotonic() + launch.successor_after
                self._watch(lambda end=successor_at: time.monotonic() < end, due, launch)  # type: ignore[misc]
                if not self.state.exists():
                    launch.was_killed = True  # before it had begun, or behind its end
                    break
                words = self._take_over()
            if self.record.was_stopped or self.record.hang:
                kill_all([self.mark.encode()])
                launch.code = process.wait()
                if self.record.was_stopped:
                    return
            self._continue(float("inf"))
            self._await_processes()
            for reader in launch.readers:
                reader.join()
            if self.record.hang or not self._goes_on(launch):
                return
            shutil.rmtree(self.state, ignore_errors=True)

    def _watch(self, goes_on: Callable[[], bool], due: list[Fault], launch: Launch) -> None:
        """Lets faults befall the job meanwhile."""
        while goes_on() and not self.record.hang:
            now = time.monotonic()
            self._continue(now)
            if due and now >= self.next_at:
                self._befall(due.pop(0), launch)
                self.next_at = time.monotonic() + (due[0].after if due else 0)
            elif now - self.quiet_since > QUIET_SECONDS_MAX:
                self._note_hang()
            elif self.stopping.is_set():
                self.record.was_stopped = True
                return
            else:
                time.sleep(max(0.0, min(0.02, self.next_at - now if due else 0.02)))

    def _place(self) -> Launch:
        """The next launch, on the nodes that are left; where they are too few, those that were lost have begun anew."""
        if len(self.names) - len(self.lost) < self.life.nodes:
            self.lost.clear()
        nodes = [name for name in self.names if name not in self.lost]
        self.record.launches.append(Launch(nodes, len(nodes) - self.life.nodes))
        return self.record.launches[-1]

    def _command(self, launch: Launch) -> list[str]:
        where = ["--virtual", ",".join(launch.nodes), "--spares", str(launch.spares)] if len(self.names) > 1 else []
        if self.more:
            # Two may be asked for at once.
            where += ["--more", f"flock {self.folder}/more sh -c 'sleep 0.3; head -n 1 {self.folder}/more; sed -i 1d {self.folder}/more'"]
        program = self._program(self.life.pause)
        if self.life.deaths and len(self.record.launches) == 1:
            cases = "".join(f"{rank}.{start}) export KEDGE_TEST_KILL_POINT={point};;" for (rank, start), point in self.life.deaths.items())
            program = ["sh", "-c", f'case $FMI_RANK.$FMI_RESPAWNS in {cases} esac; exec {shlex.join(program)}']
        how = ["--interval", str(self.life.interval), "--failures", "1000", "--state", str(self.state)]
        return [str(FMIRUN), "-n", str(self.life.ranks), *where, *how, *program]

    def _take_over(self) -> list[str]:
        return [str(FMIRUN), "--take-over", str(self.state)]

    def _start(self, words: list[str], launch: Launch) -> subprocess.Popen[str]:
        variables = self._environment(self.life.keys)
        if len(self.names) == 1:
            variables["KEDGE_NODE"] = self.names[0]
        self.tell(shlex.join(words))
        process = subprocess.Popen(words, env=variables, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # What the ranks say comes here as long as they live, whoever is their fmirun.
        for stream in (process.stdout, process.stderr):
            launch.readers.append(threading.Thread(target=self._read, args=(stream, launch)))
            launch.readers[-1].start()
        return process

    def _goes_on(self, launch: Launch) -> bool:
        """Whether it has died rather than ended, so that the next launch goes on."""
        wants = ("no spare node is left", "no other node is to be had", "no task of the job is left")
        for_want_of_nodes = any(want in line for line in launch.said for want in wants) and len(launch.lost) > launch.spares
        return launch.code != 0 and (launch.was_killed or for_want_of_nodes) and len(self.record.launches) < 100

    def _read(self, stream: IO[str] | None, launch: Launch) -> None:
        for line in stream or ():
            line = line.rstrip("\n")
            word, *words = line.split(" ") if line else [""]
            with self.lock:
                self.quiet_since = time.monotonic()
                if word in ("at", "back"):
                    self.record.events.append((word, int(words[0]), int(words[1])))
                elif word in ("turn", "turn-back"):
                    self.record.events.append((word, int(words[0]), int(words[1]) * TURNS_MAX + int(words[2])))
                elif word == "result":
                    self.record.results.append(line)
                elif word == "wrong:":
                    self.record.wrong.append(line)
                if word not in ("at", "turn", "end"):
                    self.tell(line)
                if word not in ("at", "back", "turn", "turn-back", "end", "result"):
                    launch.said.append(line)

    def _note_hang(self) -> None:
        self.record.hang = f"nothing has happened for {QUIET_SECONDS_MAX:g} s"
        for process in self._processes():
            self.tell(f"{process}\n{stack(process.pid)}")

    def _await_processes(self) -> None:
        """All but agents end with fmirun."""
        deadline = time.monotonic() + END_SECONDS_MAX
        while left := [process for process in self._processes() if process.role != "agent"]:
            if time.monotonic() > deadline:
                self.record.left += [f"{process} has outlived its fmirun" for process in left]
                kill_all([self.mark.encode()])
                return
            time.sleep(0.02)

    def _left_over(self) -> list[str]:
        """When its agents have left."""
        deadline = time.monotonic() + LEAVE_SECONDS_MAX
        while (left := self._processes()) and time.monotonic() < deadline and not self.stopping.is_set():
            time.sleep(0.05)
        if self.stopping.is_set():
            self.record.was_stopped = True
            return []
        found = [f"{process} has not left after the job" for process in left]
        for path in [*Path("/dev/shm").glob(f"*{self.folder.name}*"), *self.run_folders.glob(f"*{self.folder.name}*")]:
            if not any(file.is_file() for file in path.rglob("*")):
                continue  # of an agent that ended while it began, with the rank that had started it
            log = (path / "agent.log").read_text() if (path / "agent.log").exists() else ""
            self.tell(f"{path} is left: {log[-300:]}")
            # The only copies of a version stay, and what an agent has left that was killed.
            if self.life.keys.get("schedule.store") == "1" or ONLY_COPIES not in log[-300:]:
                found += [f"{path} is left"] if path.name not in self.without_agent else []
        return found

    # ---- Faults ----

    def _processes(self) -> list[Process]:
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{entry}/environ").read_bytes()
                if self.mark.encode() not in text:
                    continue
                variables = dict(word.split("=", 1) for word in text.decode(errors="replace").split("\0") if "=" in word)
                words = Path(f"/proc/{entry}/cmdline").read_text().split("\0")
                rank = int(variables.get("FMI_RANK", "-1"))
                # A process that is about to become an agent is a child of a rank, and known as that.
                role = "agent" if "kedge-agent" in words[0] else "rank" if rank >= 0 else "task" if "--task" in words else "fmirun"
                if words != [""]:
                    found.append(Process(int(entry), role, rank, variables.get("KEDGE_NODE", "")))
        return found

    def _befall(self, fault: Fault, launch: Launch) -> None:
        verb, _, what = fault.verb.partition("-")
        seconds = float(fault.words[-1]) if verb == "stop" else 0
        chosen = [int(word) for word in (fault.words[:-1] if verb == "stop" or what == "fmirun" else fault.words)]
        role = what or "rank"
        processes, node = self._processes(), ""
        if role == "rank":
            hit = [process for process in processes if process.role == role and process.rank in chosen]
        elif role == "fmirun":
            hit = [process for process in processes if process.role == role]
        else:
            node = [*self.names, *self.more][chosen[0]]
            hit = [process for process in processes if process.node == node and role in ("node", process.role)]
        if verb == "cut":
            hit = [process for process in hit if end_connections(process.pid) > 0]
        if not hit or (verb == "replace" and not self.state.exists()):
            return self.tell(f"(not {fault.text()})")
        with self.lock:
            self.quiet_since = time.monotonic()
            self.record.faults.append(fault)
            self.tell(f"{fault.text()}: {', '.join(f'{process.role} {process.pid}' for process in hit)}")
            if role in ("node", "task") and verb != "stop":
                self.record.events.append(("memory", -1, -1))
                self.record.faulted_nodes.add(node)
                self.lost |= {node} & {*self.names}
                launch.lost.add(node)
            if verb == "kill":
                self.record.killed |= {process.pid for process in hit}
                self.without_agent |= {process.node for process in hit if process.role == "agent"}
            launch.was_killed = launch.was_killed or (verb == "kill" and role == "node" and any(p.role == "fmirun" for p in hit))
            if verb == "kill" and role == "fmirun":
                launch.successor_after = float(fault.words[0]) if fault.words else 0
        if verb == "stop":
            self._signal(hit, signal.SIGSTOP)
            self.stopped += [(time.monotonic() + seconds, process.pid) for process in hit]
        elif verb == "kill":
            self._kill(hit, role)
        elif verb == "replace":
            launch.successors.append(self._start(self._take_over(), launch))

    def _kill(self, hit: list[Process], role: str) -> None:
        if role == "node":
            # At once: what lives for a moment longer does nothing.
            self._signal(hit, signal.SIGSTOP)
            self._signal(hit, signal.SIGKILL)
            kill_all([f"KEDGE_NODE={hit[0].node}".encode(), self.mark.encode()])
            shutil.rmtree(self.run_folders / hit[0].node, ignore_errors=True)
        else:
            self._signal(hit, signal.SIGKILL)

    def _signal(self, processes: list[Process], number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _continue(self, now: float) -> None:
        """Whoever has stood still for long enough."""
        for due, pid in self.stopped:
            if due <= now:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.stopped = [(due, pid) for due, pid in self.stopped if due > now]


def stack(pid: int) -> str:
    """Where the process is, if there is a debugger."""
    if shutil.which("gdb") is None:
        return ""
    with contextlib.suppress(subprocess.TimeoutExpired):
        said = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "bt 16"], capture_output=True, text=True, timeout=20, check=False)
        return "\n".join(line[:160] for line in said.stdout.splitlines() if line.startswith("#"))
    return ""
