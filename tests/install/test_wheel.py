"""The wheel, in systems that have neither compilers nor the libraries that Kedge links: it carries extension, library, agent,
tools and planner, and works from there.

One is a Debian with an environment of python3-venv, one is like an image of Python: pip for root, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_debian import ROOT, Debian, run

pytestmark = [pytest.mark.slow, pytest.mark.needs("PYTHON")]
MIB = 2**20
WAYS = {
    "venv": ("python3-venv", "user", "python3 -m venv env; env/bin/pip install", "PATH=$HOME/env/bin:$PATH"),
    "slim": ("python3-pip", "root", "pip install --break-system-packages", "true"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wheel")
    run("scripts/wheel", made)
    (wheel,) = made.glob("*.whl")
    return wheel


class Installed:
    """A system with the wheel in it, and its owner."""

    def __init__(self, debian: Debian, wheel: Path, way: str) -> None:
        package, self._user, self._pip, self._enter = WAYS[way]
        debian.install(package)
        debian.put(wheel, ROOT / "examples" / "quickstart" / "quickstart.py")
        self._debian = debian
        self.pip(f"/srv/{wheel.name}")

    def pip(self, requirement: str) -> None:
        self._debian.do(f"{self._pip} -q --disable-pip-version-check --root-user-action=ignore '{requirement}'", self._user)

    def do(self, script: str) -> str:
        return self._debian.do(f"{self._enter}; {script}", self._user)


@pytest.fixture(scope="module", params=WAYS)
def installed(request: pytest.FixtureRequest, bare_debian: Debian, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    debian = bare_debian.copy(tmp_path_factory.mktemp("debian") / request.param)
    yield Installed(debian, wheel, request.param)
    debian.remove()


def test_it_runs_where_the_c_library_is_that_of_debian_12(wheel: Path) -> None:
    tags = wheel.stem.split("-")[-1].split(".")
    assert any(tag.startswith("manylinux_2_") and int(tag.split("_")[2]) <= 36 for tag in tags), wheel.name


def test_a_checkpoint_comes_back(installed: Installed) -> None:
    launch = "python3 /srv/quickstart.py"
    output = installed.do(f"! which cc gcc; {launch}; {launch}; readlink /proc/[0-9]*/exe | grep kedge-agent; kedge ls")
    first, second, third, agent, *table = output.splitlines()
    assert [first, second, third] == ["field[0] = 2525", "continuing from step 100", "field[0] = 2525"]
    assert agent.endswith("/site-packages/kedge/bin/kedge-agent") or agent.endswith("/dist-packages/kedge/bin/kedge-agent")
    assert any("quickstart" in line for line in table)


def test_the_commands_work(installed: Installed) -> None:
    for tool in ("kedge ls", "kedge status", "kedge doctor", "kedge run", "kedge report", "kedge agent", "python3 -m kedge ls"):
        assert "usage" in installed.do(f"{tool} --help").lower()


def test_it_is_small(installed: Installed) -> None:
    folders = installed.do("dirname $(python3 -c 'import kedge; print(kedge.__file__)')").strip()
    total = installed.do(f"du -sbc {folders} {folders}.libs | tail -1").split()[0]
    assert int(total) < 30 * MIB


def test_the_planner_is_an_extra(installed: Installed, wheel: Path) -> None:
    advise = "kedge plan advise tsubame2 --png advice.png"
    assert "scipy" not in installed.do("python3 -m pip list").lower()
    assert re.search(r"it needs (scipy|matplotlib), which is not installed: pip install \1, or", installed.do(f"! {advise}"))
    installed.pip(f"/srv/{wheel.name}[plan]")
    assert "interval" in installed.do(f"{advise}; test -s advice.png")
