"""Tables and figures of [Sato] chapter 4: flat and burst buffers, coordinated and uncoordinated.

Efficiencies are those of the best schedule. A scale factor x multiplies all failure rates and the cost of level 2
(transfer and restart), as section 4.7.2 says; level 1 stays.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

from kedge.plan.catalog import shipped_system
from kedge.plan.figure import Claim, Figure, FigureMaker, Series
from kedge.plan.optimum import optimum
from kedge.plan.storage import Storage
from kedge.plan.system import System

SCALES = (1.0, 2.0, 10.0, 50.0, 100.0)
SPEEDUPS = (1.0, 2.0, 10.0, 20.0)
NODES_PER_BUFFER = (4, 8, 16, 32, 64)
NAMES = {
    "flat": "flat, coordinated",
    "flat-uncoordinated": "flat, uncoordinated",
    "burst": "burst, coordinated",
    "burst-uncoordinated": "burst, uncoordinated",
}
NODES = 1088
BURST_NODES = 34
LOCAL_RATE = 1.96e-10
XOR_RATE = 1.77e-9
PFS_RATE = 3.93e-10
PRINTED_ALLOWABLE = {
    "flat": (0.000232, 0.000929, 0.0245, 0.845, 1.0),
    "burst": (0.0000435, 0.000175, 0.00468, 0.420, 0.999),
}
INITIALIZATION_NOTE = (
    "The thesis does not print the initialization time I_2 of a background checkpoint, nor alpha: here a background "
    "checkpoint blocks as long as the XOR checkpoint that it starts from, and alpha is 0."
)


def table_4_3() -> Figure:
    """Failure rates of both systems from the rates per node (the scan scrambles the table's columns)."""
    burst_local = (LOCAL_RATE + XOR_RATE) * BURST_NODES
    computed = {
        "LOCAL, 1088 nodes": (2.14e-7, LOCAL_RATE * NODES),
        "XOR, 1088 nodes": (1.92e-6, XOR_RATE * NODES),
        "PFS, 1088 nodes": (4.28e-7, PFS_RATE * NODES),
        "flat, level 1": (2.14e-6, (LOCAL_RATE + XOR_RATE) * NODES),
        "flat, level 2": (4.28e-7, PFS_RATE * NODES),
        "34 burst buffer nodes, level 1": (6.67e-8, burst_local),
        "burst, level 1": (2.63e-6, (LOCAL_RATE + XOR_RATE + PFS_RATE) * NODES + burst_local),
        "burst, level 2": (1.33e-8, PFS_RATE * BURST_NODES),
    }
    claims = [Claim(name, printed, ours, 0.01, "", "1/s") for name, (printed, ours) in computed.items()]
    places = [float(index) for index in range(len(claims))]
    return Figure(
        key="sato-table-4.3",
        title="Failure rates of flat and burst buffers (table 4.3)",
        source="[Sato] table 4.3, section 4.7.1",
        x_label="rate",
        y_label="failures per second",
        series=[
            Series("printed", places, [claim.printed for claim in claims]),
            Series("ours", places, [claim.ours for claim in claims]),
        ],
        claims=claims,
        notes=["Rates per node: LOCAL 1.96e-10, XOR 1.77e-9, PFS 3.93e-10 failures a second."],
        bars=True,
        categories=list(computed),
    )


@lru_cache(maxsize=None)
def best_efficiency(name: str, scale: float) -> float:
    """Best efficiency of a shipped system at a scale factor."""
    return optimum(shipped_system(name).scaled(scale, [1.0, scale])).efficiency


def allowable_logging(kind: str, scale: float) -> float:
    """The part of uncoordinated run time that message logging may take: 1 - coordinated / uncoordinated."""
    return 1.0 - best_efficiency(kind, scale) / best_efficiency(f"{kind}-uncoordinated", scale)


def table_4_4() -> Figure:
    """How much message logging may cost before coordinated checkpoints are better."""
    claims = []
    series = []
    for kind, printed in PRINTED_ALLOWABLE.items():
        ours = [allowable_logging(kind, scale) for scale in SCALES]
        series.append(Series(f"{kind}, printed", SCALES, [100.0 * value for value in printed]))
        series.append(Series(f"{kind}, ours", SCALES, [100.0 * value for value in ours]))
        for scale, value, own in zip(SCALES, printed, ours, strict=True):
            tolerance = 0.02 if kind == "flat" else None
            note = "" if kind == "flat" else "see the note on the burst column"
            claims.append(Claim(f"{kind}, x{scale:g}", 100.0 * value, 100.0 * own, tolerance, note, "%"))
    return Figure(
        key="sato-table-4.4",
        title="Allowable message logging overhead (table 4.4)",
        source="[Sato] table 4.4, section 4.7.3",
        x_label="scale factor",
        y_label="allowable overhead, % of run time",
        series=series,
        claims=claims,
        notes=[
            INITIALIZATION_NOTE,
            "Burst column: up to x10 the printed numbers grow with the square of the factor and fit a level-2 rate of "
            "8.0e-8 (the 1.33e-8 of table 4.2 and the level-1 rate of the buffer nodes, 6.67e-8, together) with no "
            "difference in level-1 restarts (0.00429, 0.0172 and 0.464% that way); at x50 and x100 no choice of ours "
            "gives 42.0 and 99.9%. With table 4.2's rates the level-1 restarts (10 s against 0.31 s) dominate at x1.",
        ],
        x_log=True,
        y_log=True,
    )


def figure_4_7() -> Figure:
    """Efficiency against the scale factor."""
    series = [Series(label, SCALES, [best_efficiency(name, x) for x in SCALES]) for name, label in NAMES.items()]
    ours = best_efficiency("burst-uncoordinated", 100.0)
    claims = [
        Claim("burst, uncoordinated, x100", 0.70, ours, 0.15, "'70% efficiency even on systems two orders larger'"),
    ]
    return Figure(
        key="sato-4.7",
        title="Flat and burst buffers, coordinated and uncoordinated (figure 4.7)",
        source="[Sato] figure 4.7, section 4.7.2",
        x_label="scale factor of failure rates and level-2 cost",
        y_label="efficiency",
        series=series,
        claims=claims,
        notes=[INITIALIZATION_NOTE],
        x_log=True,
    )


def _faster(level: int, level_2_scale: float) -> list[Series]:
    """Efficiency at x100 failures while the costs of one level (0 or 1) are divided by SPEEDUPS."""
    series = []
    for name, label in NAMES.items():
        values: list[float | None] = []
        for speedup in SPEEDUPS:
            factors = [1.0, level_2_scale]
            factors[level] /= speedup
            system = shipped_system(name).scaled(100.0, factors)
            if level == 0:  # a background checkpoint starts from the XOR checkpoint, so it is blocked less too
                start = system.levels[1].overhead_seconds / speedup
                system = system.replace_level(1, overhead_seconds=start)
            values.append(optimum(system).efficiency)
        series.append(Series(label, SPEEDUPS, values))
    return series


def figure_4_8() -> Figure:
    """A faster level 1 at x100 failure rates and level-2 cost."""
    series = _faster(0, 100.0)
    gains = [(line.y[-1] or 0.0) - (line.y[0] or 0.0) for line in series]
    return Figure(
        key="sato-4.8",
        title="Faster level 1 (figure 4.8)",
        source="[Sato] figure 4.8, section 4.7.4",
        x_label="level-1 performance times",
        y_label="efficiency",
        series=series,
        claims=[
            Claim("largest gain in efficiency, level 1 x20", 0.0, max(gains), None, "'does not impact efficiency'"),
        ],
        notes=[
            INITIALIZATION_NOTE,
            "Failure rates x100 and level-2 cost x100.",
        ],
    )


def figure_4_9() -> Figure:
    """A faster level 2 at x100 failure rates and level-2 cost."""
    series = _faster(1, 100.0)
    note = "'over 80% with both coordinated and uncoordinated on the burst buffer system, x10 and x20'"
    claims = [
        Claim(f"{line.label}, x{speedup:g}", 0.80, line.y[place] or 0.0, 0.1, note)
        for line in series[2:]
        for place, speedup in enumerate(SPEEDUPS)
        if speedup >= 10.0
    ]
    return Figure(
        key="sato-4.9",
        title="Faster level 2 (figure 4.9)",
        source="[Sato] figure 4.9, section 4.7.4",
        x_label="level-2 performance times",
        y_label="efficiency",
        series=series,
        claims=claims,
        notes=[INITIALIZATION_NOTE, "Failure rates x100 and level-2 cost x100."],
    )


def with_ratio(nodes_per_buffer: int, uncoordinated: bool) -> System:
    """The burst buffer system with another number of nodes to a buffer, whose throughput stays the same."""
    base = shipped_system("burst-uncoordinated" if uncoordinated else "burst")
    assert isinstance(base.storage, Storage)
    buffers = NODES // nodes_per_buffer
    first, second = base.storage.tiers
    level_1 = (LOCAL_RATE + XOR_RATE + PFS_RATE) * NODES + (LOCAL_RATE + XOR_RATE) * buffers
    storage = dataclasses.replace(
        base.storage,
        tiers=(
            dataclasses.replace(first, shared_by=nodes_per_buffer, failure_rate_per_second=level_1),
            dataclasses.replace(second, shared_by=buffers, failure_rate_per_second=PFS_RATE * buffers),
        ),
    )
    return dataclasses.replace(base, levels=storage.levels(), storage=storage)


def _ratio_figure(key: str, title: str, uncoordinated: bool) -> Figure:
    places = [float(count) for count in NODES_PER_BUFFER]
    series = []
    for scale in SCALES:
        values: list[float | None] = [
            optimum(with_ratio(count, uncoordinated).scaled(scale, [1.0, scale])).efficiency
            for count in NODES_PER_BUFFER
        ]
        series.append(Series(f"x{scale:g}", places, values))
    spread_at_10 = max(value or 0.0 for value in series[2].y) - min(value or 0.0 for value in series[2].y)
    fewer_better = (series[3].y[-1] or 0.0) - (series[3].y[0] or 0.0)
    return Figure(
        key=key,
        title=title,
        source=f"[Sato] {key.replace('sato-', 'figure ')}, section 4.7.5",
        x_label="compute nodes to a burst buffer node",
        y_label="efficiency",
        series=series,
        claims=[
            Claim("spread over the ratios at x10", 0.0, spread_at_10, None, "'not significant up to x10'"),
            Claim("64 nodes to a buffer against 4, x50", 0.0, fewer_better, None, "'more buffers decrease efficiency'"),
        ],
        notes=[
            INITIALIZATION_NOTE,
            "1088 compute nodes; rates per node as for table 4.3; a buffer writes 8.32 GB/s and reads 16 GB/s.",
        ],
        x_log=True,
    )


def figure_4_10() -> Figure:
    """Ratio of compute nodes to burst buffer nodes, coordinated."""
    return _ratio_figure("sato-4.10", "Compute nodes to a buffer, coordinated (figure 4.10)", False)


def figure_4_11() -> Figure:
    """Ratio of compute nodes to burst buffer nodes, uncoordinated."""
    return _ratio_figure("sato-4.11", "Compute nodes to a buffer, uncoordinated (figure 4.11)", True)


FIGURES: dict[str, FigureMaker] = {
    "sato-table-4.3": table_4_3,
    "sato-table-4.4": table_4_4,
    "sato-4.7": figure_4_7,
    "sato-4.8": figure_4_8,
    "sato-4.9": figure_4_9,
    "sato-4.10": figure_4_10,
    "sato-4.11": figure_4_11,
}
