"""Hosts with a network, a name and an address each (tests/support/hosts), and links that a test cuts."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from waiting import until

_SCRIPT = Path(__file__).resolve().parent / "support" / "hosts"
_PATIENCE_SECONDS = 30.0


def _why_not_permitted() -> str:
    """What the kernel says to somebody who wants a network of his own; empty where he gets one."""
    why = ""
    for user in ([], ["--user", "--map-root-user"]):
        done = subprocess.run(["unshare", *user, "--net", "--uts", "true"], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            return ""
        why = done.stderr.strip()
    return why


_WHY_NOT = _why_not_permitted()
needs_networks = pytest.mark.skipif(bool(_WHY_NOT), reason=f"this user may have no network namespaces: {_WHY_NOT}")


def in_own_network() -> list[str]:
    """What makes a command run in a network namespace, whose root it is. Root needs no user namespace for it."""
    return ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--net"]


def as_user() -> list[str]:
    """In a user namespace everybody is its root: what makes a command there be run by who he is."""
    return [] if os.getuid() == 0 else ["unshare", "--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]


class Hosts:
    """The first name is this script's own host, 10.77.0.1, where the links of the others end (10.77.0.2 and so on)."""

    def __init__(self, folder: Path, names: list[str], commands: dict[str, list[str]]) -> None:
        """`folder` is made. `commands` run on hosts, and end with them; what they write goes to NAME.out."""
        self.folder = folder
        folder.mkdir()
        words = [word for name, command in commands.items() for word in (name, shlex.join([*as_user(), *command]))]
        with (folder / "log").open("wb") as output:
            self.process = subprocess.Popen(
                [str(_SCRIPT), str(folder), *names, "--", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )
        try:
            self.await_line("hosts are up")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self.tell("end")
        try:
            self.process.wait(_PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()

    def cut(self, name: str) -> None:
        """The host is not reached any more; what runs there goes on."""
        self.tell("cut", name)
        self.await_line(f"link of {name} is cut")

    def mend(self, name: str) -> None:
        self.tell("mend", name)
        self.await_line(f"link of {name} is mended")

    def part(self) -> None:
        """The hosts do not reach each other any more; the first one reaches them all."""
        self.tell("part")
        self.await_line("hosts are parted")

    def join(self) -> None:
        self.tell("join")
        self.await_line("hosts are joined")

    def slow(self, rate: str) -> None:
        """All links, both ways; as tc has it: 8mbit."""
        self.tell("slow", rate)
        self.await_line(f"links are held to {rate}")

    def tell(self, what: str, text: str = "") -> None:
        # Whole or not at all: the script looks for it all the time.
        (self.folder / "new").write_text(text)
        (self.folder / "new").rename(self.folder / what)

    def await_line(self, line: str, file: str = "log") -> None:
        until(lambda: line in self._text(file) or self.process.poll() is not None, _PATIENCE_SECONDS)
        assert line in self._text(file), self._text(file) + self._text("log")

    def entered(self) -> list[str]:
        """What a command begins with that is run on the first host."""
        user = ["--user", "--preserve-credentials"] if as_user() else []
        return ["nsenter", f"--target={self.process.pid}", *user, "--net", "--uts", *as_user()]

    def _text(self, file: str) -> str:
        path = self.folder / file
        return path.read_text(errors="replace") if path.exists() else ""
