"""Hosts with a network, a name and an address each (tests/support/hosts), behind an sshd each, and links that a test cuts."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from machine import Machine, descendants, kill, name_of
from sshd import Ssh
from waiting import until

_SCRIPT = Path(__file__).resolve().parents[1] / "support" / "hosts"
_PORT = 2222
_PATIENCE_SECONDS = 30.0


def why_not_permitted() -> str:
    """What the kernel says to somebody who wants a network of his own; empty where he gets one."""
    why = ""
    for user in ([], ["--user", "--map-root-user"]):
        done = subprocess.run(["unshare", *user, "--net", "--uts", "true"], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            return ""
        why = done.stderr.strip()
    return why


class Network:
    """The nodes of a machine as such hosts; ``kedge run`` runs on one more, where their links end. Use as a context manager."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._folder = machine, machine.folder / "net"
        # In a user namespace everybody is its root: back to who he is, as whom sshd serves him.
        ids = [f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
        self._as_user = [] if os.getuid() == 0 else ["unshare", "--user", *ids]

    def __enter__(self) -> Network:
        machine = self._machine
        self._folder.mkdir()
        ssh = Ssh(machine)
        daemons: list[str] = []
        for number, name in enumerate(machine.names, 2):
            daemons += [name, shlex.join([*self._as_user, *ssh.add(name, f"10.77.0.{number}", _PORT, {})])]
        command = [str(_SCRIPT), str(self._folder), f"{machine.names[0]}-front", *machine.names, "--", *daemons]
        with (self._folder / "log").open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        try:
            self._await("hosts are up")
            for name in machine.names:
                self._await("Server listening", f"{name}.out")
        except BaseException:
            self.__exit__()
            raise
        user = ["--user", "--preserve-credentials"] if self._as_user else []
        machine.enter = ["nsenter", f"--target={self._process.pid}", *user, "--net", "--uts", *self._as_user]
        return self

    def __exit__(self, *_: object) -> None:
        # Those that serve somebody would wait for an answer over a link that is cut.
        for process in descendants(self._process.pid):
            if name_of(process) == "sshd":
                kill(process)
        self._tell("end", "")
        try:
            self._process.wait(_PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()

    def cut(self, name: str) -> None:
        """The host is not reached any more; what runs there goes on."""
        self._tell("cut", name)
        self._await(f"link of {name} is cut")

    def mend(self, name: str) -> None:
        self._tell("mend", name)
        self._await(f"link of {name} is mended")

    def part(self) -> None:
        """The hosts do not reach each other any more; ``kedge run`` reaches them all."""
        self._tell("part", "")
        self._await("hosts are parted")

    def join(self) -> None:
        self._tell("join", "")
        self._await("hosts are joined")

    def _tell(self, what: str, name: str) -> None:
        # Whole or not at all: the script looks for it all the time.
        (self._folder / "new").write_text(name)
        (self._folder / "new").rename(self._folder / what)

    def _await(self, line: str, file: str = "log") -> None:
        until(lambda: line in self._text(file) or self._process.poll() is not None, _PATIENCE_SECONDS)
        assert line in self._text(file), self._text(file) + self._text("log")

    def _text(self, file: str) -> str:
        path = self._folder / file
        return path.read_text(errors="replace") if path.exists() else ""
