"""Jobs whose store is on a burst buffer: they are killed, or the server is, at each step; the tools work on it; room ends. What was
acknowledged is there, and nothing half is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from buffers import MIB, Buffer
from hosts import Hosts, needs_networks
from tool import KEDGE, kedge, kedge_json, kedge_text
from waiting import until

from kedge import Context, Level

# Takes versions from the newest on, 12 MiB each, and says which ones are safe.
PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np
    import kedge
    from kedge import Context, Level
    mode, last = sys.argv[1], int(sys.argv[2])
    array = np.zeros(12 << 17)
    with Context("points", settings={"job.mode": mode, "job.lease": "1s", "keep.versions": 9}) as context:
        context.protect(0, array)
        at = 0
        if (newest := context.newest("k")) is not None:
            context.restart("k")
            at = int(array[0])
            whole = np.random.default_rng(at).random(array.size)
            whole[0] = at
            assert at == newest and (array == whole).all(), f"version {newest} is not whole"
            print("restored", at, flush=True)
        for version in range(at + 1, last + 1):
            array[:] = np.random.default_rng(version).random(array.size)
            array[0] = version
            try:
                context.checkpoint("k", version)
                context.wait("k", version, Level.STORE)
                print("safe", version, flush=True)
            except kedge.Error as error:
                print("not safe", version, error, flush=True)
    """
)
SERVER_POINTS = (
    "buffer-store-opened",
    "buffer-store-written",
    "buffer-store-publish",
    "buffer-store-published",
    "buffer-store-record",
    "buffer-store-recorded",
)
# An agent that is killed has successors, which pass the same points: its first object must get by.
CLIENT_POINTS = (("buffer-store-sent:2", "sync"), ("buffer-store-commit:2", "sync"), ("buffer-store-commit:2", "async"))


