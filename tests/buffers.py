"""A burst buffer as a process, and ``kedge cp`` with it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from waiting import until

if TYPE_CHECKING:
    import pytest

BIN = Path(os.environ["BUILD_FOLDER"]) / "bin"
MIB = 1 << 20


class Buffer:
    """A burst buffer with the owners alice and bob, its files below ``root``. Several of different names may share one."""

    def __init__(self, root: Path, name: str = "fast") -> None:
        self.root, self.name = root, name
        self.data = root / ("data" if name == "fast" else f"data-{name}")
        self.root.mkdir(exist_ok=True)

    def command(self) -> list[str | Path]:
        """Of the server, but for the address to be reached at."""
        command: list[str | Path] = [BIN / "kedge-buffer", "--name", self.name, "--path", self.data, "--folder", self.root]
        for owner in ("alice", "bob"):
            command += ["--owner", f"{owner}:{self.root / owner}"]
        return command

    @contextmanager
    def server(
        self, *options: str, kill_point: str = "", quota: str = "", before: Callable[[], None] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """``quota`` is alice's; ``before`` runs in the server's process, before the program."""
        where = self.root / f"{self.name}.buffer"
        where.unlink(missing_ok=True)
        environment = os.environ | ({"KEDGE_TEST_KILL_POINT": kill_point} if kill_point else {})
        command = [*self.command(), "--interface", "127.0.0.1", *options]
        if quota:
            command[command.index("--owner") + 1] = f"alice:{self.root / 'alice'}:{quota}"
        process = subprocess.Popen(
            command, env=environment, text=True, stderr=subprocess.PIPE, preexec_fn=before, restore_signals=before is None
        )
        try:
            until(where.exists)
            yield process
        finally:
            process.kill()
            process.wait()

    def environment(self, owner: str = "alice") -> dict[str, str]:
        """Of a program that finds the buffer by its configuration."""
        keys = {"FOLDER": self.root, "OWNER": owner, "SECRET": self.root / owner}
        return os.environ | {f"KEDGE_BUFFER_{key}": str(value) for key, value in keys.items()}

    def configure(self, monkeypatch: pytest.MonkeyPatch, store: str = "") -> None:
        """Programs of the test find it, and have their store there."""
        for key, value in self.environment().items():
            if key.startswith("KEDGE_BUFFER_"):
                monkeypatch.setenv(key, value)
        if store:
            monkeypatch.setenv("KEDGE_NET_INTERFACE", "127.0.0.1")
            monkeypatch.setenv("KEDGE_STORE_PATH", store)

    def kedge(self, *words: object, owner: str = "alice") -> "Ended":
        return _run(words, self.environment(owner))

    def cp(self, source: object, target: object, *options: object, owner: str = "alice", secret: str = "", kill: str = "") -> "Ended":
        options = ("--folder", self.root, "--owner", owner, "--secret", self.root / (secret or owner), *options)
        return _run(("cp", *options, source, target), os.environ | ({"KEDGE_TEST_KILL_POINT": kill} if kill else {}))

    def get(self, path: str, owner: str = "alice") -> bytes | None:
        """The file's bytes; nothing when there is none."""
        target = self.root / "got"
        target.unlink(missing_ok=True)
        copied = self.cp(f"bb://fast/{path}", target, owner=owner)
        if copied.code == 1 and "has no file" in copied.error:
            return None
        assert copied.code == 0, copied.error
        return target.read_bytes()

    def files(self, owner: str = "alice") -> list[str]:
        """All that lies in the owner's folder."""
        folder = self.data / "owners" / owner
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def state(self) -> dict[str, int]:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.data / "status.sock"))
            asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: asking.recv(65536), b""))
        found: dict[str, int] = json.loads(text.split(b"\r\n\r\n", 1)[1])
        return found


class Ended:
    """How a command has ended."""

    def __init__(self, code: int, output: str, error: str) -> None:
        self.code, self.output, self.error = code, output, error


def _run(words: Iterable[object], environment: Mapping[str, str]) -> Ended:
    """``kedge`` with these."""
    command = [BIN / "kedge", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return Ended(done.returncode, done.stdout, done.stderr)
