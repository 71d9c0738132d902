"""Figures of [Sato] chapter 5 and the MTBF arithmetic of section 1.1, from models alone."""

from __future__ import annotations

from kedge.plan.figure import Claim, Figure, FigureMaker, Series
from kedge.plan.inmemory import (
    mtbf_seconds,
    survival_probability,
    xor_checkpoint_seconds,
    xor_extra_share,
    xor_restart_seconds,
)
from kedge.plan.optimum import optimum
from kedge.plan.system import Level, System

GROUP_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
CHECKPOINT_BYTES = 6e9
MEMORY_BYTES_PER_SECOND = 32e9
PEAK_NETWORK_BYTES_PER_SECOND = 4e9
MEASURED_NETWORK_BYTES_PER_SECOND = 3.227e9
LEVEL_1_RATE = 2.13e-6
LEVEL_2_RATE = 4.27e-7
DAY_SECONDS = 86400.0
SURVIVAL_FACTORS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0)
EFFICIENCY_FACTORS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
COASTAL_NODES = 1088
GROUP_NODES = 16
PFS_BYTES_PER_SECOND = 50e9


def mtbf_figure() -> Figure:
    """Section 1.1: the MTBF of larger clusters at the failure rate of three LLNL clusters."""
    nodes = (1_000, 10_000, 100_000)
    hours = [mtbf_seconds(191, 5_629_933.0, count) / 3600.0 for count in nodes]
    claims = [
        Claim("1,000 nodes", 1.2, hours[0] / 24.0, 0.05, "", "days"),
        Claim("10,000 nodes", 2.9, hours[1], 0.05, "", "hours"),
        Claim("100,000 nodes", 17.0, hours[2] * 60.0, 0.05, "", "minutes"),
    ]
    return Figure(
        key="sato-1.1",
        title="MTBF of larger clusters (section 1.1)",
        source="[Sato] section 1.1; table 2.4: 191 failures in 5,629,933 node hours",
        x_label="nodes",
        y_label="MTBF, hours",
        series=[Series("MTBF", [float(count) for count in nodes], hours)],
        claims=claims,
        x_log=True,
        y_log=True,
    )


def _xor_figure(key: str, title: str, restart: bool) -> Figure:
    function = xor_restart_seconds if restart else xor_checkpoint_seconds
    sizes = [float(size) for size in GROUP_SIZES]
    peak = [
        function(CHECKPOINT_BYTES, size, MEMORY_BYTES_PER_SECOND, PEAK_NETWORK_BYTES_PER_SECOND) for size in GROUP_SIZES
    ]
    measured = [
        function(CHECKPOINT_BYTES, size, MEMORY_BYTES_PER_SECOND, MEASURED_NETWORK_BYTES_PER_SECOND)
        for size in GROUP_SIZES
    ]
    at_16 = GROUP_SIZES.index(GROUP_NODES)
    throughput = CHECKPOINT_BYTES / measured[at_16] / 1e9
    printed = 1.3 if restart else 2.4
    what = "restart" if restart else "checkpoint"
    saturated = (peak[at_16] - peak[-1]) / peak[-1]
    claims = [
        Claim(
            f"{what} throughput of a node, groups of 16 (measured there; model with the measured network)",
            printed,
            throughput,
            0.1,
            "figure 5.13",
            "GB/s",
        ),
        Claim("parity of a group of 16", 6.6, 100.0 * xor_extra_share(GROUP_NODES), 0.02, "", "%"),
        Claim("time at 16 over that at 64, less 1", 0.0, saturated, None, "'starts to saturate at 16 nodes'"),
    ]
    return Figure(
        key=key,
        title=title,
        source=f"[Sato] {key.replace('sato-', 'figure ')}, sections 5.5.2 and 5.5.3",
        x_label="XOR group size, nodes",
        y_label=f"{what} time, seconds",
        series=[
            Series("model, peak bandwidths (32 and 4 GB/s)", sizes, peak),
            Series("model, measured network (3.227 GB/s)", sizes, measured),
        ],
        claims=claims,
        notes=["6 GB a node. The peak of the QDR network is not printed: 4 GB/s (4 lanes of 8 Gb/s) is assumed."],
    )


def figure_5_11() -> Figure:
    """XOR checkpoint time against the group size."""
    return _xor_figure("sato-5.11", "XOR checkpoint time (figure 5.11)", False)