@pytest.fixture
def store(buffer: Buffer, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store's path; it is the configuration's, too. No server runs."""
    buffer.configure(monkeypatch, "bb://fast/ckpt")
    return "bb://fast/ckpt"


def run(mode: str, last: int, kill_point: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"KEDGE_TEST_KILL_POINT": kill_point} if kill_point else {})
    command = [sys.executable, "-c", PROGRAM, mode, str(last)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)


def numbers(output: str, word: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{word} (\d+)", output, re.MULTILINE)]


def remains(buffer: Buffer) -> list[str]:
    """What lies in the store and no record of a complete version names, after a collection."""
    kedge("gc", "--yes", "--incomplete-age", "0", "--orphan-age", "0")
    versions = [version["version"] for version in kedge_json("ls", "k")["versions"]]
    named = {name for version in versions for name in re.findall(r"data/[\w.-]+", str(kedge_json("inspect", f"k@{version}", "--chunks")))}
    files = [path for path in buffer.files() if path.startswith("stores/")]
    data = [path for path in files if "/data/" in path and path[path.index("data/") :] not in named]
    return data + [path for path in files if path.endswith(".tmp")]


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_job_restarts_from_the_buffer_alone(
    buffer: Buffer, store: str, run_folder: Path, end_own_agent: Callable[[], None], mode: str
) -> None:
    with buffer.server():
        first = run(mode, 2)
        assert first.returncode == 0 and numbers(first.stdout, "safe") == [1, 2], first.stdout + first.stderr
        end_own_agent()
        shutil.rmtree(run_folder, ignore_errors=True)
    with buffer.server():
        resumed = run(mode, 3)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert numbers(resumed.stdout, "restored") == [2] and numbers(resumed.stdout, "safe") == [3]
        kedge("verify")
        end_own_agent()
        assert remains(buffer) == []
        until(lambda: buffer.state()["open_in_stores"] == 0)


def test_the_tools_work_on_a_burst_buffer(buffer: Buffer, store: str, tmp_path: Path) -> None:
    field = np.random.default_rng(7).random((3 * MIB // 8, 2))
    with buffer.server():
        with Context("climate", settings={"job.lease": "2s"}) as context:
            context.protect(0, field, "field")
            for version in (1, 2):
                field[0, 0] = version
                context.checkpoint("heat", version)
                context.wait("heat", version, Level.STORE)
        assert [version["version"] for version in kedge_json("ls", "heat")["versions"]] == [2, 1]
        assert "field" in kedge_text("inspect", "heat@2")
        kedge("verify", "--store", store)
        kedge("export", "heat@2", "-o", str(tmp_path / "out"))
        np.testing.assert_array_equal(np.load(next((tmp_path / "out").glob("*.npy"))), field)

        # To a folder, and back under another prefix, which is a store in a folder where the server is.
        kedge("copy", "heat@2", str(tmp_path / "archive"))
        kedge("copy", "--store", str(tmp_path / "archive"), "heat@2", "bb://fast/deep/copy")
        kedge("verify", "--store", "bb://fast/deep/copy")
        kedge("verify", "--store", str(buffer.root / "data/owners/alice/stores/deep/copy"))

        kedge("rm", "climate/heat@1", "--yes")
        assert [version["version"] for version in kedge_json("ls", "heat")["versions"]] == [2]
        kedge("gc", "--yes")
        doctor = {finding["subject"]: finding for finding in kedge_json("doctor")["findings"]}
        assert doctor["store"]["state"] in ("ok", "note") and "bb://fast/ckpt" in doctor["store"]["found"]
        assert "store uploads" not in doctor
        kedge("rm", "climate", "--yes")
        assert kedge_json("ls")["versions"] == []
    # Nobody serves it.
    said = kedge_text("ls", expect=3)
    assert "bb://fast/ckpt" in said
    doctor = {finding["subject"]: finding for finding in kedge_json("doctor", expect=1)["findings"]}
    assert doctor["store"]["state"] == "BAD"


def test_what_is_missing_in_the_configuration_is_named(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEDGE_BUFFER_OWNER")
    assert "buffer.owner is not set" in kedge_text("ls", expect=2)
    assert "needs a name" in kedge_text("ls", "--store", "bb://fast", expect=2)


def test_another_owner_sees_nothing(buffer: Buffer, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with buffer.server():
        assert numbers(run("sync", 1).stdout, "safe") == [1]
        assert kedge_json("ls")["versions"] != []
        monkeypatch.setenv("KEDGE_BUFFER_OWNER", "bob")
        monkeypatch.setenv("KEDGE_BUFFER_SECRET", str(buffer.root / "bob"))
        assert "holds no Kedge store" in kedge_text("ls", expect=1)
        monkeypatch.setenv("KEDGE_BUFFER_OWNER", "alice")
        kedge_text("ls", expect=4)


# async: the agent writes; sync: the application. The server is killed once at a step of its second object or record, and started
# again at once.
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("point", SERVER_POINTS)
def test_the_server_is_killed_at_a_step_of_a_version(
    buffer: Buffer, store: str, run_folder: Path, end_own_agent: Callable[[], None], point: str, mode: str
) -> None:
    with buffer.server():
        begun = run(mode, 1)
        assert numbers(begun.stdout, "safe") == [1], begun.stdout + begun.stderr
    with buffer.server(kill_point=f"{point}:2") as server:
        job = subprocess.Popen([sys.executable, "-c", PROGRAM, mode, "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.wait(60) == -signal.SIGKILL
    with buffer.server():
        output, error = job.communicate(timeout=150)
        safe = [1, *numbers(output, "safe")]
        # An agent brings all of them there. Of an application that writes itself one fails whose answer was lost.
        assert job.returncode != 0 or safe[-1] >= (3 if mode == "async" else 2), output + error
        end_own_agent()
        shutil.rmtree(run_folder, ignore_errors=True)
        resumed = run(mode, 4)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert numbers(resumed.stdout, "restored")[0] >= safe[-1]
        assert numbers(resumed.stdout, "safe")[-1] == 4
        kedge("verify")
        end_own_agent()
        until(lambda: remains(buffer) == [], 10)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "mode"), CLIENT_POINTS)
def test_whoever_writes_is_killed_at_a_step_of_a_version(
    buffer: Buffer, store: str, run_folder: Path, end_own_agent: Callable[[], None], point: str, mode: str
) -> None:
    with buffer.server():
        killed = run(mode, 2, point)
        assert (killed.returncode == -signal.SIGKILL) == (mode == "sync"), killed.stdout + killed.stderr
        safe = numbers(killed.stdout, "safe")
        end_own_agent()
        shutil.rmtree(run_folder, ignore_errors=True)
        until(lambda: remains(buffer) == [], 10)
        resumed = run(mode, 3)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert numbers(resumed.stdout, "restored") == [] or numbers(resumed.stdout, "restored")[0] >= max(safe, default=0)
        assert numbers(resumed.stdout, "safe")[-1] == 3
        end_own_agent()
        kedge("verify")
        assert remains(buffer) == []


def test_a_quota_ends_a_version_and_not_the_job(buffer: Buffer, store: str, end_own_agent: Callable[[], None]) -> None:
    with buffer.server("--capacity", "30MiB"):
        done = run("sync", 3)
        assert done.returncode == 0, done.stderr
        assert numbers(done.stdout, "safe") == [1, 2]
        assert re.search(r"^not safe 3 .*capacity.*remove files", done.stdout, re.MULTILINE), done.stdout
        end_own_agent()
        assert remains(buffer) == []
        assert buffer.state()["used_bytes"] < 26 * MIB


@needs_networks
def test_a_link_that_is_cut_while_a_version_is_copied(
    buffer: Buffer, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is told in time; the version is not there; when the link is back all is well."""
    monkeypatch.setenv("KEDGE_STORE_PATH", str(tmp_path / "local"))
    assert numbers(run("sync", 1).stdout, "safe") == [1]
    hosts = Hosts(buffer.root / "hosts", ["front", "server"], {"server": [*map(str, buffer.command()), "--interface", "10.77.0.2"]})
    try:
        until((buffer.root / "fast.buffer").exists)
        command = [*hosts.entered(), str(KEDGE), "copy", "--set", "net.interface=10.77.0.1", "k@1", "bb://fast/copy"]

        def copy() -> subprocess.Popen[str]:
            return subprocess.Popen(command, env=buffer.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        hosts.slow("40mbit")
        copying = copy()
        temporaries = buffer.root / "data/owners/alice/stores/copy"
        until(lambda: [path for path in temporaries.rglob("data/*.tmp") if path.stat().st_size > 1 << 20])
        hosts.cut("server")
        output, error = copying.communicate(timeout=120)
        assert copying.returncode in (3, 4), output + error
        hosts.mend("server")
        hosts.slow("1gbit")
        again = copy()
        output, error = again.communicate(timeout=120)
        assert again.returncode == 0, output + error
    finally:
        hosts.end()
    kedge("verify", "--store", str(temporaries))
