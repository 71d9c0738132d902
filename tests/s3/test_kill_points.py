"""Whoever uploads is killed at each step of an upload: nothing acknowledged is lost, and gc leaves nothing of it behind."""

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
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from servers import ACCESS_KEY, BUCKET, SECRET_KEY
from tool import KEDGE, kedge, kedge_json
from waiting import until

pytestmark = pytest.mark.slow
# Of the second version. A version has three parts, so two have arrived and one may be on its way at the fifth.
POINTS = ("s3-upload-begun:2", "s3-upload-marked:2", "s3-part-arrived:5", "s3-complete-before:2", "s3-completed:2")
COLLECT = ("gc", "--yes", "--incomplete-age", "0", "--orphan-age", "0")

# Takes versions from the newest on, 12 MiB each: parts of an upload, the last one not whole. Says which ones are safe.
PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np
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
            context.checkpoint("k", version)
            context.wait("k", version, Level.STORE)
            print("safe", version, flush=True)
    """
)


class Bucket:
    """What a server says of a store, without Kedge."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, **keys)
        self.prefix = prefix

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self.prefix)
        return [entry["Key"].removeprefix(self.prefix) for page in pages for entry in page.get("Contents", [])]

    def uploads(self) -> list[str]:
        listed = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)
        return [upload["Key"].removeprefix(self.prefix) for upload in listed.get("Uploads", [])]


@pytest.fixture
def bucket(s3_store: str) -> Bucket:
    match = re.match(rf"s3://{BUCKET}/(.*)\?", s3_store)
    assert match
    return Bucket(os.environ["AWS_ENDPOINT_URL"], match[1] + "/")


def run(mode: str, last: int, kill_point: str = "") -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, KEDGE_TEST_KILL_POINT=kill_point)
    command = [sys.executable, "-c", PROGRAM, mode, str(last)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def numbers(output: str, word: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{word} (\d+)$", output, re.MULTILINE)]


def data_objects(versions: list[int]) -> set[str]:
    """The names of the objects that the records of these versions name."""
    said = (kedge_json("inspect", f"k@{version}", "--chunks") for version in versions)
    return {name for one in said for name in re.findall(r"data/[\w.-]+", str(one))}


def remains(bucket: Bucket) -> list[str]:
    """What lies in the store and no record of a complete version names."""
    versions = sorted(version["version"] for version in kedge_json("ls", "k")["versions"])
    named = data_objects(versions)
    keys = bucket.keys()
    nameless = [key for key in keys if "/data/" in key and key[key.index("data/") :] not in named]
    temporary = [key for key in keys if key.endswith(".tmp") and not key.startswith("kedge.conditional-writes")]
    return nameless + temporary + [f"upload of {key}" for key in bucket.uploads()]


def collect(bucket: Bucket) -> list[str]:
    """What remains after a collection."""
    kedge(*COLLECT)
    return remains(bucket)


# async: the agent uploads, and is killed at its second object; its successor removes what it finds. sync: the application uploads,
# and nobody comes after it but gc. The store is looked at before a launch goes on from there, and after.
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_step_of_an_upload(
    bucket: Bucket, run_folder: Path, end_own_agent: Callable[[], None], point: str, mode: str
) -> None:
    killed = run(mode, 2, point)
    assert (killed.returncode == -signal.SIGKILL) == (mode == "sync"), killed.stdout + killed.stderr
    safe = numbers(killed.stdout, "safe")
    assert safe, "nothing to lose"
    end_own_agent()
    shutil.rmtree(run_folder, ignore_errors=True)
    assert remains(bucket) != [] or mode == "async"
    # A server says to whole seconds when an upload began: that one is older than none is certain a moment later.
    until(lambda: collect(bucket) == [], 10)
    resumed = run(mode, 3)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert numbers(resumed.stdout, "restored")[0] >= safe[-1]
    assert numbers(resumed.stdout, "safe")[-1] == 3
    end_own_agent()
    kedge("verify")
    assert collect(bucket) == []


def killed_at(point: str, *arguments: str) -> bool:
    """Whether the kedge command got to the point, and was killed there; otherwise it has done its work."""
    environment = dict(os.environ, KEDGE_TEST_KILL_POINT=point)
    command = [KEDGE, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode != 0


# The upload is gone then and its marker is not; or, where a server lets a part in behind an abort, both are there.
def test_killed_while_it_aborts_an_upload(bucket: Bucket) -> None:
    assert run("sync", 2, "s3-part-arrived:5").returncode == -signal.SIGKILL
    assert remains(bucket) != []
    until(lambda: killed_at("s3-aborted", *COLLECT), 10)
    assert remains(bucket) != [], "the marker"
    until(lambda: collect(bucket) == [], 10)
    assert [version["version"] for version in kedge_json("ls")["versions"]] == [1]
    kedge("verify")


# A removal begins with the version's record, goes on with parts and data, and ends with its own mark. The first version lies
# below a newer one; the second one is withdrawn.
@pytest.mark.parametrize("removed", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_killed_at_a_step_of_a_removal(bucket: Bucket, removed: int, steps: int) -> None:
    assert run("sync", 2).returncode == 0
    assert killed_at(f"s3-removed:{steps}", "rm", f"k@{removed}", "--yes")
    kept = 3 - removed
    assert [version["version"] for version in kedge_json("ls")["versions"]] == [kept]
    until(lambda: collect(bucket) == [], 10)
    kedge("verify")
    left = [key for key in bucket.keys() if f"/k/{removed}-1-{removed}/" in key]
    # The mark of what was withdrawn stays until a later version is complete.
    assert [key for key in left if not key.endswith("/removed")] == []
    assert removed == 2 or left == []
    resumed = run("sync", 3)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert numbers(resumed.stdout, "restored") == [kept]
