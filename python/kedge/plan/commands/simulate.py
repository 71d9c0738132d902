"""``kedge plan simulate``: the efficiency, the time of a job and the chance of survival by simulation."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from kedge.plan import cli
from kedge.plan.catalog import find_system
from kedge.plan.errors import PlanError
from kedge.plan.figure import Figure, Series
from kedge.plan.model import evaluate
from kedge.plan.optimum import optimum
from kedge.plan.parallel import Progress, processors
from kedge.plan.report import Section, html_page, png_bytes, write_file
from kedge.plan.scenario import Scenario, model_scenario, parse_scenario
from kedge.plan.simulate import (
    JOBS_MAX,
    JOBS_MIN,
    RUNS_MIN,
    TRANSITIONS_MAX,
    TRANSITIONS_DEFAULT,
    Efficiency,
    Jobs,
    simulate,
    simulate_jobs,
    simulate_survival,
)
from kedge.plan.statistics import Estimate
from kedge.plan.system import System
from kedge.plan.table import Cell, Table

DESCRIPTION = """\
Simulate a system by discrete events, as its [simulation] table says: failures (exponential, Weibull, log-normal, or
a replayed trace), failure domains, groups of nodes, spares, varying times. Without that table, and with
--model-assumptions, the assumptions are those of the models. --interval and --counts that are left out are the
model's optimum.
"""

Answer = dict[str, object]


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate a system, with any failures and placement",
        description=DESCRIPTION,
        epilog="example:\n  kedge plan simulate tsubame2 --transitions 1200000",
        formatter_class=cli.Formatter,
    )
    cli.add_system_argument(parser)
    cli.add_schedule_arguments(parser)
    parser.add_argument(
        "--transitions",
        type=int,
        default=TRANSITIONS_DEFAULT,
        metavar="N",
        help="state transitions (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same answer (default 0)")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="P", help="of the limits (default 0.95)")
    parser.add_argument("--processes", type=int, default=processors(), metavar="N", help="default: all processors")
    parser.add_argument("--model-assumptions", action="store_true", help="leave the [simulation] table aside")
    parser.add_argument("--distribution", metavar="NAME", help="of the failures: exponential, weibull, lognormal")
    parser.add_argument("--shape", type=float, metavar="K", help="Weibull shape")
    parser.add_argument("--sigma", type=float, metavar="S", help="log-normal sigma")
    parser.add_argument(
        "--trace", metavar="FILE", help="replay these failures (CSV of time,nodes[,level], or SLURM's logs)"
    )
    parser.add_argument("--jobs", type=int, metavar="RUNS", help="also simulate RUNS jobs of work_seconds to their end")
    parser.add_argument("--survive-hours", type=float, metavar="H", help="also the probability of H hours without ...")
    parser.add_argument("--level", metavar="NAME", help="... a failure of this level or above (default: the highest)")
    parser.add_argument("--png", metavar="FILE", help="draw where the time goes (with --jobs: how long jobs take)")
    parser.add_argument("--html", metavar="FILE", help="write the answer as one page")
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    _check_options(arguments)
    system = find_system(arguments.system)
    scenario = _scenario(system, arguments)
    interval, counts = _choice(system, arguments)
    progress = None if arguments.json else Progress("simulating")
    result = simulate(
        system,
        interval,
        counts,
        scenario=scenario,
        transitions=arguments.transitions,
        seed=arguments.seed,
        confidence=arguments.confidence,
        processes=arguments.processes,
        progress=progress,
    )
    answer = _answer(system, interval, counts, result, arguments.confidence)
    figures = [_shares_figure(system, result)]
    if arguments.jobs is not None:
        jobs = simulate_jobs(
            system,
            interval,
            counts,
            scenario=scenario,
            runs=arguments.jobs,
            seed=arguments.seed,
            confidence=arguments.confidence,
        )
        answer["jobs"] = _jobs_answer(jobs)
        figures.append(_jobs_figure(system, jobs))
    if arguments.survive_hours is not None:
        answer["survival"] = _survival(system, scenario, interval, counts, arguments)
    if arguments.png:
        write_file(arguments.png, png_bytes(figures[-1]), "--png")
    if arguments.html:
        sections = [Section("Answer", tables=[_answer_table(answer)]), Section("Figures", figures=figures)]
        write_file(arguments.html, html_page(f"Checkpoint simulation: {system.name}", sections), "--html")
    if arguments.json:
        cli.print_json(answer)
    else:
        print(_text(system, answer))
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Before anything is computed, and by the names that the user gave them."""
    whole = "a whole number"
    cli.check_option("--transitions", arguments.transitions, RUNS_MIN, TRANSITIONS_MAX, whole)
    cli.check_option("--seed", arguments.seed, 0, math.inf, whole)
    cli.check_option("--processes", arguments.processes, 1, math.inf, whole)
    cli.check_option("--confidence", arguments.confidence, 0.5, 0.999999)
    cli.check_option("--jobs", arguments.jobs, JOBS_MIN, JOBS_MAX, whole)
    cli.check_option("--survive-hours", arguments.survive_hours, 1e-6, 1e9)