def figure_5_12() -> Figure:
    """XOR restart time against the group size."""
    return _xor_figure("sato-5.12", "XOR restart time (figure 5.12)", True)


def figure_5_17() -> Figure:
    """Probability of running for 24 hours, with and without run-through recovery."""
    with_recovery = [survival_probability(DAY_SECONDS, factor * LEVEL_2_RATE) for factor in SURVIVAL_FACTORS]
    without = [
        survival_probability(DAY_SECONDS, factor * (LEVEL_1_RATE + LEVEL_2_RATE)) for factor in SURVIVAL_FACTORS
    ]
    at_6, at_10 = SURVIVAL_FACTORS.index(6.0), SURVIVAL_FACTORS.index(10.0)
    claims = [
        Claim("with recovery, x6", 0.80, with_recovery[at_6], 0.02),
        Claim("with recovery, x10", 0.70, with_recovery[at_10], 0.02),
        Claim("without recovery, x10", 0.10, without[at_10], 0.12, "printed as a round number"),
    ]
    return Figure(
        key="sato-5.17",
        title="Probability to run for 24 hours (figure 5.17)",
        source="[Sato] figure 5.17, section 5.6.3; rates of LLNL Coastal",
        x_label="failure rates times",
        y_label="probability",
        series=[
            Series("run-through recovery (level 1 survived)", SURVIVAL_FACTORS, with_recovery),
            Series("none", SURVIVAL_FACTORS, without),
        ],
        claims=claims,
    )


def recovery_system(checkpoint_bytes: float, level_1_factor: float, level_2_factor: float, cost: float) -> System:
    """Coastal with in-memory XOR in groups of 16 and a background copy to a store of 50 GB/s, `cost` times slower."""
    memory, network = MEMORY_BYTES_PER_SECOND, PEAK_NETWORK_BYTES_PER_SECOND
    checkpoint = xor_checkpoint_seconds(checkpoint_bytes, GROUP_NODES, memory, network)
    restart = xor_restart_seconds(checkpoint_bytes, GROUP_NODES, memory, network)
    transfer = checkpoint_bytes * COASTAL_NODES / PFS_BYTES_PER_SECOND * cost
    return System(
        work_seconds=30.0 * DAY_SECONDS,
        alpha=0.0,
        levels=(
            Level("xor", checkpoint, checkpoint, restart, LEVEL_1_RATE * level_1_factor, False),
            Level("store", checkpoint, checkpoint + transfer, transfer, LEVEL_2_RATE * level_2_factor, True),
        ),
    )


def figure_5_18() -> Figure:
    """Efficiency of multilevel checkpoints with run-through recovery."""
    series = []
    for gigabytes in (1.0, 10.0):
        for label, both in (("L1", False), ("L1,2", True)):
            values = [
                optimum(recovery_system(gigabytes * 1e9, factor, factor if both else 1.0, factor)).efficiency
                for factor in EFFICIENCY_FACTORS
            ]
            series.append(Series(f"{label}, {gigabytes:g} GB a node", EFFICIENCY_FACTORS, values))
    worst = series[-1].y[-1] or 0.0
    note = (
        "inputs missing: node count, bandwidths and the restart of the relaunched nodes are not printed with the figure"
    )
    return Figure(
        key="sato-5.18",
        title="Multilevel checkpoints under rising failure rates and level-2 cost (figure 5.18)",
        source="[Sato] figure 5.18, section 5.6.3",
        x_label="failure rates and level-2 cost times",
        y_label="efficiency",
        series=series,
        claims=[
            Claim("worst case, L1,2 at x50, 10 GB: under", 0.02, worst, None, note),
            Claim("L1 alone at x50, 1 GB: fairly high", 1.0, series[0].y[-1] or 0.0, None, "'fairly high efficiencies'"),
        ],
        notes=[
            "Assumed: 1088 nodes (Coastal), groups of 16, memory 32 GB/s, network 4 GB/s; a background checkpoint is "
            "blocked for one XOR checkpoint; the store is read as fast as it is written; alpha 0.",
        ],
    )


FIGURES: dict[str, FigureMaker] = {
    "sato-1.1": mtbf_figure,
    "sato-5.11": figure_5_11,
    "sato-5.12": figure_5_12,
    "sato-5.17": figure_5_17,
    "sato-5.18": figure_5_18,
}
