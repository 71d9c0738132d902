"""The kedge command against real stores, agents and damage."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Error, Level, NotFoundError
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import KEDGE, kedge, kedge_json
from waiting import until

pytestmark = pytest.mark.usefixtures("run_folder")


def image_object(store: Path, version: int) -> Path:
    """The data file of the newest generation of a version."""
    folders = sorted(path for path in (store / "jobs" / "climate" / "names" / "heat").iterdir() if path.name.startswith(f"{version}-"))
    objects = list((folders[-1] / "data").iterdir())
    assert len(objects) == 1
    return objects[0]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x01
    path.chmod(0o600)
    path.write_bytes(data)


def test_help_lists_every_command_with_examples() -> None:
    listing = kedge("--help").stdout
    for command in "ls inspect verify export copy gc rm clean pin unpin status top wait rebuild drain config doctor agent halt calibrate run".split():
        assert f"\n  {command} " in listing
        text = kedge(command, "--help").stdout
        assert re.search(rf"^Examples?:\n  (srun [a-z0-9= -]+)?kedge {command}\b", text, re.MULTILINE), text
        assert command == "agent" or "--json" in text
    assert "no kedge-no-such-command" in kedge("no-such-command", expect=2).stderr
    assert "tsubame2" in kedge("plan", "advise", "--list").stdout
    simulated = kedge_json("plan", "simulate", "tsubame2", "--transitions", "1200000", "--processes", "2")  # with processes of its own
    assert simulated["transitions"] >= 1_200_000
    kedge(expect=2)
    assert kedge("--version").stdout.strip()


def test_ls(store: Path) -> None:
    listing = kedge_json("ls")
    assert [(v["name"], v["version"]) for v in listing["versions"]] == [("heat", 30), ("heat", 20), ("other", 1)]
    assert all(v["complete"] and v["ranks"] == 1 and v["bytes"] == 195 for v in listing["versions"])
    text = kedge("ls").stdout
    assert "heat" in text and "complete" in text
    assert kedge_json("ls", "other")["versions"][0]["name"] == "other"


def test_every_command_takes_job_name_and_version_in_one_word(store: Path, tmp_path: Path) -> None:
    state = np.zeros(4)
    with Context("ocean") as context:
        context.protect(0, state, "x")
        for name, version in (("heat", 5), ("deep", 7)):
            context.checkpoint(name, version)
            context.wait(name, version, Level.STORE)

    def listed(*arguments: str) -> list[str]:
        return [f"{v['job']}/{v['name']}@{v['version']}" for v in kedge_json("ls", *arguments)["versions"]]

    assert listed("climate/heat") == ["climate/heat@30", "climate/heat@20"] and listed("climate/heat@20") == ["climate/heat@20"]
    assert listed("heat") == ["climate/heat@30", "climate/heat@20", "ocean/heat@5"], "a name of several jobs"
    assert listed("ocean") == ["ocean/deep@7", "ocean/heat@5"] and listed("heat", "--job", "ocean") == ["ocean/heat@5"]
    assert "nosuch" in kedge("ls", "nosuch", expect=1).stderr
    assert kedge_json("inspect", "deep")["job"] == "ocean", "the only job that has the name"
    assert kedge_json("inspect", "climate/heat@20")["version"] == 20
    assert "1.2" in kedge("ls", "climate/heat@20").stdout and kedge_json("inspect", "climate/heat@20.1.2")["take"] == 2
    kedge("inspect", "climate/heat@20.1.3", expect=1)
    ambiguous = kedge("inspect", "heat", expect=2).stderr
    assert "climate/heat" in ambiguous and "ocean/heat" in ambiguous
    assert kedge_json("inspect", "heat", "--job", "ocean")["version"] == 5, "the old way"
    assert [v["job"] for v in kedge_json("verify", "ocean")["versions"]] == ["ocean", "ocean"]
    assert kedge_json("verify", "ocean/deep@7")["verified"] == 1
    assert kedge_json("export", "ocean/deep@7", "-o", str(tmp_path / "out"))["job"] == "ocean"
    assert kedge_json("pin", "ocean/deep@7")["pinned"] and not kedge_json("unpin", "ocean/deep@7")["pinned"]
    assert kedge_json("copy", "ocean/deep@7", str(tmp_path / "archive"))["job"] == "ocean"
    assert kedge_json("wait", "ocean")["finished"] and not kedge_json("gc", "ocean")["items"]


def test_a_job_has_its_checkpoint_of_the_same_name() -> None:
    state = np.zeros(4)
    with Context("pic") as context:
        context.protect(0, state, "x")
        for name in ("pic", "other"):
            context.checkpoint(name, 3)
            context.wait(name, 3, Level.STORE)
    both = ["other", "pic"]
    for meant, names in (("pic", both), ("pic/pic", ["pic"]), ("pic@3", ["pic"])):
        assert sorted(entry["name"] for entry in kedge_json("ls", meant)["versions"]) == names, "each once"
        assert sorted(entry["name"] for entry in kedge_json("verify", meant)["versions"]) == names


def test_ls_says_how_long_attempts_lasted() -> None:
    """One that died without a sign of life: until the next began at most. One that is seen to live: until now."""
    subprocess.run([sys.executable, "-c", "import kedge, os; context = kedge.Context('lived'); os._exit(1)"], check=False, timeout=60)
    time.sleep(1)
    with Context("lived"):
        time.sleep(2)
        lasted = kedge("ls", "--attempts").stdout
    died = re.search(r"lived +1 +died .* < (\S+) s$", lasted, re.MULTILINE)
    assert died and 1 <= float(died[1]) < 60, lasted
    lives = re.search(r"lived +2 +lives .* > (\S+) s$", lasted, re.MULTILINE)
    assert lives and float(lives[1]) >= 2, lasted


def test_ls_shows_what_the_job_has_gone_back_from(store: Path) -> None:
    temperature, flags = np.asfortranarray(np.zeros((2, 3, 4))), np.zeros(3, dtype=bool)
    with Context("climate") as context:
        context.protect(0, temperature, "temperature")
        context.protect(1, flags, "flags")
        assert context.restart("heat", at_most=20) == 20
        context.checkpoint("heat", 25)
        context.wait("heat", 25, Level.STORE)
    states = {v["version"]: v["state"] for v in kedge_json("ls", "heat", "--all")["versions"]}
    assert states == {20: "complete", 25: "complete", 30: "abandoned"}
    assert "abandoned" in kedge("ls", "heat", "--all").stdout


def test_status_shows_what_the_job_has_gone_back_from(run_folder: Path) -> None:
    array = np.zeros(4)
    with Context("back", settings={"schedule.store": 0, "keep.local": 2}) as context:
        context.protect(0, array)
        for version in (20, 30):
            context.checkpoint("b", version)
            context.wait("b", version, Level.LOCAL)

        def abandoned() -> dict[int, bool]:
            return {v["version"]: v["abandoned"] for job in kedge_json("status")["jobs"] for v in job["versions"]}

        assert abandoned() == {20: False, 30: False}
        assert context.restart("b", at_most=20) == 20
        until(lambda: abandoned() == {20: False, 30: True})


def looked_ahead(*settings: str) -> dict[str, Any]:
    names = kedge_json("rebuild", "--look", "--job", "ahead", *(part for setting in settings for part in ("--set", setting)))["names"]
    assert [name["name"] for name in names] == ["h"]
    return {key: names[0][key] for key in ("version", "attempt", "on_nodes", "in_store")}


def test_what_a_launch_goes_on_from_is_foretold(tmp_path: Path) -> None:
    """A look ahead says of each life of a job what its next launch then restores."""
    state = np.zeros(1000)

    def life(*versions: int, restores: int = -1, **settings: object) -> None:
        options = {"job.lease": "1s", "keep.local": 3, "keep.versions": 5, **{key.replace("_", "."): value for key, value in settings.items()}}
        with Context("ahead", settings=options) as context:
            context.protect(0, state)
            if restores >= 0:
                assert context.restart("h") == restores and state[0] == restores
            for version in versions:
                state[:] = version
                context.checkpoint("h", version, overwrite=True)
                context.wait("h", version, Level.LOCAL)

    life(49, 50)
    assert looked_ahead() == {"version": 50, "attempt": 1, "on_nodes": True, "in_store": True}
    life(5, schedule_store=0)  # begins anew, and only this node knows of it
    assert looked_ahead() == {"version": 5, "attempt": 2, "on_nodes": True, "in_store": False}
    back = {"restart_version": 50, "restart_attempt": 1}
    set_back = ("restart.version=50", "restart.attempt=1")
    assert looked_ahead(*set_back) == {"version": 50, "attempt": 1, "on_nodes": False, "in_store": True}
    assert "expected both or none" in kedge("rebuild", "--look", "--job", "ahead", "--set", "restart.attempt=1", expect=2).stderr
    assert "h: 5, on the nodes" in kedge("rebuild", "--look", "--job", "ahead").stdout
    life(restores=5)
    life(restores=50, **back)
    assert looked_ahead()["version"] == 50, "the job has gone back to it"
    life(52, restores=50, **back)
    assert looked_ahead(*set_back)["version"] == 52
    life(restores=52, **back)
    (tmp_path / "store").rename(tmp_path / "away")
    life(55, restores=52, store_create="never", schedule_store=0)
    ahead = looked_ahead()
    assert (ahead["version"], ahead["on_nodes"], ahead["in_store"]) == (55, True, False)
    (tmp_path / "away").rename(tmp_path / "store")
    assert looked_ahead()["version"] == 55
    life(restores=55)


def test_ranks_that_take_different_versions_are_told_of(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        context, array = Context("apart", communicator=communicator), np.zeros(4)
        context.protect(0, array, "x")
        context.checkpoint("c", 10 + rank)
        together.wait(60)
        with pytest.raises(Error, match="version 1[01]"):
            context.close(drain=True)
        together.wait(60)
        # The job has ended within a second of its start, and its agent, which looks round each second, knows it still.
        if rank == 0:
            time.sleep(1.5)
            for job in (["--job", "apart"], []):
                said = kedge("wait", *job, "--timeout", "20s", expect=1).stderr
                assert all(part in said for part in ("rank 0", "version 10", "rank 1", "version 11"))

    run_ranks(2, take)
    assert {v["state"] for v in kedge_json("ls", "--job", "apart", "--all")["versions"]} == {"incomplete"}
    assert "version 10 on rank 0 and version 11 on rank 1" in kedge("ls", "--job", "apart", "--all").stdout
    assert "is not complete" in kedge("ls", "--job", "apart").stderr


def test_ranks_that_take_different_versions_are_told_of_without_an_agent() -> None:
    together = threading.Barrier(2)

    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        context, array = Context("astray", communicator=communicator, settings={"job.mode": "sync"}), np.zeros(4)
        context.protect(0, array, "x")
        for version in (1, 10 + rank):
            context.checkpoint("c", version)
            together.wait(60)
        if rank == 0:
            said = kedge("wait", "--job", "astray", "--timeout", "20s", expect=1).stderr
            assert all(part in said for part in ("rank 0", "version 10", "rank 1", "version 11"))
        together.wait(60)
        context.checkpoint("c", 20)  # a later one is whole again
        together.wait(60)
        if rank == 0:
            kedge("wait", "--job", "astray", "--timeout", "20s")
        together.wait(60)
        with pytest.raises(Error, match="version 1[01]"):
            context.close()

    run_ranks(2, take)


def test_ranks_that_are_one_call_apart_are_told_of() -> None:
    together = threading.Barrier(2)

    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        context, array = Context("onebehind", communicator=communicator), np.zeros(4)
        context.protect(0, array, "x")
        context.checkpoint("c", 5)
        context.wait("c", 5)
        if rank == 0:
            context.checkpoint("c", 10)
        for version in (20, 30):
            together.wait(60)
            context.checkpoint("c", version)
        together.wait(60)
        with pytest.raises(Error, match="same versions in the same order"):
            context.wait("c", 30, timeout=2.0)
        if rank == 0:
            assert "same versions in the same order" in kedge("wait", "--job", "onebehind", "--timeout", "20s", expect=1).stderr
            assert "same versions in the same order" in kedge("ls", "--job", "onebehind").stderr
        together.wait(60)
        with pytest.raises(Error, match="same versions in the same order"):
            context.close(drain=True)

    run_ranks(2, take)


def test_no_store_no_job_no_version(store: Path, tmp_path: Path) -> None:
    assert "holds no Kedge store" in kedge("ls", "--store", str(tmp_path / "nowhere"), expect=1).stderr
    assert '"nobody"' in kedge("ls", "--job", "nobody", expect=1).stderr
    kedge("inspect", "heat@99", expect=1)
    kedge("inspect", "heat@x", expect=2)
    kedge("inspect", "heat", "--rank", "5", expect=1)


def test_inspect(store: Path) -> None:
    image = kedge_json("inspect", "heat@20")["images"][0]
    temperature, flags = image["regions"]
    assert temperature["type"] == "float64" and temperature["shape"] == [2, 3, 4] and temperature["column_major"]
    assert flags["type"] == "bool" and flags["bytes"] == 3
    assert image["annotations"] == {"step": "20"}
    assert sum(extent["bytes"] for extent in image["extents"]) == 195
    text = kedge("inspect", "heat", "--extents").stdout
    assert "temperature" in text and "2 x 3 x 4 (column major)" in text and "CRC32C" in text
    assert "only rank 0" not in text
    several = kedge("inspect", expect=2).stderr
    assert "[JOB/]NAME[@VERSION] is needed" in several and "climate/heat, climate/other" in several


def test_inspect_needs_no_word_where_there_is_one_checkpoint(tmp_path: Path) -> None:
    """It says what it leaves out, and what of a shape is halo."""

    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("climate", communicator=communicator) as context:
            context.protect(0, np.zeros((4, 6)), "wave", global_shape=(4, 4), global_offset=(2 * rank, 0), halo=(1, 1))
            context.checkpoint("sea", 1)
            context.wait("sea", 1, Level.STORE)

    run_ranks(2, take)
    text = kedge("inspect").stdout
    assert "4 x 6 of 4 x 4 at 0 x 0, halo 1 x 1" in text and "only rank 0 of 2: --all-ranks" in text
    assert "only rank" not in kedge("inspect", "--rank", "1").stdout + kedge("inspect", "--all-ranks").stdout
    assert kedge_json("inspect")["images"][0]["regions"][0]["halo"] == [1, 1]


def test_verify_finds_a_flipped_byte(store: Path) -> None:
    assert kedge_json("verify")["bad"] == 0
    flip(image_object(store, 20), 100)
    report = kedge_json("verify", expect=1)
    assert report["bad"] == 1
    bad = next(version for version in report["versions"] if not version["good"])
    assert bad["version"] == 20 and bad["problems"]
    assert "BAD" in kedge("verify", "heat@20", expect=1).stdout
    kedge("verify", "heat@30")


def test_export(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kedge("export", "heat@20", "-o", str(out))
    temperature = np.load(out / "temperature.npy")
    assert temperature.flags.f_contiguous and temperature.shape == (2, 3, 4) and temperature[0, 0, 0] == 20
    assert np.load(out / "flags.npy").tolist() == [True, False, True]
    kedge("export", "heat@20", "-o", str(out), expect=1)  # there already
    kedge("export", "heat@20", "-o", str(out), "--force", "--raw", "--region", "flags")
    assert (out / "flags.raw").read_bytes() == b"\x01\x00\x01"
    file = tmp_path / "elsewhere" / "flags.npy"
    kedge("export", "heat@20", "-o", str(file), "--region", "flags")
    assert np.load(file).tolist() == [True, False, True]
    assert "names one file, and there are several regions" in kedge("export", "heat@20", "-o", str(tmp_path / "all.npy"), expect=2).stderr
    flip(image_object(store, 20), 3)
    assert "checksum" in kedge("export", "heat@20", "-o", str(tmp_path / "bad"), expect=1).stderr
    assert not list((tmp_path / "bad").iterdir())


def test_copy_to_another_store(store: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    kedge("copy", "heat@20", str(archive))
    listing = kedge_json("ls", "--store", str(archive))
    assert [v["version"] for v in listing["versions"]] == [20]
    assert listing["store_id"] != kedge_json("ls")["store_id"]
    kedge("verify", "--store", str(archive))
    kedge("copy", "heat@20", str(archive), expect=1)


def test_a_store_of_an_unknown_kind_is_refused_and_no_folder_is_made(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["copy", "heat@20", "s4://bucket/prefix"], ["ls", "--store", "s4://bucket"], ["ls", "--set", "store.path=s4://bucket"]):
        assert "no kind of store called s4://" in kedge(*command, expect=2).stderr
    assert list(tmp_path.glob("s4*")) == []


def test_pin_outlives_retention(store: Path) -> None:
    kedge("pin", "heat@20")
    assert "pinned" in kedge("ls").stdout
    array = np.zeros(4)
    with Context("climate") as context:
        context.protect(0, array)
        for version in (40, 50, 60):
            context.checkpoint("heat", version)
            context.wait("heat", version, Level.STORE)
    versions = [v["version"] for v in kedge_json("ls", "heat")["versions"]]
    assert 20 in versions and 30 not in versions and versions[0] == 60
    kedge("unpin", "heat@20")


def test_a_look_ahead_says_nothing_of_a_job_that_two_stores_had_at_the_path_of_one_that_is_gone(tmp_path: Path) -> None:
    """It does not say that this node knows nothing of the job: who believes that may begin anew."""
    settings, array = {"schedule.store": 0, "job.lease": "1s"}, np.zeros(4)
    for create in ("last", "anew"):
        with Context("twice", settings=settings | {"store.create": create}) as context:
            context.protect(0, array)
            context.checkpoint("h", 1)
            context.wait("h", 1, Level.LOCAL)
        (tmp_path / "store").rename(tmp_path / f"gone-{create}")  # at once: the agent writes there
    assert "knows job twice of 2 stores" in kedge("rebuild", "--look", "--job", "twice", "--json", expect=3).stderr


def test_a_look_ahead_on_a_node_that_is_none_of_the_jobs_says_so(tmp_path: Path) -> None:
    array = np.zeros(4)
    with Context("there", settings={"schedule.store": 0, "job.lease": "1s"}) as context:
        context.protect(0, array)
        context.checkpoint("h", 1)
        context.wait("h", 1, Level.LOCAL)
        host = kedge_json("ls", "--attempts", "there")["attempts"][-1]["host"]
        until(lambda: list((tmp_path / "store").rglob("reached*")))
        looked = kedge("rebuild", "--look", "--job", "there")
        assert looked.stdout == "h: 1, on the nodes\n" and "none of job" not in looked.stderr
        looked = kedge("rebuild", "--look", "--job", "there", "--set", "node.name=other", "--set", f"node.run_folder={tmp_path}/other")
    assert "h: not in the store, and the job's nodes were not asked: there/h version 1" in looked.stdout and "lost" not in looked.stdout
    assert "this node (other) is none of job there's" in looked.stderr and f"rank 0 of its last launch was on {host}" in looked.stderr


def test_that_one_rank_alone_takes_checkpoints_is_told() -> None:
    """By gc at once, and by the next launch."""

    def life(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("lonely", communicator=communicator) as context:
            context.protect(0, np.zeros(9))
            with pytest.raises(NotFoundError) as none:
                context.restart("c")
            messages.append(str(none.value))
            if rank == 0 and len(messages) <= 2:
                context.checkpoint("c", 5)

    messages: list[str] = []
    run_ranks(2, life)
    assert all("there is no version of 'c' that all ranks can restore" in message and "rank 1" not in message for message in messages)
    begin = time.monotonic()
    assert "1 incomplete version may still be carried to the store" in kedge("gc", "lonely").stdout
    assert time.monotonic() - begin < 20, "nobody's sign of life is waited for: it stays in any case"
    run_ranks(2, life)
    assert all("the store has no image of rank 1 of version 5" in message for message in messages[2:])


def test_gc_shows_then_removes(store: Path) -> None:
    abandoned = store / "jobs" / "climate" / "names" / "heat" / "99-1-9" / "data"
    abandoned.mkdir(parents=True)
    (abandoned / "r0").write_bytes(b"never finished")
    time.sleep(1.5)  # the attempt falls silent
    assert not kedge_json("gc")["items"]  # newer than the newest complete version: may still be carried there
    shown = kedge_json("gc", "--incomplete-age", "0")
    assert any("99" in item["what"] for item in shown["items"]) and not shown["removed"]
    assert abandoned.exists()
    kedge("gc", "--yes", "--incomplete-age", "0")
    assert not abandoned.exists()
    assert [v["version"] for v in kedge_json("ls", "heat")["versions"]] == [30, 20]


def test_config_says_where_values_come_from(tmp_path: Path) -> None:
    (tmp_path / "kedge.toml").write_text('[keep]\nversions = 7\n')
    keys = {entry["key"]: entry for entry in kedge_json("config", "--set", "flush.workers=3")["keys"]}
    assert keys["keep.versions"]["value"] == "7" and "kedge.toml:2" in keys["keep.versions"]["origin"]
    assert keys["store.path"]["origin"] == "KEDGE_STORE_PATH"
    assert keys["flush.workers"]["value"] == "3"
    (tmp_path / "kedge.toml").write_text('[keep]\nversion = 7\n')
    assert "keep.versions" in kedge("config", expect=2).stderr


def test_doctor(tmp_path: Path) -> None:
    findings = {finding["subject"]: finding for finding in kedge_json("doctor")["findings"]}
    assert findings["store"]["state"] != "BAD" and "io_uring" in findings and "page tracking" in findings
    assert "held writes" in findings
    (tmp_path / "file").write_text("")
    bad = kedge_json("doctor", "--set", f"store.path={tmp_path / 'file' / 'store'}", expect=1)
    assert bad["bad"]
    # As a job that finds no parent there, and makes none unasked.
    deep = f"store.path={tmp_path / 'unmounted' / 'store'}"
    found = {f["subject"]: f for f in kedge_json("doctor", "--set", deep, expect=1)["findings"]}["store"]
    assert found["state"] == "BAD" and str(tmp_path / "unmounted") in found["found"] and "store.create" in found["advice"]
    kedge("doctor", "--set", deep, "--set", "store.create=parents")
    named = kedge_json("doctor", "--set", deep, "--store", str(tmp_path))["findings"]
    assert str(tmp_path) in {f["subject"]: f for f in named}["store"]["found"]
    assert not (tmp_path / "unmounted").exists()


def test_doctor_says_what_the_stores_file_system_tells_of_stripes(tmp_path: Path) -> None:
    def finding(*settings: str) -> dict[str, str]:
        found = kedge_json("doctor", "--set", f"store.path={tmp_path}", *settings)["findings"]
        return next(finding for finding in found if finding["subject"] == "store stripes")

    assert finding()["state"] == "ok" and "none" in finding()["found"]
    assert finding("--set", "store.targets=4")["state"] == "note"


def test_doctor_looks_at_a_tier_as_the_agent_will() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        os.chmod(shared, 0o1777)
        own = Path(shared) / f"kedge-{os.geteuid()}-here"
        settings = ("--set", "node.name=here", "--set", f"tier=[{{name='disk', path='{shared}', capacity='64MiB'}}]")

        def tier(expect: int) -> tuple[str, str]:
            findings = {finding["subject"]: finding for finding in kedge_json("doctor", *settings, expect=expect)["findings"]}
            return findings["tier disk"]["state"], findings["tier disk"]["found"]

        state, found = tier(0)
        assert state == "ok" and f"{own} (will be made in {shared})" in found
        own.symlink_to("/tmp")
        state, found = tier(1)
        assert state == "BAD" and f"{own} is a symbolic link" in found
        own.unlink()
        own.mkdir()
        own.chmod(0o755)
        state, found = tier(1)
        assert state == "BAD" and "with mode 0700" in found
        own.chmod(0o700)
        state, found = tier(0)
        assert state == "ok" and "will be made" not in found and not list(own.iterdir())


def test_a_node_without_room_is_told_of_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def take(rank: int, communicator: ThreadedCommunicator) -> None:
        settings = {"pool.size": "512KiB", "keep.versions": "2"}
        with Context("cramped", communicator=communicator, settings=settings) as context:
            context.protect(0, np.zeros(1 << 16), "x")
            for version in (1, 2, 3):
                context.checkpoint("c", version)
            assert context.wait("c", 3, Level.STORE) is None
        if rank == 0:
            findings = {f["subject"]: f for f in kedge_json("doctor", "--set", "pool.size=512KiB", expect=1)["findings"]}
            assert findings["tier pool"]["state"] == "BAD" and "less than one chunk" in findings["tier pool"]["found"]

    run_ranks(2, take)
    said = [line for line in capfd.readouterr().err.splitlines() if "client:" in line]
    assert len(said) == 1, said
    assert all(part in said[0] for part in ("no room for checkpoints", "less than one chunk", "node.run_folder", "[[tier]]"))


def test_doctor_compares_the_store_with_what_is_to_be_kept(store: Path) -> None:
    def room(*settings: str) -> dict[str, str] | None:
        findings = kedge_json("doctor", *settings)["findings"]
        return next((f for f in findings if f["subject"] == "store room"), None)

    assert room() is None
    short = room("--set", "keep.versions=1000000000")
    assert short and short["state"] == "note" and "climate/heat" in short["found"] and "keep.versions" in short["advice"]


def test_doctor_looks_at_the_run_folder(tmp_path: Path) -> None:
    def folder(*settings: str) -> tuple[str, str]:
        findings = {finding["subject"]: finding for finding in kedge_json("doctor", *settings)["findings"]}
        return findings["run folder"]["state"], findings["run folder"]["found"]

    state, found = folder("--set", f"node.run_folder={tmp_path / 'run' / '%n'}", "--set", "node.name=here")
    assert state == "ok" and str(tmp_path / "run" / "here") in found
    assert folder("--set", "pool.size=1000TiB")[0] == "note"


def test_doctor_measures_this_node_where_no_job_is_known(store: Path) -> None:
    def network(report: Any) -> dict[str, str]:
        assert "network" not in report
        return {finding["subject"]: finding for finding in report["findings"]}["network"]

    # An agent runs, whose job does not protect across nodes.
    finding = network(kedge_json("doctor", "--net"))
    assert finding["state"] == "ok" and "knows no job" in finding["found"] and "two ends on this node" in finding["found"]
    assert "protect.scheme" in finding["advice"]
    assert "climate" in kedge("doctor", "--net", "--job", "climate", expect=1).stderr
    kedge("doctor", "--job", "climate", expect=2)
    # None runs.
    elsewhere = ("--set", "node.run_folder=/dev/shm/kedge-no-agent-is-here")
    finding = network(kedge_json("doctor", "--net", *elsewhere))
    assert finding["state"] == "ok" and "no agent runs" in finding["found"]
    assert "no agent runs" in kedge("doctor", "--net", "--job", "climate", *elsewhere, expect=3).stderr


def test_wait_and_status_with_an_agent(store: Path) -> None:
    assert kedge_json("wait", "--timeout", "60s")["finished"]
    status = kedge_json("status")
    assert status["tiers"][0]["slots"] > 0
    assert "pool" in kedge("status").stdout
    assert [job["job"] for job in kedge_json("status", "climate")["jobs"]] == ["climate"]
    with Context("another"):
        assert "climate" in kedge("status").stdout and "climate" not in kedge("status", "another").stdout
        assert {session["job"] for session in kedge_json("status", "--job=another")["sessions"]} == {"another"}
    assert 'has no job "nosuch"; it has: ' in kedge("status", "nosuch", expect=1).stderr
    assert "pool" in kedge("top", "--once").stdout


@pytest.mark.parametrize("command", [["wait"], ["wait", "--level=node"], ["drain", "--job"], ["gc"]])
def test_a_job_that_nobody_knows_is_an_error(store: Path, command: list[str]) -> None:
    said = kedge(*command, "nosuch", expect=1).stderr
    assert 'has no job "nosuch"; it has: climate' in said


def test_wait_knows_a_job_that_only_nodes_know(store: Path, tmp_path: Path) -> None:
    """The store's record of it is on its way again when the store was away."""
    (store / "jobs" / "climate").rename(tmp_path / "away")
    assert kedge("wait", "climate").stdout == "everything is durable\n"
    kedge("agent", "--stop")
    assert 'has no job "climate"' in kedge("wait", "climate", expect=1).stderr


