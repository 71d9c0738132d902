"""Reading numbers, words and tables from parsed TOML, each with its allowed range.

The functions take the table, the key and the dotted path of the table; each either returns a value of the
right type within range or raises PlanError. Keys left over at the end are errors, with the likely intent.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from kedge.plan.errors import PlanError

Table = Mapping[str, object]


def path_of(prefix: str, key: str) -> str:
    """The dotted name of `key` inside the table called `prefix`."""
    return f"{prefix}.{key}" if prefix else key


def range_words(low: float | None, high: float | None, low_open: bool) -> str:
    """The range as a reader says it: 'a number above 0', 'a number from 0 to 1'."""
    if low is None:
        return "a finite number" if high is None else f"a number of at most {high:g}"
    start = f"above {low:g}" if low_open else f"of at least {low:g}"
    if high is None:
        return f"a finite number {start}"
    return f"a number {start} and at most {high:g}"


def check_number(
    value: object, name: str, *, low: float | None = 0.0, high: float | None = None, low_open: bool = False
) -> float:
    """`value` as a float inside the range; booleans, text, NaN and infinity are refused."""
    allowed = range_words(low, high, low_open)
    if isinstance(value, str):
        raise PlanError(name, value, f"{allowed}, without quotes; the unit stands in the key's name")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise PlanError(name, value, allowed)
    below = low is not None and (value <= low if low_open else value < low)
    if below or (high is not None and value > high):
        raise PlanError(name, value, allowed)
    return float(value)


def number(
    table: Table,
    key: str,
    prefix: str,
    *,
    default: float | None = None,
    low: float | None = 0.0,
    high: float | None = None,
    low_open: bool = False,
) -> float:
    """The number under `key`; without a default the key must be there."""
    if key not in table:
        if default is None:
            raise PlanError(path_of(prefix, key), None, f"{range_words(low, high, low_open)}; the key is missing")
        return default
    return check_number(table[key], path_of(prefix, key), low=low, high=high, low_open=low_open)


def whole(table: Table, key: str, prefix: str, *, default: int | None = None, low: int = 1) -> int:
    """The whole number under `key`, at least `low`."""
    if key not in table and default is not None:
        return default
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        missing = "" if key in table else "; the key is missing"
        raise PlanError(path_of(prefix, key), value, f"a whole number of at least {low}{missing}")
    return value


def text(table: Table, key: str, prefix: str, *, default: str | None = None) -> str:
    """The text under `key`, not empty when required."""
    value = table.get(key, default)
    if not isinstance(value, str) or (default is None and not value):
        raise PlanError(path_of(prefix, key), value, "a text between quotes, not empty")
    return value


def flag(table: Table, key: str, prefix: str, *, default: bool | None = None) -> bool:
    """The boolean under `key`."""
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise PlanError(path_of(prefix, key), value, "true or false")
    return value


def subtable(table: Table, key: str, prefix: str) -> Table | None:
    """The table under `key`, or None when there is none."""
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise PlanError(path_of(prefix, key), value, f"a table, [{path_of(prefix, key)}]")
    return value


def tables(table: Table, key: str, prefix: str) -> list[Table]:
    """The array of tables under `key`, empty when there is none."""
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise PlanError(path_of(prefix, key), value, f"one [[{path_of(prefix, key)}]] table per entry")
    return value


def refuse_unknown(table: Table, known: Iterable[str], prefix: str) -> None:
    """Raise for the first key outside `known`; say so when only the unit is missing from its name."""
    names = sorted(known)
    for key in table:
        if key in names:
            continue
        with_unit = [name for name in names if name.startswith(f"{key}_")]
        if with_unit:
            hint = f"a key with its unit: {', '.join(with_unit)} (the unit is missing)"
        else:
            close = difflib.get_close_matches(key, names, n=1)
            hint = f"one of {', '.join(names)}" + (f" (perhaps {close[0]})" if close else "")
        raise PlanError(path_of(prefix, key), table[key], hint)
