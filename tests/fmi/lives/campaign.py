"""Many lives, one seed each, several at a time; and from a long life to a short one that breaks the same kind of promise."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from lives.life import Life, generated, long_one
from lives.player import Player
from lives.promises import Violation, broken

# A fault that is left out is missed only when the promise holds so many times without it.
TRIES = 2


@dataclass(frozen=True)
class Options:
    first: int = 1
    last: int = 10**18
    seconds: float = 0  # no life begins later; 0: until the last seed
    jobs: int = 1
    length: float = 0  # of a life where nothing happens; 0: a short one
    mtbf: float = 30
    shrinks: bool = False
    found: Path | None = None


def play(life: Life, tell: Callable[[str], None] = lambda _: None, stopping: threading.Event | None = None) -> Violation | None:
    return broken(Player(life, tell, stopping or threading.Event()).play())


def life_of(seed: int, options: Options) -> Life:
    return long_one(seed, options.length, options.mtbf) if options.length > 0 else generated(seed)


def shrunk(life: Life, kind: str, stopping: threading.Event) -> Life:
    """With fewer faults, as long as the same kind of promise breaks."""

    def still_breaks(candidate: Life) -> bool:
        for _ in range(TRIES):
            violation = None if stopping.is_set() else play(candidate, stopping=stopping)
            if violation is not None and violation.kind == kind:
                return True
        return False

    def smaller(life: Life) -> Iterator[Life]:
        for number, fault in enumerate(life.faults):
            rest = [*life.faults[:number], *life.faults[number + 1 :]]
            if number < len(rest):
                rest[number] = replace(rest[number], after=round(rest[number].after + fault.after, 3))
            yield replace(life, faults=tuple(rest))
        for death in life.deaths:
            yield replace(life, deaths={its: point for its, point in life.deaths.items() if its != death})
        if life.careless:
            yield replace(life, careless=False)
        if life.jumping:
            yield replace(life, jumping=False)

    while not stopping.is_set():
        found = next((candidate for candidate in smaller(life) if still_breaks(candidate)), None)
        if found is None:
            break
        life = found
    return life


@dataclass
class Campaign:
    options: Options
    stopping: threading.Event
    tell: Callable[[str], None]
    played: int = 0
    faults: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        begin, seeds = time.monotonic(), iter(range(self.options.first, self.options.last + 1))

        def share() -> None:
            while not self.stopping.is_set() and not 0 < self.options.seconds < time.monotonic() - begin:
                with self.lock:
                    seed = next(seeds, None)
                if seed is None:
                    return
                self._play(seed)

        with ThreadPoolExecutor(self.options.jobs) as pool:
            for done in [pool.submit(share) for _ in range(self.options.jobs)]:
                done.result()

    def _play(self, seed: int) -> None:
        life, told = life_of(seed, self.options), list[str]()
        player = Player(life, told.append, self.stopping)
        record = player.play()
        violation = broken(record)
        with self.lock:
            self.played += not record.was_stopped
            self.faults += len(record.faults)
            if violation is None:
                return
            is_first = self.violations[violation.kind] == 0
            self.violations[violation.kind] += 1
        self.tell(f"seed {seed}: {violation.kind}: {violation.sentence}")
        self._keep(f"{seed}.log", "\n".join([life.text(), *told]))
        if is_first and self.options.shrinks:
            life = shrunk(life, violation.kind, self.stopping)
            self.tell(life.text())
        self._keep(f"{seed}.life", f"# Seed {seed}. {violation.kind}: {violation.sentence}\n{life.text()}")

    def _keep(self, name: str, text: str) -> None:
        if self.options.found is not None:
            self.options.found.mkdir(parents=True, exist_ok=True)
            (self.options.found / name).write_text(text)
