"""Accounts of jobs as the report draws them, made up: such as no test can run, with thousands of ranks and hundreds of versions."""

from __future__ import annotations

import math
import random

from kedge.report.model import Attempt, Image, Job, Launch, Moment, Node, Restore, Sample, Spent, Tier, Trouble, Version

SECOND = 10**9
BEGIN = 1_790_000_000 * SECOND


def job_of(
    name: str, ranks: int, nodes: int, versions: int, attempts: int, *, looks: int = 60, every: float = 30.0, checkpoint: str = "heat", seed: int = 1
) -> Job:
    """A job whose attempts die but for the last one, looked at again and again; its newest two versions are in the store.

    Of these alone the images are known.
    """
    dice = random.Random(seed)
    each = max(versions // attempts, 1)
    made = Job(name, 0, "/scratch/user/kedge", "0123456789abcdef" * 2, True, 40 << 40, 13 << 40)
    at, bytes_of_rank = BEGIN, 220 << 20
    for number in range(1, attempts + 1):
        begin = at
        for _ in range(each):
            at += int(every * SECOND * dice.uniform(0.95, 1.05))
            is_newest = len(made.versions) >= each * attempts - 2
            made.versions.insert(0, _version(checkpoint, len(made.versions) * 10 + 10, number, at, ranks, nodes if is_newest else 0, bytes_of_rank, dice))
        at += int(every * SECOND * dice.uniform(0.2, 0.9))
        state = "lives" if number == attempts else "died"
        why = f"process {4000 + number} on n0001, lease of 60 s" if state == "lives" else f"its process {4000 + number} on n0001 is gone"
        made.attempts.append(Attempt(number, state, why, ranks, "n0001", begin, at))
        if number < attempts:
            origin = made.versions[0]
            at += 8 * SECOND
            made.restores.append(Restore(checkpoint, number + 1, 0, at, origin.version, origin.attempt, origin.take))
            made.troubles.append(Trouble(at - 8 * SECOND, f"attempt {number} died: {why}", "rank 0 on n0001"))
    made.made_ns = at
    for number, version in enumerate(made.versions):
        version.state = "complete" if number < 2 else ""
    made.nodes = [_node(f"n{number:04}", BEGIN, at, looks, ranks // nodes, dice) for number in range(1, nodes + 1)]
    made.troubles.append(Trouble(at, f"{checkpoint}@70.2: protection gave up after 60 s: node n0003 does not answer", "node n0002"))
    made.missing = ["Versions that retention has removed from the store, unless a look has seen them."]
    return made


def _version(name: str, version: int, attempt: int, at: int, ranks: int, nodes: int, bytes_of_rank: int, dice: random.Random) -> Version:
    made = Version(name, version, attempt, version // 10, ranks, 0)
    made.started = Moment(at, SECOND)
    made.ranks, made.bytes = ranks, ranks * bytes_of_rank
    made.captured = Moment(at + int(SECOND * dice.uniform(0.3, 0.6)))
    for rank in range(ranks if nodes else 0):
        captured = at + int(SECOND * (0.25 + 0.1 * dice.random() + (0.2 if rank % 97 == 3 else 0.0)))
        size = bytes_of_rank + rank % 7 * 4096
        stored = captured + int(SECOND * (2.0 + 3.0 * rank / ranks + dice.random()))
        made.images.append(Image(rank, f"n{rank * nodes // ranks + 1:04}", size, Moment(captured), Moment(stored, SECOND), int(size * 0.62), size // 5, size // 10))
    if made.images:
        made.captured = max((image.captured for image in made.images if image.captured), key=lambda moment: moment.at_ns)
    made.reached["local"] = Moment(made.captured.at_ns + SECOND // 5, SECOND // 2)
    if version % 20 == 0:
        made.reached["node"] = Moment(made.captured.at_ns + int(SECOND * dice.uniform(1.0, 2.0)), SECOND)
    if version % 30 == 0 or dice.random() < 0.5:
        made.reached["buffer"] = Moment(made.captured.at_ns + 3 * SECOND, SECOND)
        made.reached["store"] = Moment(made.captured.at_ns + int(SECOND * dice.uniform(5.5, 8.0)))
    return made


def _node(name: str, begin: int, end: int, looks: int, ranks: int, dice: random.Random) -> Node:
    samples = []
    for look in range(looks):
        part = look / max(looks - 1, 1)
        wave = 1.0 + 0.3 * math.sin(12 * part)
        count = int(400 * part)
        samples.append(Sample(begin + int((end - begin) * part), int((900 << 30) * part * wave), int((600 << 30) * part), 3 << 30, 20 << 30, 0.11 * wave * count, count))
    samples = sorted(samples, key=lambda sample: sample.captured_bytes)
    for sample, at in zip(samples, sorted(sample.at_ns for sample in samples), strict=True):
        sample.at_ns = at
    used = dice.uniform(0.2, 0.6)
    tiers = [
        Tier("pool", "memory", "/dev/shm/kedge-1000/pool", False, 64 << 30, int((64 << 30) * used), int((64 << 30) * 0.2), 5.1e9 * dice.uniform(0.9, 1.1), 5.4e9),
        Tier("nvme", "directory", "/nvme/kedge", False, 512 << 30, 32 << 30, 0, 1.2e9 * dice.uniform(0.7, 1.1), 1.3e9),
    ]
    return Node(
        name, begin, end, looks, (end - begin) / SECOND, True, 410e6 * dice.uniform(0.8, 1.2), 40 << 30, 4 << 30, 64 << 30, tiers, {}, Spent(0.11 * 400, 400 * ranks),
        {"local": Spent(0.11 * 400, 400), "node": Spent(1.6 * 200, 200), "store": Spent(7.1 * 130, 130)},
        {"local": Spent(0.4, 2), "node": Spent(2.2, 1), "store": Spent()}, "rs", 30.0, samples,
    )  # fmt: skip


def bare_job(name: str = "first") -> Job:
    """Of which nothing is known but one attempt that has just begun."""
    made = Job(name, BEGIN + SECOND, "/tmp/kedge-store", "0" * 32, True)
    made.attempts = [Attempt(1, "lives", "process 1 on here", 1, "here", BEGIN, BEGIN + SECOND)]
    made.missing = ["Blocked times: no agent was looked at."]
    return made


def run_of_supervisor(made: Job) -> Job:
    """The same with what ``kedge run`` tells."""
    made.outcome = "finished: the application finished"
    made.launches = [
        Launch(1, ["n0001", "n0002"], 137, True, 331.2, True, {"n0002": "no command can be run there: ssh exits with 255"}, {"agents are started": 0.8}),
        Launch(2, ["n0001", "n0003"], 0, False, 820.4, True, {}, {"nodes are asked whether they live": 0.4, "agents are started": 0.7}),
    ]
    return made