def test_a_job_without_an_agent_is_known(store: Path) -> None:
    kedge("agent", "--stop")
    assert kedge("wait", "climate").stdout == "everything is durable\n"


def test_wait_names_what_is_not_meant_for_the_store(store: Path) -> None:
    data = np.zeros(10)
    with Context("climate", settings={"schedule.store": 0}) as context:
        context.protect(0, data)
        for version in (40, 50):
            context.checkpoint("heat", version)
    text = " ".join(kedge("wait").stdout.split())
    assert "durable" not in text and "not meant for it, by schedule.store, and only on nodes: climate/heat@50;" in text
    assert kedge_json("wait", "climate")["not_for_the_store"] == ["climate/heat@50"]
    for level in ("local", "node", "buffer", "store"):
        assert kedge("wait", "--level", level).stdout == f"everything is at level {level} that is to get there\n"
    assert "level" in kedge("wait", "--level", "staging", expect=2).stderr
    assert "level" in kedge("drain", "--job", "climate", "--level", "node", expect=2).stderr
    said = kedge("drain", "--job", "climate", "--level", "buffer").stdout
    assert said == "2 versions survive on the nodes; 0 images came to this node; this node's part is at level buffer\n"
    assert kedge("wait").stdout == "everything is durable\n"
    assert kedge_json("ls", "climate/heat")["versions"][0]["version"] == 50


