"""The module kedge_fmi: its calls, and a program of it that survives, to the last bit of the same program in C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import BUILD, Launch, armed, assert_survived
from test_abi import ROOT, compiled

CALLS = BUILD / "test" / "fmi_calls_fortran"
HEAT = BUILD / "examples" / "heat-fortran"

pytestmark = pytest.mark.needs("FORTRAN")


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_kind_of_argument(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, CALLS).wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err + ended.out


def test_an_array_that_is_not_contiguous_is_refused(launch: Launch) -> None:
    ended = launch("-n", 2, CALLS, "section").wait()
    assert ended.code == 1
    assert "fmi: FMI_Bcast: the array is not contiguous: give a copy of the section, or a type for it" in ended.err


def test_a_program_in_fortran_survives(launch: Launch, tmp_path: Path) -> None:
    expected = launch("-n", 2, "env", "KEDGE_JOB_NAME=undisturbed", HEAT, 48, 300).wait().result()
    in_c = launch("-n", 2, "env", "KEDGE_JOB_NAME=c", compiled(ROOT / "examples" / "fmi" / "heat.c", tmp_path), 48, 300).wait().result()
    (checksum,) = re.findall(r"checksum (\w+)$", in_c)
    assert expected.lower().endswith(checksum)
    kills = {(1, 0): "fmi.checkpoint:7", (0, 0): "fmi.restore:2", (1, 1): "fmi.h2"}
    ended = launch("-n", 2, "--interval", 10, *armed([str(HEAT), "48", "300"], kills)).wait()
    assert_survived(ended, expected)
    assert ended.err.count("was killed by signal 9; it is started again") == 3