def _scenario(system: System, arguments: argparse.Namespace) -> Scenario:
    """The scenario of the file, with what the command line changes."""
    changes: dict[str, object] = {
        key: value
        for key in ("distribution", "shape", "sigma", "trace")
        if (value := getattr(arguments, key)) is not None
    }
    if arguments.model_assumptions:
        if changes:
            raise PlanError("--model-assumptions", sorted(changes), "given without options that change the failures")
        return model_scenario(system)
    table = dict(system.simulation)
    if "trace" in changes:
        changes["trace"] = str(Path(str(changes["trace"])).resolve())
        table.pop("failure", None)
    if "distribution" in changes:
        for key in ("shape", "sigma", "trace"):
            table.pop(key, None)
    folder = Path(arguments.system).parent
    return parse_scenario(dataclasses.replace(system, simulation={**table, **changes}), folder)


def _choice(system: System, arguments: argparse.Namespace) -> tuple[float, tuple[int, ...]]:
    """Interval and counts as given; what is left out is the model's optimum."""
    interval = None if arguments.interval is None else cli.parse_interval(arguments.interval, system)
    counts = None if arguments.counts is None else cli.parse_counts(arguments.counts, len(system.levels))
    if interval is not None and (counts is not None or len(system.levels) == 1):
        return interval, counts or ()
    best = optimum(system, interval_seconds=interval, counts=counts)
    return best.interval_seconds, best.counts


def _limits(name: str, estimate: Estimate) -> Answer:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _answer(system: System, interval: float, counts: Sequence[int], result: Efficiency, confidence: float) -> Answer:
    efficiency = result.efficiency
    model = evaluate(system, interval, counts)
    slow, fast = max(efficiency.low, 0.0), efficiency.high
    expected = Estimate(_seconds(system, efficiency.value), _seconds(system, fast), _seconds(system, slow))
    return {
        "system": system.name,
        "interval_seconds": interval,
        "counts": list(counts),
        **_limits("efficiency", efficiency),
        "confidence": confidence,
        "model_efficiency": model.efficiency,
        **_limits("expected_seconds", expected),
        "transitions": result.transitions,
        "simulated_seconds": result.simulated_seconds,
        "runs": result.runs,
        "seed": result.seed,
        "shares": dict(result.shares),
        "failures": dict(result.failures),
        "restarts": dict(result.restarts),
    }


def _seconds(system: System, efficiency: float) -> float:
    return system.work_seconds / efficiency if efficiency > 0.0 else math.inf


def _jobs_answer(jobs: Jobs) -> Answer:
    return {
        "runs": int(jobs.seconds.size),
        **_limits("mean_seconds", jobs.mean_seconds),
        "efficiency": jobs.efficiency,
        "quantiles_seconds": {f"{share:g}": jobs.quantile_seconds(share) for share in (0.05, 0.5, 0.95, 0.99)},
    }