def test_wait_tells_of_a_flush_that_failed_before(store: Path) -> None:
    names = store / "jobs" / "climate" / "names"
    names.rename(names.with_name("away"))
    names.write_text("no folder")
    data = np.zeros(10)
    with pytest.raises(Error), Context("climate") as context:
        context.protect(0, data)
        context.checkpoint("heat", 40)
    assert "heat version 40" in kedge("wait", expect=1).stderr
    names.unlink()
    names.with_name("away").rename(names)
    with Context("climate") as context:
        context.protect(0, data)
        context.checkpoint("heat", 50)
    assert kedge("wait").stdout == "everything is durable\n"


def test_the_agent_leaves_when_it_is_told_to(store: Path, run_folder: Path) -> None:
    assert kedge_json("status")["pid"]
    kedge("agent", "--stop")
    kedge("status", expect=3)
    assert not run_folder.exists(), "everything was in the store"
    assert "no agent runs" in kedge("agent", "--stop", expect=3).stderr
    assert len(kedge_json("ls")["versions"]) == 3


def test_an_agent_that_awaits_protection_is_on_the_network_before_any_job(run_folder: Path) -> None:
    def opens(**settings: str) -> bool:
        process = subprocess.Popen([KEDGE, "agent"], env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "other nodes reach this one at" in line:
                    return True
                if "serves node" in line and not settings:
                    time.sleep(2)
                    return (run_folder / "address").exists()
            return False
        finally:
            process.terminate()
            process.communicate(timeout=30)

    assert not opens()
    assert opens(KEDGE_PROTECT_SCHEME="xor", KEDGE_NET_INTERFACE="127.0.0.1")


def test_of_several_nodes_one_is_meant(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_NODE_RUN_FOLDER", f"{run_folder}-%n")
    monkeypatch.setenv("KEDGE_NODE", "here")
    with Context("climate"):
        pass
    monkeypatch.setenv("KEDGE_NODE", "elsewhere")
    assert kedge_json("status", "--node=here")["node"] == "here"
    kedge("status", expect=3)
    kedge("halt", "--node=here", expect=1)
    assert "node here" in kedge("top", "--once", "--node=here").stdout
    kedge("agent", "--stop", "--node=here")
    kedge("status", "--node=here", expect=3)


def test_status_without_an_agent() -> None:
    assert "no agent runs" in kedge("status", expect=3).stderr
    kedge("wait")


def test_whoever_asks_for_a_node_without_an_agent_is_told_which_have_one(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_NODE_RUN_FOLDER", str(run_folder.parent / "%n"))
    for node in ("n1", "n2"):
        monkeypatch.setenv("KEDGE_NODE", node)
        Context("climate").close()
    monkeypatch.setenv("KEDGE_NODE", "n3")
    told = kedge("halt", "climate", expect=3).stderr
    assert re.search(r"no agent runs for node n3 .*; n1, n2 have one here: KEDGE_NODE=n1 names it$", told.strip()), told


def test_an_external_program_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kedge-greet"
    program.write_text('#!/bin/sh\necho "hello $1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert kedge("greet", "world").stdout == "hello world\n"


def test_calibrate_measures_shows_and_reuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "calibrations"
    monkeypatch.setenv("KEDGE_TIER", f'[{{name="ssd", path="{tmp_path / "ssd"}", capacity="12MiB"}}]')
    monkeypatch.setenv("KEDGE_CHUNK_SIZE", "1MiB")
    nothing = kedge_json("calibrate", "--show", expect=1)
    assert [tier["calibrated"] for tier in nothing["tiers"]] == [False, False] and not folder.exists()

    measured = kedge_json("calibrate", "--writers", "40", "--time", "4s")
    assert measured["folder"] == str(folder)
    pool, ssd = measured["tiers"]
    assert (pool["name"], pool["kind"], ssd["name"], ssd["kind"]) == ("pool", "memory", "ssd", "directory")
    assert [sample["writers"] for sample in pool["samples"]] == [1, 14, 27, 40]
    assert [sample["writers"] for sample in ssd["samples"]] == [1, 4, 7, 10], "as many as it has slots"
    for tier in (pool, ssd):
        assert tier["origin"] == "measured" and tier["chunk_bytes"] == 1 << 20 and tier["kernel"]
        assert all(sample["bytes_per_second"] > 0 and sample["rounds"] >= 1 for sample in tier["samples"])
        assert [point["writers"] for point in tier["curve"]] == list(range(1, tier["samples"][-1]["writers"] + 1))
        assert Path(tier["file"]).read_text().startswith("kedge calibration 1\n")
        for sample in tier["samples"]:
            assert tier["curve"][sample["writers"] - 1]["bytes_per_second"] == pytest.approx(sample["bytes_per_second"], rel=1e-6)
    left = [path for path in tmp_path.rglob("*") if "-calibration" in path.name]
    assert not left and not list(Path(os.environ["KEDGE_NODE_RUN_FOLDER"]).parent.glob("*-calibration")), "nothing stays on the tiers"

    again = kedge("calibrate", "--tier", "ssd")
    assert "--again measures it anew" in again.stderr and "writers" in again.stdout and " |" in again.stdout
    assert kedge_json("calibrate", "--show") == measured, "reused as it was"
    assert kedge_json("calibrate", "--again", "--tier", "ssd", "--writers", "2", "--time", "1s")["tiers"][0]["samples"][-1]["writers"] == 2

    picture = tmp_path / "tiers.png"
    kedge("calibrate", "--show", "--png", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG") and json.loads((tmp_path / "tiers.png.json").read_text())["tiers"]


def test_calibrate_refuses_what_it_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no tier of that name" in kedge("calibrate", "--tier", "nosuch", expect=2).stderr
    kedge("calibrate", "--time", "soon", expect=2)
    monkeypatch.setenv("KEDGE_TIER", f'[{{name="small", path="{tmp_path / "small"}", capacity="1MiB"}}]')
    monkeypatch.setenv("KEDGE_CHUNK_SIZE", "4MiB")
    assert "less than one chunk" in kedge("calibrate", "--tier", "small", expect=3).stderr
    folder = tmp_path / "calibrations"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another kedge calibrate" in kedge("calibrate", "--tier", "pool", expect=1).stderr
    # A damaged one is named, not used.
    done = kedge("calibrate", "--tier", "pool", "--writers", "1", "--time", "1s")
    assert f"kept in {folder}/memory-" in done.stderr and "agents that start from now on" in done.stderr
    assert "--png" in kedge("calibrate", "--show", "--tier", "pool", "--png", str(tmp_path / "nosuch" / "x.png"), expect=1).stderr
    file = next(folder.glob("memory-*.measured"))
    file.write_text(file.read_text().replace("sample 1 ", "sample 2 "))
    assert str(file) in kedge_json("calibrate", "--show", "--tier", "pool", expect=1)["tiers"][0]["reason"]


def test_status_says_where_chunks_went_and_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_TIER", f'[{{name="ssd", path="{tmp_path / "ssd"}", capacity="64MiB"}}]')
    monkeypatch.setenv("KEDGE_POOL_SIZE", "4MiB")
    monkeypatch.setenv("KEDGE_CHUNK_SIZE", "1MiB")
    monkeypatch.setenv("KEDGE_CHUNK_PIECE", "256KiB")
    state = np.random.default_rng(1).random(2 << 20)  # 16 chunks
    with Context("placed") as context:
        context.protect(0, state, "state")
        for version in (1, 2, 3):
            context.checkpoint("state", version)
            context.wait("state", version, Level.STORE)
        status = kedge_json("status")
        text = kedge("status").stdout
    placement = status["placement"]
    assert sum(placement["chunks"].values()) >= 3 * 16 and set(placement["chunks"]) <= {"pool", "ssd", "store"}
    versions = status["jobs"][0]["versions"]
    assert sum(sum(version["placement"]["chunks"].values()) for version in versions) <= sum(placement["chunks"].values())
    assert all(sum(version["placement"]["chunks"].values()) >= 16 for version in versions)
    tiers = {tier["name"]: tier for tier in status["tiers"]}
    assert tiers["ssd"]["writers"] == tiers["pool"]["writers"] == 0, "nobody writes now"
    learned = {name: tier["learned_chunks"] for name, tier in tiers.items()}
    assert sum(learned.values()) >= 16 and any(tier["calibration"] == "learned" for tier in tiers.values())
    judged = [tier for tier in tiers.values() if tier["judged_chunks"] > 0]
    assert judged and all(tier["model_error"] >= 0 and tier["observed_bytes_per_second"] > 0 for tier in judged)
    assert status["jobs"][0]["flush_bytes_per_second"] > 0
    assert "model error" in text and "chunks:" in text
