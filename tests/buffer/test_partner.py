"""Two burst buffers before a store: what both have survives the loss of all nodes together with one of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from buffers import MIB, Buffer
from test_level import SETTINGS, block_second, drains_to, take, versions
from tool import kedge
from waiting import until

from kedge import Context, Level

# Of the drain of what the other one has, too.
PATIENCE = ("--partner-patience", "3s")


class Pair:
    """The servers fast and slow, and the store behind them. Nothing runs before `start`."""

    def __init__(self, buffer: Buffer, target: Path) -> None:
        self.buffers = {"fast": buffer, "slow": Buffer(buffer.root, "slow")}
        self.target = target
        self._servers = {name: ExitStack() for name in self.buffers}

    def start(self, *names: str) -> None:
        for name in names or self.buffers:
            self._servers[name].enter_context(self.buffers[name].server(*drains_to(self.target), *PATIENCE))

    def kill(self, name: str) -> None:
        self._servers[name].close()

    def lose(self, name: str) -> None:
        """Its machine, with all that is there."""
        self.kill(name)
        shutil.rmtree(self.buffers[name].data)

    def versions(self, name: str) -> list[int]:
        """Those that lie there."""
        folders = [Path(path).parent.name for path in self.buffers[name].files() if path.endswith("/version")]
        return sorted(int(folder.split("-")[0]) for folder in folders)

    def drain(self, name: str) -> dict[str, object]:
        said: dict[str, object] = self.buffers[name].state()["owners"][0]["drains"][0]  # type: ignore[index]
        return said


@pytest.fixture
def pair(buffer: Buffer, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    pair = Pair(buffer, tmp_path / "store")
    buffer.configure(monkeypatch, f"bb://fast/ckpt?partner=slow&drain={pair.target}")
    yield pair
    for name in pair.buffers:
        pair.kill(name)


@pytest.mark.parametrize("lost", ["fast", "slow"])
def test_the_loss_of_a_server_and_of_all_nodes(pair: Pair, run_folder: Path, end_own_agent: Callable[[], None], lost: str) -> None:
    array = np.zeros(MIB)
    pair.start()
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        take(context, array, 1, Level.STORE)
        blocked = block_second(pair.target)
        take(context, array, 2, Level.BUFFER)
        assert context.level("heat", 2) == Level.BUFFER
    end_own_agent()
    shutil.rmtree(run_folder, ignore_errors=True)
    pair.lose(lost)
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        context.restart("heat")
        assert (array == 2).all()
        # It goes on, without the buffers.
        take(context, array, 3, Level.STORE)
    assert versions("--store", pair.target) == [3, 1]
    blocked.unlink()
    until(lambda: versions("--store", pair.target) == [3, 2, 1])
    kedge("verify", "--store", str(pair.target))
    end_own_agent()


def test_one_of_them_drains(pair: Pair, end_own_agent: Callable[[], None]) -> None:
    """The other one sees what has arrived, and keeps the newest version alone, as the first does."""
    array = np.zeros(MIB)
    pair.start()
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        for version in (1, 2, 3):
            take(context, array, version, Level.STORE)
    for name in pair.buffers:
        until(lambda name=name: pair.versions(name) == [3])
        until(lambda name=name: pair.drain(name)["waiting_versions"] == 0)
    assert pair.drain("fast")["drained_versions"] == 3
    assert pair.drain("slow")["drained_versions"] == 0
    end_own_agent()


def test_a_server_that_comes_back_is_used_again(pair: Pair, end_own_agent: Callable[[], None]) -> None:
    array = np.zeros(MIB)
    pair.start()
    with Context("climate", settings=SETTINGS) as context:
        context.protect(0, array)
        take(context, array, 1, Level.STORE)
        pair.kill("slow")
        take(context, array, 2, Level.STORE)
        assert pair.versions("fast") == [1], "what one alone would have goes to the store"
        pair.start("slow")

        def both_have_the_next() -> bool:
            take(context, array, version := next(numbers), Level.STORE)
            return all(version in pair.versions(name) for name in pair.buffers)

        numbers = iter(range(3, 1000))
        until(both_have_the_next)
    end_own_agent()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("bb://fast/ckpt?partner=fast&drain=/lustre", "another burst buffer"),
        ("bb://fast/ckpt?partner=a/b&drain=/lustre", "another burst buffer"),
        ("bb://fast/ckpt?partner=slow", "drain= names that store"),
    ],
)
def test_partners_that_are_none_are_refused(buffer: Buffer, path: str, why: str) -> None:
    said = buffer.kedge("ls", "--store", path)
    assert said.code != 0 and why in said.error, said.error
