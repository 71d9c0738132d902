"""`kedge-bench levels` end to end on small images: nodes are lost and every byte comes back, extra bytes are those of the scheme,
what cannot come back is said, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from processes import ranks_that_sleep

BENCH = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge-bench"
MEBIBYTE = 1 << 20
pytestmark = pytest.mark.needs("MPI")


def levels(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **ranks_that_sleep()}
    return subprocess.run([BENCH, "levels", "--repetitions", "1", *arguments], env=environment, capture_output=True, text=True, timeout=200)


def measured(*arguments: str) -> dict:
    done = levels(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("scheme", "nodes", "lose", "share"),
    [("partner", 2, "1", 1.0), ("xor", 3, "0", 1 / 2), ("rs", 4, "1,3", 2 / 2)],
)
def test_lost_nodes_come_back(scheme: str, nodes: int, lose: str, share: float) -> None:
    result = measured("--nodes", str(nodes), "--scheme", scheme, "--lose", lose, "--bytes", "12MiB")
    assert result["verified"] is True
    assert result["restored_from"] == scheme
    assert result["restored_version"] == result["version"]
    assert result["bytes_total"] == 12 * MEBIBYTE
    image = 12 * MEBIBYTE / nodes
    # To the chunk: an image is its region and its record, and a segment is rounded up to blocks.
    assert nodes * share * image <= result["extra_bytes"] <= nodes * (share * image + MEBIBYTE)
    for key in ("blocked_seconds", "local_blocked_seconds", "protected_seconds", "restart_seconds", "reference_network_seconds"):
        assert result[f"{key}_median"] > 0, key
    assert result["model_share"] > 0 and result["model_restart_share"] > 0


def test_one_loss_too_many_is_said() -> None:
    done = levels("--nodes", "3", "--scheme", "xor", "--lose", "0,1", "--bytes", "3MiB")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["verified"] is False
    assert result["restored_from"] == "none"
    assert result["restart_error"]


def test_bad_calls_are_refused() -> None:
    for arguments, named in ((("--lose", "4"), "--lose"), (("--scheme", "raid"), "--scheme"), (("--bytes", "x"), "--bytes"),
                             (("--nodes", "2", "--lose", "0,1"), "--lose"), (("--lose", "1,1"), "twice"), (("--lose", "1,"), "--lose"),
                             (("--nodes", "2", "--scheme", "rs", "--losses", "5"), "5 losses"), (("--nodes", "0"), "--nodes")):
        done = levels(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert named in done.stderr


def test_nothing_stays() -> None:
    arguments = [BENCH, "levels", "--nodes", "2", "--launcher", "false", "--bytes", "1MiB"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.wait(60) == 1
    assert not list(Path("/dev/shm").glob(f"kedge-levels-{process.pid}*"))


def test_nobody_can_make_its_folder_beforehand() -> None:
    done = levels("--nodes", "2", "--launcher", "echo", "--bytes", "1MiB")  # shows what it would launch
    assert re.search(r"--folder /dev/shm/kedge-levels-\d+-\w{6}\s", done.stderr), done.stderr
