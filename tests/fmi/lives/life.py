"""A life: one job of FMI and what befalls it, as plain text, to be made from a seed, played, shrunk, read and kept.

    ranks 4                     the setup: how many ranks, on how many nodes, with how many spares
    nodes 2
    spares 1
    more                        other nodes are to be had where no spare is left; their numbers follow those of the spares
    interval 10                 steps from checkpoint to checkpoint
    program 17 300 1000         its number, how many steps, and for how many microseconds each one pauses
    careless                    the program looks at no result of a call
    jumping                     nor does this one, whose broken calls jump back to FMI_Loop
    key protect.scheme xor      of the configuration
    die 1 0 fmi.restore:2       rank 1, started for the first time (0), kills itself at this point (os/process/kill_point.h)
    +0.7 kill 2 3               so many seconds after the line before (the first: after the start): SIGKILL of ranks at once
    +0 kill-node 1              of all processes of a node, whose memory is gone, too; of fmirun as well where there is one node
    +0 kill-task 1, kill-agent 1
    +0 kill-fmirun 0.5          a successor takes over after so many seconds
    +0 replace-fmirun           another one takes over from it, though it lives, or stands still
    +0 stop 2 0.5               a rank stands still for so long; so do stop-task 1, stop-agent 1 and stop-fmirun
    +0 cut 2                    the connections of a rank to others end; cut-task 1: of a node's task, to fmirun

A job has died with its only node, fmirun among its processes, or for want of a spare node. It is launched again on the nodes that are
left, and on all where those are too few; faults go on meanwhile. What befalls nothing (a rank that does not run) is passed over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

KILL_POINTS = ["fmi.h1", "fmi.h2", "fmi.restore", "fmi.checkpoint", "fmi.communicator", "fmi.finalize"]
# Of programs with loops in their steps.
INNER_KILL_POINTS = ["fmi.inner", "fmi.restore-inner"]
# A verb, what follows it, and how often it is drawn where there are several nodes.
VERBS = {
    "kill": 10, "kill-node": 4, "kill-task": 2, "kill-agent": 3, "kill-fmirun": 4, "replace-fmirun": 2,
    "stop": 2, "stop-task": 1, "stop-agent": 1, "stop-fmirun": 1, "cut": 2, "cut-task": 1,
}


@dataclass(frozen=True)
class Fault:
    after: float
    verb: str
    words: tuple[str, ...] = ()

    def text(self) -> str:
        return " ".join([f"+{self.after:g}", self.verb, *self.words])


@dataclass(frozen=True)
class Life:
    ranks: int = 4
    nodes: int = 1
    spares: int = 0
    interval: int = 10
    program: int = 1
    steps: int = 300
    pause: int = 1000
    careless: bool = False
    jumping: bool = False
    more: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    deaths: dict[tuple[int, int], str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    def text(self) -> str:
        lines = [f"ranks {self.ranks}", f"nodes {self.nodes}", f"spares {self.spares}", f"interval {self.interval}",
                 f"program {self.program} {self.steps} {self.pause}"]
        lines += ["more"] if self.more else []
        lines += ["careless"] if self.careless else []
        lines += ["jumping"] if self.jumping else []
        lines += [f"key {name} {value}" for name, value in self.keys.items()]
        lines += [f"die {rank} {start} {point}" for (rank, start), point in self.deaths.items()]
        lines += [fault.text() for fault in self.faults]
        return "\n".join(lines) + "\n"


def parse(text: str) -> Life:
    """ValueError names the line."""
    life = Life()
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        word, *words = line.split()
        try:
            if word.startswith("+"):
                if words[0] not in VERBS:
                    raise ValueError(words[0])
                life = replace(life, faults=(*life.faults, Fault(float(word), words[0], tuple(words[1:]))))
            elif word in ("ranks", "nodes", "spares", "interval"):
                number: dict[str, Any] = {word: int(words[0])}
                life = replace(life, **number)
            elif word == "program":
                life = replace(life, program=int(words[0]), steps=int(words[1]), pause=int(words[2]))
            elif word == "more":
                life = replace(life, more=True)
            elif word == "careless":
                life = replace(life, careless=True)
            elif word == "jumping":
                life = replace(life, jumping=True)
            elif word == "key":
                life = replace(life, keys=life.keys | {words[0]: words[1]})
            elif word == "die":
                life = replace(life, deaths=life.deaths | {(int(words[0]), int(words[1])): words[2]})
            else:
                raise ValueError(word)
        except (IndexError, ValueError) as error:
            raise ValueError(f'"{line}" is no line of a life: {error}') from None
    return life


def _fault(draws: random.Random, life: Life, after: float) -> Fault:
    verbs = {verb: often for verb, often in VERBS.items() if life.nodes > 1 or not verb.startswith("cut")}
    verb = draws.choices(list(verbs), list(verbs.values()))[0]
    words: list[str] = []
    if verb == "kill":
        words = [str(rank) for rank in draws.sample(range(life.ranks), min(life.ranks, draws.choice([1, 1, 1, 2, 2, 3])))]
    elif verb in ("stop", "cut"):
        words = [str(draws.randrange(life.ranks))]
    elif not verb.endswith("fmirun"):
        words = [str(draws.randrange(life.nodes + life.spares))]
    if verb == "kill-fmirun":
        words = [f"{draws.choice([0, 0.2, 1.5]):g}"]
    if verb.startswith("stop"):
        words.append(f"{draws.choice([0.05, 0.5, 2.5]):g}")
    return Fault(round(after, 3), verb, tuple(words))


def _setup(draws: random.Random) -> Life:
    ranks = draws.choice([1, 2, 3, 4, 4, 4, 5, 6])
    nodes = min(ranks, draws.choice([1, 1, 2, 2, 3, 4]))
    keys = {}
    if nodes > 1:
        keys["protect.scheme"] = draws.choice(["none", "partner", "xor", "rs" if nodes > 2 else "xor"])
    keys["schedule.store"] = draws.choice(["1", "1", "3", "0"])
    return Life(ranks, nodes, draws.choice([0, 1, 1, 2]) if nodes > 1 else 0, draws.choice([1, 3, 10, 25, 50]),
                draws.randrange(1, 10**6), draws.choice([100, 200, 400]), draws.choice([0, 1000, 3000]), draws.random() < 0.25, keys=keys)


def generated(seed: int) -> Life:
    """A short life of many faults, often of several at once, and in the recovery from another one."""
    draws = random.Random(seed)
    life = _setup(draws)
    faults = [_fault(draws, life, draws.choice([0.2, 1, 2]) * draws.random())]
    while draws.random() < 0.75 and len(faults) < 8:
        faults.append(_fault(draws, life, draws.choice([0, 0.05 * draws.random(), 0.2 * draws.random(), draws.random(), 2 * draws.random()])))
    deaths = {}
    while draws.random() < 0.2:
        times = draws.choice([1, 1, 2, 3])
        point = draws.choice(KILL_POINTS)
        deaths[draws.randrange(life.ranks), draws.choice([0, 0, 1, 2])] = point + (f":{times}" if times > 1 else "")
    # Of their own numbers, so that lives are what they were before there were these.
    more = random.Random(f"more {seed}")
    if more.random() < 0.4:
        deaths[more.randrange(life.ranks), more.choice([0, 1])] = more.choice(INNER_KILL_POINTS)
    if life.nodes > 1 and more.random() < 0.3:
        life = replace(life, keys=life.keys | {"net.encrypt": "true"})
    life = replace(life, faults=tuple(faults), deaths=deaths, jumping=not life.careless and draws.random() < 0.25)
    return _with_more_nodes(more, life) if life.nodes > 1 and more.random() < 0.3 else life


def _with_more_nodes(draws: random.Random, life: Life) -> Life:
    """Some of its faults hit nodes that have come later."""
    def moved(fault: Fault) -> Fault:
        is_of_node = fault.verb.endswith(("-node", "-task", "-agent"))
        later = str(life.nodes + life.spares + draws.choice([0, 0, 1]))
        return replace(fault, words=(later, *fault.words[1:])) if is_of_node and draws.random() < 0.4 else fault

    return replace(life, more=True, faults=tuple(moved(fault) for fault in life.faults))


def long_one(seed: int, seconds: float, mtbf: float) -> Life:
    """About so many seconds long where nothing happens, with faults that come at random, so far apart on average."""
    draws = random.Random(seed)
    pause = 30000
    life = replace(_setup(draws), ranks=4, nodes=2, spares=2, interval=50, steps=int(seconds * 1e6 / (pause + 5000)), pause=pause)
    life = replace(life, keys={"protect.scheme": draws.choice(["partner", "xor"]), "schedule.store": draws.choice(["1", "3"])})
    if random.Random(f"more {seed}").random() < 0.5:
        life = replace(life, keys=life.keys | {"net.encrypt": "true"})
    if random.Random(f"more nodes {seed}").random() < 0.5:
        life = replace(life, spares=1, more=True)
    faults: list[Fault] = []
    # What faults cost makes the life longer.
    while sum(fault.after for fault in faults) < seconds:
        faults.append(_fault(draws, life, draws.expovariate(1 / mtbf)))
    return replace(life, faults=tuple(faults))
