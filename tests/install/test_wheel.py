"""`pip install .` into a new environment: the wheel carries extension, library, agent, tools and planner, and works from there.

NumPy and the build's own requirements come from the Python that runs the tests, so that nothing is fetched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.needs("PYTHON")]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Runs a command without the test's own PYTHONPATH; it must succeed. Its standard output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with Kedge in it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(
        *pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder / "wheels",
        # The build type of the default tree, so that a compiler cache can serve both.
        *("--config-settings", f"build-dir={folder / 'build'}", "--config-settings", "cmake.build-type=RelWithDebInfo", ROOT),
    )
    (wheel,) = (folder / "wheels").iterdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-index", "--no-deps", wheel)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
    (Path(packages) / "borrowed.pth").write_text(sysconfig.get_path("platlib") + "\n")
    return folder / "venv"


def test_the_commands_work(environment: Path, tmp_path: Path) -> None:
    for tool in ("ls", "status", "doctor", "plan", "agent"):
        assert "usage" in run(environment / "bin" / "kedge", tool, "--help", cwd=tmp_path).lower()
    assert "usage" in run(environment / "bin" / "python", "-m", "kedge", "ls", "--help", cwd=tmp_path).lower()
    assert "usage" in run(environment / "bin" / "kedge-plan", "--help", cwd=tmp_path).lower()


def test_a_checkpoint_comes_back(environment: Path, agent_program: Callable[[], Path], tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    assert Path(run(python, "-c", "import kedge; print(kedge.__file__)", cwd=tmp_path).strip()).is_relative_to(environment)
    quickstart = ROOT / "examples" / "quickstart" / "quickstart.py"
    assert run(python, quickstart, cwd=tmp_path) == "field[0] = 2525\n"
    assert run(python, quickstart, cwd=tmp_path) == "continuing from step 100\nfield[0] = 2525\n"
    assert agent_program().is_relative_to(environment.resolve())
    assert "quickstart" in run(environment / "bin" / "kedge", "ls", cwd=tmp_path)
