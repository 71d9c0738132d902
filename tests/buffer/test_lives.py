"""Whole lives of a burst buffer: two owners write, read and remove files while server and clients are killed, stand still, and
bytes change on the disk. What was acknowledged is there; what was not is there whole or not at all.

A seed makes a life, and replays but for the moments at which processes die. KEDGE_TEST_SEED is where seeds begin.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from buffers import BIN, MIB, Buffer
from waiting import until

pytestmark = pytest.mark.slow
OWNERS = ("alice", "bob")
NAMES = ("a", "b", "deep/c")
SIZES = (0, 1, 4097, MIB, 3 * MIB + 5, 20 * MIB + 1)
STEPS = 14
ABSENT = -1
FIRST_SEED = int(os.environ.get("KEDGE_TEST_SEED", "1"))


def content(number: int) -> bytes:
    """Of the life's n-th file."""
    source = random.Random(number)
    block = source.randbytes(64 << 10)
    size = SIZES[source.randrange(len(SIZES))]
    return number.to_bytes(8, "little")[:size] + (block * (size // len(block) + 1))[: max(size - 8, 0)]


class Life:
    """A server, and what each owner may find at each name: numbers of contents, or that there is nothing."""

    def __init__(self, root: Path, seed: int) -> None:
        self.buffer, self.random, self.local = Buffer(root / "buffer"), random.Random(seed), root / "local"
        self.possible = {(owner, name): {ABSENT} for owner in OWNERS for name in NAMES}
        self.damaged: set[tuple[str, str]] = set()
        self.written = 0
        self.told: list[str] = []
        self.stack = contextlib.ExitStack()
        self.start()

    def start(self) -> None:
        self.server = self.stack.enter_context(self.buffer.server())

    def end(self) -> str:
        """How the server was, and what it said."""
        ended = self.server.poll()
        self.server.kill()
        _, said = self.server.communicate()
        self.stack.close()
        return f"the server {'runs' if ended is None else f'has ended with {ended}'}: {said}"

    def tell(self, what: str) -> None:
        self.told.append(what)

    def somewhere(self) -> tuple[str, str]:
        return self.random.choice(OWNERS), self.random.choice(NAMES)

    def client(self, source: object, target: object, owner: str) -> subprocess.Popen[str]:
        words = ["cp", "--folder", self.buffer.root, "--owner", owner, "--secret", self.buffer.root / owner, source, target]
        return subprocess.Popen([BIN / "kedge", *map(str, words)], stderr=subprocess.PIPE, text=True)

    def await_writers(self) -> None:
        """What a client that has died was writing is gone, or there."""

        def is_none_left() -> bool:
            with contextlib.suppress(OSError):  # a server that has just begun
                return self.buffer.state()["being_written"] == 0
            return False

        until(is_none_left)

    @contextlib.contextmanager
    def soon(self, *signals: int, to: subprocess.Popen[str]) -> Iterator[None]:
        """These reach the process while the block runs, one after the other."""
        pauses = [self.random.uniform(0, 0.15) for _ in signals]

        def send() -> None:
            for pause, number in zip(pauses, signals, strict=True):
                time.sleep(pause)
                to.send_signal(number)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            sender.join()

    def write(self, disturbed: str = "") -> None:
        """The server or the client is killed meanwhile, or the server stands still."""
        where = owner, name = self.somewhere()
        self.written += 1
        self.local.write_bytes(content(self.written))
        client = self.client(self.local, f"bb://fast/{name}", owner)
        faults = {
            "": contextlib.nullcontext(),
            "server": self.soon(signal.SIGKILL, to=self.server),
            "client": self.soon(signal.SIGKILL, to=client),
            "still": self.soon(signal.SIGSTOP, signal.SIGCONT, to=self.server),
        }
        with faults[disturbed]:
            _, error = client.communicate(timeout=100)
        self.tell(f"{owner} writes {self.written} to {name} ({disturbed}): {client.returncode} {error.strip()}")
        if client.returncode == 0:
            self.possible[where] = {self.written}
            self.damaged.discard(where)
        else:
            assert disturbed in ("server", "client"), "nothing was broken"
            self.possible[where].add(self.written)
        if disturbed == "server":
            self.server.wait()
            self.start()
        self.await_writers()

    def read(self, where: tuple[str, str]) -> None:
        owner, name = where
        target = self.local.with_name("read")
        target.unlink(missing_ok=True)
        client = self.client(f"bb://fast/{name}", target, owner)
        _, error = client.communicate(timeout=100)
        found = target.read_bytes() if target.exists() else None
        self.tell(f"{owner} reads {name}: {client.returncode} {error.strip()}")
        allowed = {number: content(number) for number in self.possible[where] if number != ABSENT}
        if client.returncode == 0:
            same = [number for number, one in allowed.items() if one == found]
            assert same, f"what comes back is none of {sorted(allowed)}"
            self.possible[where] = set(same)
            return
        assert found is None, "an error, and a file beside it"
        if "has no file" in error:
            assert ABSENT in self.possible[where], "it was acknowledged, and is gone"
            self.possible[where] = {ABSENT}
        else:
            assert where in self.damaged and "checksum" in error, "nothing is damaged"

    def remove(self) -> None:
        where = owner, name = self.somewhere()
        done = self.buffer.kedge("rm", "--yes", f"bb://fast/{name}", owner=owner)
        self.tell(f"{owner} removes {name}: {done.code} {done.error.strip()}")
        if done.code == 0:
            assert self.possible[where] != {ABSENT}, "there was nothing"
        else:
            assert ABSENT in self.possible[where], "it was there"
        self.possible[where] = {ABSENT}
        self.damaged.discard(where)

    def damage(self) -> None:
        where = owner, name = self.somewhere()
        stored = self.buffer.root / "data" / "owners" / owner / "files" / name
        if not stored.exists() or not (size := stored.stat().st_size):
            return
        at = self.random.randrange(size)
        with stored.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 4]))
        self.tell(f"byte {at} of {owner}'s {name} changes")
        self.damaged.add(where)

    def kill(self) -> None:
        self.tell("the server is killed")
        self.server.kill()
        self.server.wait()
        self.start()

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.25:
            self.write()
        elif chosen < 0.55:
            self.write(self.random.choice(["server", "client", "still"]))
        elif chosen < 0.75:
            self.read(self.somewhere())
        elif chosen < 0.85:
            self.remove()
        elif chosen < 0.92:
            self.damage()
        else:
            self.kill()

    def close(self) -> None:
        """With a new server all is where it should be, and nothing else is."""
        self.kill()
        for where in self.possible:
            self.read(where)
        for owner in OWNERS:
            expected = {f"files/{name}" for name in NAMES if ABSENT not in self.possible[owner, name]}
            assert set(self.buffer.files(owner)) == expected


def play(folder: Path, seed: int) -> None:
    folder.mkdir()
    life = Life(folder, seed)
    broken: AssertionError | None = None
    try:
        for _ in range(STEPS):
            life.step()
        life.close()
    except AssertionError as why:
        broken = why
    finally:
        server = life.end()
    if broken is not None:
        raise AssertionError("\n".join([f"seed {seed}", *life.told, str(broken), server])) from broken


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 4))
def test_what_was_acknowledged_is_there(tmp_path: Path, seed: int) -> None:
    play(tmp_path / "life", seed)


@pytest.mark.slow
def test_many_lives(tmp_path: Path) -> None:
    first = int(os.environ.get("KEDGE_TEST_SEED", time.time_ns() // 1_000_000_000 * 1000))
    print(f"KEDGE_TEST_SEED={first}")
    end = time.monotonic() + 600
    played = 0
    while time.monotonic() < end:
        play(tmp_path / f"life-{played}", first + played)
        played += 1
    print(f"{played} lives")
