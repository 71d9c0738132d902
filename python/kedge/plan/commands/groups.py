"""``kedge plan groups``: what groups of nodes that protect each other cost, and how long they last."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from kedge.plan import cli
from kedge.plan.errors import PlanError
from kedge.plan.groups import (
    Protection,
    extra_share,
    group_sizes,
    loss_rate_per_second,
    survival_of_simultaneous_losses,
)
from kedge.plan.table import Cell, Table, duration_text, text_table

DESCRIPTION = """\
Compare the schemes of level 2 on a number of nodes: bytes beside each checkpoint, the time until a failure that the scheme
does not survive, and the probability to survive nodes that are lost at once. Nodes fail independently; what fails
together is one failure domain, of which a group never holds two nodes.
"""
EPILOG = """\
example:
  kedge plan groups --nodes 1024 --node-mtbf-hours 43800 --window 600
  kedge plan groups --nodes 1024 --scheme xor:8 --scheme rs:12:3
"""
SECONDS_A_DAY = 86400.0
# The runtime's defaults, and one step to each side.
USUAL = ("none", "partner:2", "partner:3:2", "xor:4", "xor:8", "xor:16", "rs:10:2", "rs:18:2", "rs:11:3")


@dataclass(frozen=True)
class Answer:
    """One scheme on these nodes."""

    name: str
    protection: Protection
    sizes: list[int]
    extra: float
    seconds_to_loss: float
    loss_probability: float
    survival: list[float]


def add(subparsers: cli.Subparsers) -> None:
    """Add the parser of this command."""
    parser = subparsers.add_parser(
        "groups",
        help="schemes of protection across nodes: what they cost and survive",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=cli.Formatter,
    )
    parser.add_argument("--nodes", metavar="N", required=True, help="nodes of the job")
    parser.add_argument("--node-mtbf-hours", metavar="H", required=True, help="mean time between failures of one node")
    parser.add_argument(
        "--window", metavar="SECONDS", default="600",
        help="from a failure until the job is protected again; default 600",
    )  # fmt: skip
    parser.add_argument("--days", metavar="D", default="30", help="probability of a loss within this time; default 30")
    parser.add_argument(
        "--at-once", metavar="L1,L2,...", default="1,2,4,8", help="nodes lost at once; default 1,2,4,8"
    )
    parser.add_argument(
        "--scheme", metavar="NAME[:GROUP[:LOSSES]]", action="append",
        help="none, partner, xor or rs, with the nodes of a group and the losses (partner: copies) that it survives; may be repeated",
    )  # fmt: skip
    cli.add_json_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out; returns the exit code."""
    nodes = int(cli.parse_positive("--nodes", arguments.nodes, whole=True))
    mtbf_seconds = cli.parse_positive("--node-mtbf-hours", arguments.node_mtbf_hours) * 3600.0
    window_seconds = cli.parse_positive("--window", arguments.window)
    days = cli.parse_positive("--days", arguments.days)
    at_once = [int(cli.parse_positive("--at-once", text, whole=True)) for text in arguments.at_once.split(",")]
    if max(at_once) > nodes:
        raise PlanError("--at-once", max(at_once), f"at most the {nodes} nodes")
    answers = []
    for text in arguments.scheme or USUAL:
        name, group_nodes, protection = parse_scheme(text)
        if protection.losses + 1 > nodes and not arguments.scheme:
            continue  # one of the usual ones that so few nodes cannot have
        answers.append(_answer(name, nodes, group_nodes, protection, mtbf_seconds, window_seconds, days, at_once))
    if arguments.json:
        cli.print_json([_as_dict(answer, at_once) for answer in answers])
    else:
        print(text_table(_table(answers, nodes, mtbf_seconds, window_seconds, days, at_once)))
    return 0


def parse_scheme(text: str) -> tuple[str, int, Protection]:
    """``rs:10:2`` as ("rs", 10, Protection("rs", 2)); what is left out is the runtime's default."""
    name, *numbers = text.split(":")
    allowed = "none, partner[:GROUP[:COPIES]], xor[:GROUP] or rs[:GROUP[:LOSSES]]"
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise PlanError("--scheme", text, allowed)
    values = [int(number) for number in numbers]
    losses = values[1] if len(values) == 2 else {"none": 0, "rs": 2}.get(name, 1)
    protection = Protection(name, losses)
    default_nodes = {"none": 1, "partner": losses + 1, "xor": 8, "rs": losses + 8}[name]
    return name, values[0] if values else default_nodes, protection


def _answer(
    name: str,
    nodes: int,
    group_nodes: int,
    protection: Protection,
    mtbf_seconds: float,
    window_seconds: float,
    days: float,
    at_once: list[int],
) -> Answer:
    sizes = group_sizes(nodes, group_nodes, protection.losses)
    rate = loss_rate_per_second(protection, sizes, mtbf_seconds, window_seconds)
    return Answer(
        name=name,
        protection=protection,
        sizes=sizes,
        extra=extra_share(protection, min(sizes)),
        seconds_to_loss=1.0 / rate if rate > 0.0 else math.inf,
        loss_probability=-math.expm1(-rate * days * SECONDS_A_DAY),
        survival=[survival_of_simultaneous_losses(protection, sizes, lost) for lost in at_once],
    )


def _sizes_text(sizes: list[int]) -> str:
    smallest, largest = min(sizes), max(sizes)
    return str(smallest) if smallest == largest else f"{smallest}-{largest}"


def _as_dict(answer: Answer, at_once: list[int]) -> dict[str, object]:
    return {
        "scheme": answer.name,
        "losses": answer.protection.losses,
        "groups": len(answer.sizes),
        "group_nodes_min": min(answer.sizes),
        "group_nodes_max": max(answer.sizes),
        "extra_share": answer.extra,
        "seconds_to_loss": answer.seconds_to_loss,
        "loss_probability": answer.loss_probability,
        "survival_at_once": {str(lost): value for lost, value in zip(at_once, answer.survival, strict=True)},
    }


def _time_text(seconds: float) -> str:
    days = seconds / SECONDS_A_DAY
    if days < 2.0:
        return f"{days * 24.0:.3g} hours"
    return f"{days:.3g} days" if days < 1000.0 else f"{days / 365.25:.3g} years"


def _table(
    answers: list[Answer], nodes: int, mtbf_seconds: float, window_seconds: float, days: float, at_once: list[int]
) -> Table:
    header = ["scheme", "losses", "nodes a group", "extra bytes", "mean time to a loss", f"loss in {days:g} days"]
    header += [f"survives {lost}" for lost in at_once]
    rows: list[list[Cell]] = [
        [
            answer.name,
            answer.protection.losses,
            _sizes_text(answer.sizes),
            f"{answer.extra:.3f}",
            _time_text(answer.seconds_to_loss),
            f"{answer.loss_probability:.2g}",
            *(f"{value:.6f}" for value in answer.survival),
        ]
        for answer in answers
    ]
    title = f"{nodes} nodes that fail every {mtbf_seconds / 3600.0:g} hours each, protected again after {duration_text(window_seconds)}"
    return Table(title, header, rows)
