"""Jobs whose store is in a bucket: they are killed and restart from it alone; the tools work on it."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from servers import SECRET_KEY
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge, kedge_json, kedge_text

from kedge import Context, Level

MIB = 1 << 20

PROGRAM = textwrap.dedent(
    """
    import hashlib, os, signal, sys
    import numpy as np
    from kedge import Context, Level
    array = np.zeros(12 << 17)  # 12 MiB: parts of an upload, the last one not whole
    step = np.zeros(1, dtype=np.int64)
    context = Context("killed", settings={"job.mode": sys.argv[1], "job.lease": "2s"})
    context.protect(0, array)
    context.protect(1, step)
    restarted = context.newest("k") is not None
    if restarted:
        context.restart("k")
    print("at", int(step[0]), hashlib.sha256(array.tobytes()).hexdigest(), flush=True)
    while step[0] < 6:
        step += 1
        array[:] = np.random.default_rng(int(step[0])).random(array.size)
        context.checkpoint("k", int(step[0]))
        if step[0] == 4 and not restarted:
            context.wait("k", 4, Level.STORE)
            os.kill(os.getpid(), signal.SIGKILL)
    context.close()
    """
)


def content_of(step: int) -> str:
    return hashlib.sha256(np.random.default_rng(step).random(12 << 17).tobytes()).hexdigest()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_killed_job_restarts_from_the_bucket_alone(
    s3_store: str, run_folder: Path, end_own_agent: Callable[[], None], mode: str
) -> None:
    run = [sys.executable, "-c", PROGRAM, mode]
    killed = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    end_own_agent()
    shutil.rmtree(run_folder, ignore_errors=True)
    resumed = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split() == ["at", "4", content_of(4)]
    assert 6 in [version["version"] for version in kedge_json("ls")["versions"]]


def test_the_tools_work_on_a_bucket(s3_store: str, tmp_path: Path) -> None:
    field = np.random.default_rng(7).random((3 * MIB // 8, 2))
    with Context("climate", settings={"job.lease": "2s"}) as context:
        context.protect(0, field, "field")
        for version in (1, 2):
            field[0, 0] = version
            context.checkpoint("heat", version)
            context.wait("heat", version, Level.STORE)
    assert [version["version"] for version in kedge_json("ls", "heat")["versions"]] == [2, 1]
    assert "field" in kedge_text("inspect", "heat@2")
    kedge("verify")
    kedge("export", "heat@2", "-o", str(tmp_path / "out"))
    exported = next((tmp_path / "out").glob("*.npy"))
    np.testing.assert_array_equal(np.load(exported), field)

    # From the bucket to a folder, and back to another prefix.
    kedge("copy", "heat@2", str(tmp_path / "archive"))
    kedge("verify", "--store", str(tmp_path / "archive"))
    back = s3_store.replace("?", "-copy?")
    kedge("copy", "--store", str(tmp_path / "archive"), "heat@2", back)
    kedge("verify", "--store", back)
    assert [version["version"] for version in kedge_json("ls", "--store", back)["versions"]] == [2]

    kedge("rm", "climate/heat@1", "--yes")
    assert [version["version"] for version in kedge_json("ls", "heat")["versions"]] == [2]
    kedge("gc", "--yes")
    doctor = {finding["subject"]: finding for finding in kedge_json("doctor")["findings"]}
    assert doctor["store"]["state"] in ("ok", "note") and "s3://" in doctor["store"]["found"]
    kedge("rm", "climate", "--yes")
    assert kedge_json("ls")["versions"] == []


def test_images_of_a_node_lie_in_one_object(
    s3_store: str, run_folder: Path, end_own_agent: Callable[[], None]
) -> None:
    """Parts of the upload hold the end of one image and the beginning of another."""
    lengths = [1, 9 * MIB + 13, 12 * MIB, 300_001]

    def content(rank: int, version: int) -> NDArray[np.uint8]:
        return np.random.default_rng([rank, version]).integers(0, 256, lengths[rank], dtype=np.uint8)

    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("together", settings=settings, communicator=communicator) as context:
            array = np.zeros(lengths[rank], dtype=np.uint8)
            context.protect(0, array)
            for version in range(1, 4):
                array[:] = content(rank, version)
                context.checkpoint("t", version)
                context.wait("t", version, Level.STORE)

    def restart(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("together", settings=settings, communicator=communicator) as context:
            array = np.zeros(lengths[rank], dtype=np.uint8)
            context.protect(0, array)
            assert context.restart("t") == 3
            np.testing.assert_array_equal(array, content(rank, 3))

    settings = {"job.lease": "2s", "store.layout": "node", "keep.versions": 3, "chunk.size": "1MiB"}
    run_ranks(len(lengths), take)
    assert kedge_json("verify")["bad"] == 0
    objects = {
        image["object"]
        for version in kedge_json("ls")["versions"]
        for image in kedge_json("inspect", f"t@{version['version']}", "--all-ranks")["images"]
    }
    assert 3 <= len(objects) < 3 * len(lengths), "late ranks may have objects of their own, but not all are late"
    end_own_agent()
    shutil.rmtree(run_folder, ignore_errors=True)
    run_ranks(len(lengths), restart)


def test_secrets_stay_out_of_files_and_reports(s3_store: str, run_folder: Path, tmp_path: Path) -> None:
    with Context("secret") as context:
        array = np.ones(1000)
        context.protect(0, array)
        context.checkpoint("s", 1)
        context.wait("s", 1, Level.STORE)
        said = kedge_text("status", "--json") + kedge_text("config") + kedge_text("ls", "--all")
        files = [path for folder in (run_folder, tmp_path) for path in folder.rglob("*") if path.is_file()]
        assert files
        assert SECRET_KEY not in said
        assert [path for path in files if SECRET_KEY.encode() in path.read_bytes()] == []


def test_keys_that_the_server_does_not_know_are_named_in_plain_words(
    gateway: str, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    said = kedge_text("ls", "--store", f"s3://kedge-test/x?endpoint={gateway}", expect=3)
    assert "No user exists" in said and "not-the-secret" not in said
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert "no keys for S3" in kedge_text("ls", "--store", f"s3://kedge-test/x?endpoint={gateway}", expect=3)