def _survival(
    system: System, scenario: Scenario, interval: float, counts: Sequence[int], arguments: argparse.Namespace
) -> Answer:
    names = [level.name for level in system.levels]
    name = names[-1] if arguments.level is None else arguments.level
    if name not in names:
        raise PlanError("--level", name, f"the name of a level: {', '.join(names)}")
    estimate = simulate_survival(
        system,
        interval,
        counts,
        scenario=scenario,
        horizon_seconds=arguments.survive_hours * 3600.0,
        level=names.index(name),
        seed=arguments.seed,
        confidence=arguments.confidence,
    )
    return {"hours": arguments.survive_hours, "level": name, **_limits("probability", estimate)}


def _shares_figure(system: System, result: Efficiency) -> Figure:
    names = tuple(result.shares)
    return Figure(
        key="shares",
        title=f"Where the time goes: {system.name}",
        source="",
        x_label="",
        y_label="share of the time",
        series=[Series("simulated", range(len(names)), [result.shares[name] for name in names])],
        bars=True,
        categories=names,
    )


def _jobs_figure(system: System, jobs: Jobs) -> Figure:
    """Up to 200 points of the distribution of the jobs' times."""
    count = min(200, jobs.seconds.size)
    shares = [(point + 1) / count for point in range(count)]
    return Figure(
        key="jobs",
        title=f"How long {jobs.seconds.size} jobs take: {system.name}",
        source="",
        x_label="seconds",
        y_label="share of the jobs that have ended",
        series=[Series("simulated", [jobs.quantile_seconds(share) for share in shares], shares)],
    )


def _answer_table(answer: Answer) -> Table:
    """Every number of the answer, nested ones under their path."""
    rows: list[tuple[Cell, Cell]] = []

    def enter(prefix: str, entries: Mapping[str, object]) -> None:
        for key, value in entries.items():
            if isinstance(value, Mapping):
                enter(f"{prefix}{key}: ", value)
            else:
                rows.append((prefix + key, value if isinstance(value, (str, int, float)) else str(value)))

    enter("", answer)
    return Table("Simulated", ("what", "value"), rows)


def _text(system: System, answer: Answer) -> str:
    def value(key: str) -> float:
        number = answer[key]
        assert isinstance(number, (int, float))
        return float(number)

    def table(key: str) -> dict[str, float]:
        entries = answer[key]
        assert isinstance(entries, dict)
        return entries

    confidence = f"{100 * value('confidence'):g}%"
    lines = [
        f"{system.name}: interval {value('interval_seconds'):.0f} s, counts {answer['counts']}",
        f"  efficiency  {value('efficiency'):.4f}  ({confidence}: {value('efficiency_low'):.4f} to "
        f"{value('efficiency_high'):.4f}; the model says {value('model_efficiency'):.4f})",
        f"  {system.work_seconds:.6g} s of work take {value('expected_seconds'):.6g} s "
        f"({value('expected_seconds_low'):.6g} to {value('expected_seconds_high'):.6g})",
        "  time        " + ", ".join(f"{name} {100 * share:.2f}%" for name, share in table("shares").items()),
        "  failures    " + ", ".join(f"{name} {count}" for name, count in table("failures").items()),
        "  restarts    " + ", ".join(f"{name} {count}" for name, count in table("restarts").items()),
        f"  {value('transitions'):.0f} transitions of {value('runs'):.0f} runs, {value('simulated_seconds'):.3g} s "
        f"simulated, seed {value('seed'):.0f}",
    ]
    if "jobs" in answer:
        jobs = table("jobs")
        quantiles = jobs["quantiles_seconds"]
        assert isinstance(quantiles, dict)
        lines.append(
            f"  jobs        mean {jobs['mean_seconds']:.6g} s ({jobs['mean_seconds_low']:.6g} to "
            f"{jobs['mean_seconds_high']:.6g}); "
            + ", ".join(f"{100 * float(share):g}% within {seconds:.6g} s" for share, seconds in quantiles.items())
        )
    if "survival" in answer:
        survival = table("survival")
        lines.append(
            f"  survival    {survival['hours']:g} h without a failure of level {survival['level']}: "
            f"{survival['probability']:.4f} ({survival['probability_low']:.4f} to {survival['probability_high']:.4f})"
        )
    return "\n".join(lines)
