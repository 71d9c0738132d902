"""Nodes that SLURM is asked for while the job runs: where one has died and no spare is left, fmirun waits for another one.

Each is a job of its own that sleeps there, of one node like those that the job has, and ends with it. fmirun asks by a file in a
folder (``ask.N``), and reads there what came of it (``node.N``, ``none.N``); the folder also has the command by which it reaches
nodes, whichever job they belong to. Nothing here waits: look() is called again and again.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kedge.run.allocation import slurm_seconds_left
from kedge.run.shells import SlurmShell

_ASK_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 30.0
# Of squeue %T, until the job runs.
_WAITING = {"PENDING", "CONFIGURING"}
# It asks, and waits as long as the process lives that answers.
_ASK = """\
#!/bin/sh
cd {folder} || exit 1
: > ask.$$
while [ ! -e node.$$ ] && [ ! -e none.$$ ]; do kill -0 {process} || exit 1; sleep 0.2; done
cat node.$$ 2>/dev/null || {{ sed 's/^/no other node: /' none.$$ >&2; exit 1; }}
"""
_REACH = """\
#!/bin/sh
# A command on a node of the job, or of one that was submitted for it.
node=$1
shift
job=$(cat {folder}/job."$node" 2>/dev/null)
exec {opening} ${{job:+--jobid="$job"}} --nodelist "$node" "$@"
"""


@dataclass
class _Request:
    number: str
    job: str
    began: float
    told: float


class MoreNodes:
    """At most so many nodes of SLURM besides those of the allocation that this process runs in."""

    def __init__(self, shell: SlurmShell, job: str, count_max: int, say: Callable[[str], None]) -> None:
        """`job`: the allocation's number."""
        self._shell, self._job, self._left, self._say = shell, job, count_max, say
        self._folder = Path(tempfile.mkdtemp(prefix="kedge-more-"))
        self._requests: list[_Request] = []
        self._jobs: list[str] = []
        self._next_look = 0.0
        *opening, nodelist = shell.opening()
        assert nodelist == "--nodelist"
        for name, script in (("ask", _ASK), ("reach", _REACH)):
            path = self._folder / name
            path.write_text(script.format(folder=shlex.quote(str(self._folder)), process=os.getpid(), opening=shlex.join(opening)))
            path.chmod(0o700)

    def command(self) -> str:
        """For fmirun: writes a node's name, once there is one."""
        return shlex.quote(str(self._folder / "ask"))

    def reach(self) -> list[str]:
        """As Shell.opening(), for all nodes."""
        return [str(self._folder / "reach")]

    def look(self, known: Iterable[str], begin: Callable[[str], None]) -> list[str]:
        """Nodes that have come since; `begin` is called with each before fmirun is told of it.

        `known`: nodes that the job has or had, of which none is asked for.
        """
        for file in self._folder.glob("ask.*"):
            file.unlink()
            self._ask(file.name.removeprefix("ask."), {*known, *self._shell.jobs})
        now = time.monotonic()
        if not self._requests or now < self._next_look:
            return []
        self._next_look = now + _LOOK_SECONDS
        return [node for request in list(self._requests) if (node := self._come(request, now, begin))]

    def end(self) -> None:
        """All of them go back."""
        if self._jobs:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(["scancel", *self._jobs], capture_output=True, timeout=_ASK_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, number: str, known: set[str]) -> None:
        if self._left == 0:
            return self._answer(number, "none", "--more does not allow for another node")
        code, said = _run(self._submission(known))
        if code != 0 or not re.fullmatch(r"\d+(;.*)?", said):
            return self._answer(number, "none", f"sbatch submits nothing: {said}")
        self._left -= 1
        job = said.split(";")[0]
        self._jobs.append(job)
        self._requests.append(_Request(number, job, time.monotonic(), time.monotonic()))
        self._say(f"another node is asked of SLURM (job {job})")

    def _submission(self, known: set[str]) -> list[str]:
        """A node like the others, for as long as the job has them."""
        # One that has processors left, of which the job has some, would be as good to SLURM.
        words = ["sbatch", "--parsable", f"--exclude={','.join(sorted(known))}", "--nodes=1", "--ntasks=1", f"--job-name=kedge-more-{self._job}", "--output=/dev/null", "--export=PATH,SLURM_CONF"]
        for option, name in (("partition", "SLURM_JOB_PARTITION"), ("account", "SLURM_JOB_ACCOUNT"), ("qos", "SLURM_JOB_QOS"),
                             ("reservation", "SLURM_JOB_RESERVATION"), ("mem", "SLURM_MEM_PER_NODE")):
            if value := os.environ.get(name):
                words.append(f"--{option}={value}")
        if processors := re.match(r"\d+", os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")):
            words.append(f"--cpus-per-task={processors[0]}")
        if (left := slurm_seconds_left(self._job)) is not None:
            words.append(f"--time={max(1, math.ceil(left / 60))}")
        # It ends with the job also where nobody is left to end it.
        return [*words, "--wrap", f"while squeue -h -j {self._job} -o %i 2>/dev/null | grep -q .; do sleep 10; done"]

    def _come(self, request: _Request, now: float, begin: Callable[[str], None]) -> str:
        code, said = _run(["squeue", "-h", "-j", request.job, "-o", "%T %N %r"])
        state, _, rest = said.partition(" ")
        node, _, why = rest.partition(" ")
        if code != 0 or (state not in _WAITING and state != "RUNNING"):
            self._requests.remove(request)
            self._answer(request.number, "none", f"job {request.job}, which was submitted for it, is {state.lower() or 'gone'}")
            return ""
        if state != "RUNNING":
            if now - request.told >= _TELL_SECONDS:
                request.told = now
                self._say(f"since {now - request.began:.0f} s: job {request.job}, for another node, is {state.lower()} ({(why or node).strip('()')})")
            return ""
        self._requests.remove(request)
        self._shell.jobs[node] = request.job
        (self._folder / f"job.{node}").write_text(request.job)
        self._say(f"SLURM has given node {node} after {now - request.began:.0f} s")
        begin(node)
        self._answer(request.number, "node", node)
        return node

    def _answer(self, number: str, kind: str, text: str) -> None:
        """All at once: whoever finds the file reads it."""
        file = self._folder / f"{kind}.{number}"
        file.with_suffix(".new").write_text(f"{text}\n")
        file.with_suffix(".new").rename(file)


def _run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, (done.stdout.strip() or done.stderr.strip())
