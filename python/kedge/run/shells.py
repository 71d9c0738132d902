"""How a command is run on one node: over ssh, in a step of the SLURM allocation, or here under a virtual node's name."""

from __future__ import annotations

import abc
import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import IO, Protocol

# ssh's own failure; a command that ends with it cannot be told from that.
_SSH_FAILED = 255
_SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3")
_STEP = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--quiet")
_DOUBT_SECONDS = 1.0
_END_SECONDS = 10.0
_IN_FOLDER = 'cd "$0" 2>/dev/null; '
# A line on the standard input ends the command; its end does not, because a connection that is lost says nothing about the node.
_UNTIL_TOLD = 'exec 3<&0 </dev/null; ( (read -r _ <&3 && kill "$$") >/dev/null 2>&1 & ); exec 3<&-; '


class Shell(Protocol):
    """Commands on nodes. Every command gets this process's KEDGE_ variables."""

    def command(self, node: str, arguments: list[str]) -> list[str]:
        """The command line, to be run here, that runs `arguments` on the node."""
        ...

    def step(self, node: str, arguments: list[str]) -> list[str]:
        """The same for a command that goes on until end_step(); its standard input must be a pipe."""
        ...

    def end_step(self, process: subprocess.Popen[bytes]) -> None:
        """Tells the command to end that step() has started, and does not wait for it."""
        ...

    def environment(self, node: str) -> dict[str, str]:
        """The environment for both."""
        ...

    def opening(self) -> list[str]:
        """How a command line begins that goes on with a node and a plain command for it, which is given a standard input and has
        the whole node; empty: the node is here."""
        ...

    def is_own_failure(self, code: int) -> bool:
        """Whether an exit code says that the node was not reached."""
        ...


def kedge_variables() -> dict[str, str]:
    """What an application or a tool on another node must be told of this process's environment."""
    return {name: value for name, value in os.environ.items() if name.startswith(("KEDGE_", "VELOC_"))}


class _StepsThatHearSignals(abc.ABC):
    """What a step is where SIGTERM to the process here reaches the command there."""

    @abc.abstractmethod
    def command(self, node: str, arguments: list[str]) -> list[str]:
        """As Shell's."""

    def step(self, node: str, arguments: list[str]) -> list[str]:
        return self.command(node, arguments)

    def end_step(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)


class VirtualShell(_StepsThatHearSignals):
    """Virtual nodes on this machine: KEDGE_NODE tells one from the other."""

    def command(self, node: str, arguments: list[str]) -> list[str]:
        return arguments

    def environment(self, node: str) -> dict[str, str]:
        return os.environ | {"KEDGE_NODE": node}

    def opening(self) -> list[str]:
        return []

    def is_own_failure(self, code: int) -> bool:
        return False


class SshShell:
    """Plain hosts. Commands run in this process's folder where the host has it, as ranks do, else at home."""

    def __init__(self, ssh: list[str]) -> None:
        """`ssh`: the program, and options of the user's, which come before ours: ssh takes the first of each."""
        self._ssh = ssh

    def command(self, node: str, arguments: list[str]) -> list[str]:
        return self._command(node, _IN_FOLDER, arguments)

    def step(self, node: str, arguments: list[str]) -> list[str]:
        # A command that ssh has started hears nothing of the end of ssh.
        return self._command(node, _IN_FOLDER + _UNTIL_TOLD, arguments)

    def end_step(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(b"\n")
            process.stdin.flush()

    def _command(self, node: str, before: str, arguments: list[str]) -> list[str]:
        settings = [f"{name}={value}" for name, value in sorted(kedge_variables().items())]
        there = ["sh", "-c", before + 'exec env "$@"', os.getcwd(), *settings, *arguments]
        return [*self.opening(), node, shlex.join(there)]

    def opening(self) -> list[str]:
        return [*self._ssh, *_SSH_OPTIONS]

    def environment(self, node: str) -> dict[str, str]:
        return dict(os.environ)

    def is_own_failure(self, code: int) -> bool:
        return code == _SSH_FAILED


class SlurmShell(_StepsThatHearSignals):
    """A step of its own on one node of this job's allocation, beside the application's.

    `jobs`: of nodes that belong to another one.
    """

    def __init__(self, virtual: bool) -> None:
        self._virtual = virtual
        self.jobs: dict[str, str] = {}

    def command(self, node: str, arguments: list[str]) -> list[str]:
        job = [f"--jobid={self.jobs[node]}"] if node in self.jobs else []
        return [*_STEP, *job, f"--nodelist={node}", "--input=none", *(named_by_slurm(arguments) if self._virtual else arguments)]

    def opening(self) -> list[str]:
        return [*_STEP, "--cpu-bind=none", "--nodelist"]

    def environment(self, node: str) -> dict[str, str]:
        return dict(os.environ)

    def is_own_failure(self, code: int) -> bool:
        return False


def named_by_slurm(arguments: list[str]) -> list[str]:
    """Makes KEDGE_NODE the SLURM node's name: where several of them are one machine (slurmd -N)."""
    return ["sh", "-c", 'KEDGE_NODE=$SLURMD_NODENAME exec "$0" "$@"', *arguments]


def start_step(shell: Shell, node: str, arguments: list[str], output: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """A command on the node that goes on until end_steps(); `output`: for both of its streams."""
    return subprocess.Popen(
        shell.step(node, arguments), env=shell.environment(node), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
        bufsize=0, start_new_session=True,
    )


def end_steps(shell: Shell, steps: Iterable[subprocess.Popen[bytes]]) -> None:
    """Tells all of them to end, and ends those that do not in time."""
    running = list(steps)
    for step in running:
        shell.end_step(step)
    end = time.monotonic() + _END_SECONDS
    for step in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            step.wait(max(0.0, end - time.monotonic()))
        if step.poll() is None:
            end_group(step)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its group, at once."""
    for number, seconds in ((signal.SIGTERM, 0.0), (signal.SIGKILL, _END_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def run_on(
    shell: Shell, node: str, arguments: list[str], timeout_seconds: float, why_hopeless: Callable[[], str] = lambda: ""
) -> tuple[int | None, str]:
    """Exit code and output (both streams); None as the code when the node was not reached or did not answer in time.

    `why_hopeless`: asked while there is no answer, after a second, two more, four more; words end the wait.
    Signals to this process's group, as from a terminal, do not reach it: they say nothing about the node.
    """
    try:
        process = subprocess.Popen(
            shell.command(node, arguments), env=shell.environment(node), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )
    except OSError as error:
        return None, str(error)
    begin = time.monotonic()
    pause = _DOUBT_SECONDS
    with process:
        while True:
            left = begin + timeout_seconds - time.monotonic()
            try:
                output, _ = process.communicate(timeout=min(pause, left))
                break
            except subprocess.TimeoutExpired:
                why = why_hopeless() if pause < left else f"no answer within {timeout_seconds:g} s"
            if why:
                # With all that it has started: who holds the output open would be waited for.
                os.killpg(process.pid, signal.SIGKILL)
                return None, why
            pause *= 2
    if shell.is_own_failure(process.returncode):
        return None, output.strip()
    return process.returncode, output
