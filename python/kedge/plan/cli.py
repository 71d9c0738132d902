"""``kedge plan`` (installed as ``kedge-plan``): finds the subcommand and turns errors into one clear line.

Exit codes: 0 done, 1 the answer is no (a comparison or a check that failed), 2 bad input.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kedge.plan.commands import COMMANDS
from kedge.plan.errors import PlanError
from kedge.plan.system import System

DESCRIPTION = """\
Plan checkpoint and restart: how often to checkpoint to which level, what
efficiency to expect, which storage to buy. SYSTEM is a TOML file, or the name
of a system that is shipped ("kedge plan advise --list").
"""

Subparsers = Any  # argparse's own type is private and not subscriptable at run time


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, as PlanError does."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')} ({self.prog} --help says what is allowed)\n")


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs; lines that are indented stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled: list[str] = []
        paragraph: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line and not line.startswith(" "):
                paragraph.append(line)
            if paragraph and (not line or line.startswith(" ") or line.endswith(":")):
                filled += textwrap.wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False)
                paragraph = []
            if line.startswith(" "):
                filled.append(line)
        return "".join(f"{indent}{line}\n" for line in filled)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser with every subcommand of commands.COMMANDS, or with one, whose module alone is then loaded."""
    parser = Parser(
        prog="kedge plan", description=DESCRIPTION, formatter_class=Formatter
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS if only is None else (only,):
        try:
            importlib.import_module(f"kedge.plan.commands.{name}").add(subparsers)
        except ModuleNotFoundError as error:
            if only is not None or not (package := missing_package(error)):
                raise
            subparsers.add_parser(name, help=f"needs {package}, which is not installed")
    return parser


def missing_package(error: ModuleNotFoundError) -> str:
    """Of the extra "plan", which may be left out; empty: it is another one."""
    package = (error.name or "").partition(".")[0]
    return package if package in ("numpy", "scipy", "matplotlib") else ""


def add_system_argument(parser: argparse.ArgumentParser, name: str = "system") -> None:
    """The positional SYSTEM argument."""
    parser.add_argument(name, metavar=name.upper(), help="system file (TOML), or the name of a shipped system")


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """The option --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_schedule_arguments(parser: argparse.ArgumentParser) -> None:
    """The options --interval and --counts, which name one schedule to evaluate."""
    parser.add_argument("--interval", metavar="SECONDS", help="evaluate this interval between checkpoints")
    parser.add_argument(
        "--counts", metavar="V1,V2,...", help="evaluate these counts: level-i checkpoints per period of level i+1"
    )


def parse_positive(option: str, text: str, whole: bool = False, kind: str = "a number") -> float:
    """The option's number above 0 (`whole`: of at least 1, without a fraction); PlanError, naming the option, where it is none."""
    allowed = "a whole number of at least 1" if whole else f"{kind} above 0"
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        raise PlanError(option, text, allowed) from None
    if not math.isfinite(value) or value <= 0.0:
        raise PlanError(option, text, allowed)
    return value


def parse_interval(text: str, system: System | None = None) -> float:
    """--interval as seconds; PlanError where it is not a positive number.

    With ``system``, an interval shorter than a checkpoint of the fastest level is refused too: more than half of
    the time would go into checkpoints, which is a unit mistaken, not a choice.
    """
    value = parse_positive("--interval", text, kind="a number of seconds")
    if system is not None and value < system.levels[0].overhead_seconds:
        fastest = system.levels[0]
        raise PlanError(
            "--interval", text, f"at least {fastest.overhead_seconds:g} s, a checkpoint of level {fastest.name!r}"
        )
    return value


def parse_counts(text: str, level_count: int) -> tuple[int, ...]:
    """--counts as whole numbers, one per level but the last (a last 1, as in {15, 5, 1}, may be given)."""
    allowed = f"{level_count - 1} whole numbers of at least 0, separated by commas"
    if level_count <= 2:
        allowed = "one whole number of at least 0" if level_count == 2 else "left out: there is one level"
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise PlanError("--counts", text, allowed) from None
    if len(values) == level_count and values[-1] == 1:
        values.pop()
    if len(values) != level_count - 1 or any(value < 0 for value in values):
        raise PlanError("--counts", text, allowed)
    return tuple(values)


def check_option(option: str, value: float | None, low: float, high: float, kind: str = "a number") -> None:
    """PlanError, naming the option, unless the value (None: not given) is from `low` to `high`."""
    if value is not None and not low <= value <= high:
        upper = f" to {high:g}" if math.isfinite(high) else " up"
        raise PlanError(option, value, f"{kind} from {low:g}{upper}")


def print_json(answer: object) -> None:
    """One JSON object on stdout; NaN and infinity are refused by JSON, so they become null."""
    print(json.dumps(finite(answer), indent=2))


def finite(value: object) -> object:
    """`value` with every NaN and infinity replaced by None, for JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    try:
        return run_words(list(sys.argv[1:] if arguments is None else arguments))
    except ModuleNotFoundError as error:
        if not (package := missing_package(error)):
            raise
        remedy = f"pip install {package}, or Debian's python3-{package}"
        print(f"kedge plan: it needs {package}, which is not installed: {remedy}", file=sys.stderr)
        return 2


def run_words(words: list[str]) -> int:
    """The same; ModuleNotFoundError: a package of the extra "plan" is missing."""
    parsed = build_parser(words[0] if words and words[0] in COMMANDS else None).parse_args(words)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except PlanError as error:
        print(f"kedge plan {parsed.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
